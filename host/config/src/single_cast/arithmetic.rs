//! A cast as text, as the arithmetic takes it.

use altgrad_casts::{
    Block, Cast, Hadamard, Limit, NonFinite, Operation, Order, Rounding, Rule, Scaling, Signs, Storage,
    ZeroBlock,
};

use super::{
    AmaxChoice, BlockChoice, CastRoundingChoice, CastScalingSection, CastSection, NonFiniteChoice,
    OperationChoice, ScaleLimitChoice, ScaleOrderChoice, ScaleRuleChoice, ScaleTypeChoice, SignsChoice,
    TensorScaleChoice, TransformSection, TransformTypeChoice, ZeroBlockChoice,
};

impl CastSection {
    /// The cast, without its format.
    #[must_use]
    pub fn cast(&self) -> Cast {
        let block = block(self.block);
        Cast {
            rounding: self.rounding.rounding(),
            block,
            // Without blocks there are no scales to follow from anything.
            scaling: if block == Block::None { Scaling::default() } else { scaling(&self.scaling) },
            transform: self.transform.as_ref().map(transform),
        }
    }
}

impl CastRoundingChoice {
    /// The rounding.
    #[must_use]
    pub fn rounding(self) -> Rounding {
        match self {
            Self::NearestEven => Rounding::NearestEven,
            Self::NearestAway => Rounding::NearestAway,
            Self::NearestZero => Rounding::NearestZero,
            Self::NearestUp => Rounding::NearestUp,
            Self::TowardZero => Rounding::TowardZero,
            Self::Stochastic => Rounding::Stochastic,
        }
    }
}

fn block(choice: BlockChoice) -> Block {
    match choice {
        BlockChoice::None => Block::None,
        BlockChoice::Tensor => Block::Tensor,
        BlockChoice::Row => Block::Row,
        BlockChoice::Along(along) => Block::Along(along as usize),
        BlockChoice::Tile(extents) => Block::Tile(extents.map(|extent| extent as usize)),
    }
}

fn transform(section: &TransformSection) -> Hadamard {
    Hadamard {
        size: section.hadamard,
        signs: match section.signs {
            SignsChoice::None => Signs::None,
            SignsChoice::Te => Signs::Te,
            SignsChoice::Seed => Signs::Seed,
        },
        to_bf16: section.to == TransformTypeChoice::Bf16,
    }
}

fn scaling(section: &CastScalingSection) -> Scaling {
    let storage = match section.storage {
        ScaleTypeChoice::F32 => Storage::F32,
        ScaleTypeChoice::E8m0 => Storage::E8m0,
        ScaleTypeChoice::E4m3 => Storage::E4m3,
    };
    let by_default = if storage == Storage::E8m0 { ZeroBlockChoice::Smallest } else { ZeroBlockChoice::One };
    Scaling {
        rule: match section.rule {
            ScaleRuleChoice::Max => Rule::Max,
            ScaleRuleChoice::Floor => Rule::Floor,
            ScaleRuleChoice::Ceil => Rule::Ceil,
            ScaleRuleChoice::Even => Rule::Even,
            ScaleRuleChoice::Rceil => Rule::Rceil,
            ScaleRuleChoice::Rms => Rule::Rms { deviations: section.deviations },
        },
        storage,
        pow2: section.pow2,
        order: match section.order {
            ScaleOrderChoice::Encode => Order::Encode,
            ScaleOrderChoice::Decode => Order::Decode,
        },
        tensor: section.tensor == TensorScaleChoice::F32,
        margin: section.margin,
        floor: section.floor,
        limit: match section.limit {
            ScaleLimitChoice::Normal => Limit::Normal,
            ScaleLimitChoice::F32 => Limit::F32,
        },
        zero: match section.zero.unwrap_or(by_default) {
            // Of delayed scaling, which has no blocks of its own.
            ZeroBlockChoice::One | ZeroBlockChoice::Keep => ZeroBlock::One,
            ZeroBlockChoice::Smallest => ZeroBlock::Smallest,
            ZeroBlockChoice::Normal => ZeroBlock::MinNormal,
        },
        nonfinite: match section.nonfinite {
            NonFiniteChoice::Skip => NonFinite::Skip,
            NonFiniteChoice::Poison => NonFinite::Poison,
        },
        factor: section.factor,
        quantize: operation(section.quantize),
        dequantize: operation(section.dequantize),
        amax: section.static_amax.filter(|_| section.amax == AmaxChoice::Static),
    }
}

fn operation(choice: OperationChoice) -> Operation {
    match choice {
        OperationChoice::Multiply => Operation::Multiply,
        OperationChoice::Divide => Operation::Divide,
    }
}

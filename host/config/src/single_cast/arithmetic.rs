//! A cast as text, as the arithmetic takes it.

use altgrad_casts::{
    Axis, Block, Cast, ErrorNorm, FewBits, FewBitsMode, Hadamard, Limit, NonFinite, Operation, Order,
    Overflow, Rounding, Rule, ScaleChoice, ScaleRounding, Scaling, Signs, Storage, ZeroBlock,
};

use super::{
    AmaxChoice, BlockChoice, CastRoundingChoice, CastScalingSection, CastSection, CenterChoice, ErrorChoice,
    NonFiniteChoice, OperationChoice, OverflowChoice, RandomModeChoice, ScaleArithmeticChoice,
    ScaleLimitChoice, ScaleOrderChoice, ScaleRoundingChoice, ScaleRuleChoice, ScaleTypeChoice,
    ScaledBackChoice, SignsChoice, TensorScaleChoice, TransformSection, TransformTypeChoice, ZeroBlockChoice,
};

impl CastSection {
    /// The cast, without its format.
    #[must_use]
    pub fn cast(&self) -> Cast {
        let block = block(self.block);
        Cast {
            rounding: self.few_bits().unwrap_or(self.rounding.rounding()),
            block,
            // Without blocks there are no scales to follow from anything.
            scaling: if block == Block::None { Scaling::default() } else { self.scaling() },
            transform: self.transform.as_ref().map(transform),
            center: (self.center == CenterChoice::Tokens).then_some(Axis::Columns),
            overflow: match self.overflow {
                OverflowChoice::Saturate => Overflow::Saturate,
                OverflowChoice::NonFinite => Overflow::NonFinite,
            },
        }
    }

    /// Stochastic rounding with few random bits, if they are given.
    fn few_bits(&self) -> Option<Rounding> {
        let bits = self.random_bits.filter(|_| self.rounding == CastRoundingChoice::Stochastic)?;
        let mode = match self.random_mode {
            RandomModeChoice::A => FewBitsMode::A,
            RandomModeChoice::B => FewBitsMode::B,
            RandomModeChoice::C => FewBitsMode::C,
            RandomModeChoice::Odd => FewBitsMode::Odd,
        };
        Some(Rounding::FewBits(FewBits { bits: u8::try_from(bits).unwrap_or(u8::MAX), mode }))
    }

    fn scaling(&self) -> Scaling {
        let chosen = self.scaling.choice.filter(|norm| *norm != ErrorChoice::None);
        let choice = chosen.map(|norm| ScaleChoice {
            norm: match norm {
                ErrorChoice::Mse | ErrorChoice::None => ErrorNorm::Squares,
                ErrorChoice::Mae => ErrorNorm::Magnitudes,
                ErrorChoice::Max => ErrorNorm::Largest,
            },
            factors: self.scaling.candidates.map_or(ScaleChoice::FOUR_OVER_SIX, |candidates| candidates.0),
            ties_away: self.rounding == CastRoundingChoice::NearestAway,
        });
        Scaling { choice, ..scaling(&self.scaling) }
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
        ScaleTypeChoice::Minifloat(own) => Storage::Minifloat(own),
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
            ScaleOrderChoice::Amax => Order::Amax,
            ScaleOrderChoice::Product => Order::Product,
            ScaleOrderChoice::DecodeMost => Order::DecodeMost,
            ScaleOrderChoice::DecodeTensor => Order::DecodeTensor,
            ScaleOrderChoice::DecodeTarget => Order::DecodeTarget,
        },
        tensor: section.tensor != TensorScaleChoice::None,
        to_bf16: section.tensor == TensorScaleChoice::Bf16,
        most: section.tensor_target,
        target: section.target,
        outer: section.outer,
        correction: section.correction,
        round: match section.round {
            ScaleRoundingChoice::Nearest => ScaleRounding::Nearest,
            ScaleRoundingChoice::Up => ScaleRounding::Up,
            ScaleRoundingChoice::Stochastic => ScaleRounding::Stochastic,
        },
        choice: None,
        microexponents: section.microexponents.0,
        in_bf16: section.arithmetic == ScaleArithmeticChoice::Bf16,
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
            ZeroBlockChoice::StoredOne => ZeroBlock::StoredOne,
            ZeroBlockChoice::StoredSmallest => ZeroBlock::StoredSmallest,
        },
        nonfinite: match section.nonfinite {
            NonFiniteChoice::Skip => NonFinite::Skip,
            NonFiniteChoice::Poison => NonFinite::Poison,
        },
        factor: section.factor,
        quantize: match section.quantize {
            OperationChoice::Multiply => Operation::Multiply,
            OperationChoice::Divide => Operation::Divide,
        },
        dequantize: match section.dequantize {
            ScaledBackChoice::Multiply => Operation::Multiply,
            ScaledBackChoice::Divide => Operation::Divide,
            ScaledBackChoice::Nested => Operation::Nested,
        },
        amax: section.static_amax.filter(|_| section.amax == AmaxChoice::Static),
    }
}

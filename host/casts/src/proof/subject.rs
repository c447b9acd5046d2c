//! A cast of single elements under given scales, by the functions of a cast of a tensor.

use altgrad_plugin_api::{PluginError, QuantParams, Rounding as Mode, Tabulated, ValueGrid};

use crate::{
    Block, BlockStatistics, Cast, CastError, Grid, Operation, Overflow, Range, Rounding, Rule,
    overflow::exceeds, scaling::BlockScale,
};

/// A cast and its format.
pub(super) struct Subject<'a> {
    /// The cast with its transform.
    pub(super) whole: &'a Cast,
    /// The cast without it.
    pub(super) cast: Cast,
    pub(super) grid: &'a Grid,
    /// The range of the format with the cast's target.
    pub(super) range: Range,
    pub(super) rounder: Tabulated,
    /// The finite values, ascending.
    pub(super) points: Vec<f32>,
}

/// The two extreme values that an element may have, one for the least and one for the largest random word.
pub(super) type Outcomes = [f32; 2];

impl<'a> Subject<'a> {
    pub(super) fn new(whole: &'a Cast, grid: &'a Grid) -> Result<Self, CastError> {
        let rounder = grid.rounder().map_err(|error| refused(&error))?;
        let cast = Cast { transform: None, ..*whole };
        let range = cast.scaling.range(grid.range());
        Ok(Self { whole, cast, grid, range, rounder, points: grid.values().finite_values().to_vec() })
    }

    /// True if the scales of a block follow from its largest magnitude.
    pub(super) fn depends_on_amax_only(&self) -> bool {
        self.cast.block == Block::None
            || !self.cast.scaling.tensor && !matches!(self.cast.scaling.rule, Rule::Rms { .. })
    }

    pub(super) fn is_random(&self) -> bool {
        matches!(self.cast.rounding, Rounding::Stochastic | Rounding::FewBits(_))
    }

    /// True if each value has its negative.
    pub(super) fn is_symmetric(&self) -> bool {
        self.points.iter().zip(self.points.iter().rev()).all(|(a, b)| *a == -*b)
    }

    /// The least value above 0.
    pub(super) fn least(&self) -> f32 {
        self.grid.values().min_positive()
    }

    /// The scales that a block with this largest magnitude may have: one, or those of the candidates.
    pub(super) fn scales(&self, amax: f32) -> Vec<BlockScale> {
        let scaling = &self.cast.scaling;
        if self.cast.block == Block::None {
            return vec![BlockScale::ONE];
        }
        let block = BlockStatistics::of_amax(amax);
        let of = |factor| scaling.scale_by(&self.range, &block, None, factor, 0);
        match scaling.choice {
            Some(choice) => choice.factors.into_iter().filter(|factor| *factor > 0.0).map(of).collect(),
            None => vec![of(1.0)],
        }
    }

    pub(super) fn scaled(&self, x: f32, scale: &BlockScale) -> f32 {
        self.cast.scaling.quantize.quantize(x, [scale.encode, scale.decode])
    }

    pub(super) fn restored(&self, point: f32, scale: &BlockScale) -> f32 {
        self.cast.scaling.dequantize.dequantize(point, [scale.encode, scale.decode])
    }

    /// The product of the factors before and after rounding.
    pub(super) fn gain(&self, pair: [f32; 2]) -> f64 {
        let [encode, decode] = pair.map(f64::from);
        let of = |operation, multiplied: f64, other: f64| match operation {
            Operation::Multiply | Operation::Nested => multiplied,
            Operation::Divide => 1.0 / other,
        };
        of(self.cast.scaling.quantize, encode, decode) * of(self.cast.scaling.dequantize, decode, encode)
    }

    /// The extreme results of rounding scaled elements.
    pub(super) fn rounded(&self, scaled: &[f32]) -> Result<Vec<Outcomes>, CastError> {
        let cast = &self.cast;
        let encode = |scaled: &[f32], mode: Mode| {
            let mode = if mode == Mode::STOCHASTIC { Mode::TOWARD_ZERO } else { mode };
            let mut codes = vec![0; scaled.len()];
            let params = QuantParams { rounding: mode, ..QuantParams::IDENTITY };
            self.rounder.encode(scaled, &mut codes, &params).map(|()| codes)
        };
        let by = |word: u32| {
            cast.codes_by(self.grid, scaled, std::iter::repeat(word), encode).map_err(|error| refused(&error))
        };
        let (least, most) = (by(0)?, by(u32::MAX)?);
        let point = |code: u16, x: f32| {
            let point = self.grid.decode(code);
            if point == 0.0 { point.copysign(x) } else { point }
        };
        let mut outcomes: Vec<Outcomes> = scaled
            .iter()
            .zip(least.iter().zip(&most))
            .map(|(x, (a, b))| [point(*a, *x), point(*b, *x)])
            .collect();
        if cast.rounding == Rounding::Stochastic {
            for (x, outcome) in scaled.iter().zip(&mut outcomes) {
                outcome[1] = self.outer(*x, outcome[0]);
            }
        }
        Ok(outcomes)
    }

    /// The other neighbour of an element, if stochastic rounding may take it; else `inner`, the one toward zero.
    fn outer(&self, x: f32, inner: f32) -> f32 {
        if !inner.is_finite() || inner == x || exceeds(Rounding::TowardZero, self.grid.values(), x, 0) {
            return inner;
        }
        let above = self.points.partition_point(|point| *point <= x);
        let neighbours = [above.checked_sub(1), Some(above)].map(|index| self.points.get(index?).copied());
        let outer = neighbours.into_iter().flatten().find(|neighbour| *neighbour != inner);
        let Some(outer) = outer else { return inner };
        let distance = (f64::from(x) - f64::from(inner)) / (f64::from(outer) - f64::from(inner));
        // Minifloats round the probability down to 2^-32.
        let is_possible = distance >= 2f64.powi(-32) || matches!(self.grid.values(), ValueGrid::Table(_));
        if is_possible { outer } else { inner }
    }

    /// The extreme values of an element.
    pub(super) fn values(&self, x: f32, scale: &BlockScale) -> Result<Outcomes, CastError> {
        let scaled = self.scaled(x, scale);
        let outcomes = self.rounded(&[scaled])?;
        Ok(outcomes[0].map(|point| self.restored(point, scale)))
    }

    /// The mean result of rounding a scaled element, over all random words.
    pub(super) fn mean(&self, scaled: f32) -> f64 {
        let values = self.grid.values();
        let (least, most) = (f64::from(values.min_finite()), f64::from(values.max_finite()));
        let x = f64::from(scaled);
        if self.cast.overflow == Overflow::Saturate && (x <= least || x >= most) {
            return x.clamp(least, most);
        }
        let Rounding::FewBits(few) = self.cast.rounding else { return x };
        let above = self.points.partition_point(|point| *point <= scaled);
        let (Some(low), Some(high)) = (self.points.get(above.wrapping_sub(1)), self.points.get(above)) else {
            return x;
        };
        let [inner, outer] = if x > 0.0 { [*low, *high] } else { [*high, *low] }.map(f64::from);
        if inner == x || outer == x {
            return x;
        }
        let d = (x - inner) / (outer - inner);
        // The number of words that go away from zero: the largest ones.
        let bits = u32::from(few.bits);
        let (mut low, mut high) = (0u64, 1u64 << bits);
        while low < high {
            let middle = u64::midpoint(low, high);
            if few.is_up(d, ((middle << (32 - bits)) & u64::from(u32::MAX)) as u32) {
                high = middle
            } else {
                low = middle + 1
            }
        }
        let up = ((1u64 << bits) - low) as f64 / (1u64 << bits) as f64;
        inner + up * (outer - inner)
    }
}

pub(super) fn refused(error: &PluginError) -> CastError {
    CastError::fields(error.message.to_string(), "use a format that has a code for each of its results")
}

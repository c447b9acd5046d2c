//! Scales chosen by error: of several candidates, a block takes the one whose rounding is nearest to its elements.
//!
//! Four over six (arXiv:2512.02010) has the candidates 1 and 1.5 for E2M1: the largest magnitude becomes 6 or 4.

use crate::{
    BlockStatistics, ErrorNorm, Operation, ScaleChoice, Scaling,
    grid::Range,
    powers::{floor_log2, wide_exp2},
    scaling::BlockScale,
    two_levels::TensorScale,
};

/// Elements whose errors are added one after the other; sums of more are added as a tree: Transformer Engine's for
/// tiles of 16 x 16.
const RUN: usize = 16;

impl Scaling {
    /// The scale of a block with these elements, all of them in the order of its rows, by the candidate with the
    /// smallest error.
    #[must_use]
    pub fn choose(
        &self,
        range: &Range,
        block: &BlockStatistics,
        tensor: Option<&TensorScale>,
        values: impl Iterator<Item = f32> + Clone,
    ) -> [f32; 2] {
        self.chosen(range, block, tensor, values, 0).0.pair()
    }

    /// The chosen scale, and the number of its candidate; `word` is that of scales that are rounded at random.
    pub(crate) fn chosen(
        &self,
        range: &Range,
        block: &BlockStatistics,
        tensor: Option<&TensorScale>,
        values: impl Iterator<Item = f32> + Clone,
        word: u32,
    ) -> (BlockScale, u8) {
        let plain = |factor| self.scale_by(range, block, tensor, factor, word);
        let Some(ScaleChoice { norm, factors, ties_away }) = self.choice else { return (plain(1.0), 0) };
        let error = |scale: &BlockScale| {
            let errors = values.clone().map(|x| {
                let scaled = self.quantize.quantize(x, [scale.encode, scale.decode]);
                let value = self.restored(range, scale, tensor, nearest(range, scaled, ties_away));
                value - x
            });
            measured(norm, errors)
        };
        let mut best = (plain(factors[0]), 0);
        let mut least = error(&best.0);
        for (index, factor) in (1u8..).zip(factors[1..].iter().copied().filter(|factor| *factor > 0.0)) {
            let scale = plain(factor);
            let found = error(&scale);
            if found < least {
                (best, least) = ((scale, index), found);
            }
        }
        best
    }

    /// The value whose error is taken: with the order of four over six the nested one, as in the sources.
    fn restored(&self, range: &Range, scale: &BlockScale, tensor: Option<&TensorScale>, point: f32) -> f32 {
        let tensor = tensor.filter(|_| self.order.divides_amax() || self.dequantize == Operation::Nested);
        match tensor {
            Some(tensor) => self.nested(range, scale, tensor, point),
            None => self.dequantize.dequantize(point, [scale.encode, scale.decode]),
        }
    }
}

fn measured(norm: ErrorNorm, errors: impl Iterator<Item = f32>) -> f32 {
    let mut sums: Vec<f32> = Vec::with_capacity(RUN);
    for (index, error) in errors.enumerate() {
        if index % RUN == 0 {
            sums.push(0.0);
        }
        if let Some(sum) = sums.last_mut() {
            match norm {
                ErrorNorm::Squares => *sum += error * error,
                ErrorNorm::Magnitudes => *sum += error.abs(),
                // NaN stays.
                ErrorNorm::Largest => *sum = if error.abs() <= *sum { *sum } else { error.abs() },
            }
        }
    }
    while sums.len() > 1 {
        let half = sums.len().div_ceil(2);
        for index in half..sums.len() {
            let other = sums[index];
            let sum = &mut sums[index - half];
            match norm {
                ErrorNorm::Largest => *sum = if other <= *sum { *sum } else { other },
                _ => *sum += other,
            }
        }
        sums.truncate(half);
    }
    sums.first().copied().unwrap_or(0.0)
}

/// The nearest value of a minifloat, with the sign of `x`.
fn nearest(range: &Range, x: f32, ties_away: bool) -> f32 {
    /// Added to a number below 2^51 it leaves a whole number, ties to even.
    const WHOLE: f64 = (1u64 << 52) as f64;
    let magnitude = x.abs();
    if magnitude >= range.largest || x.is_nan() {
        return if x.is_nan() { x } else { range.largest.copysign(x) };
    }
    if magnitude == 0.0 {
        return x;
    }
    let step = floor_log2(magnitude).max(range.emin) - range.significand_bits.unwrap_or(0) as i32;
    // Exact: powers of two.
    let steps = f64::from(magnitude) * wide_exp2(-step);
    let steps = if ties_away { (steps + 0.5).floor() } else { steps + WHOLE - WHOLE };
    ((steps * wide_exp2(step)) as f32).min(range.largest).copysign(x)
}

//! Scales chosen by error: of several candidates, a block takes the one whose rounding is nearest to its elements.
//!
//! Four over six (arXiv:2512.02010) has the candidates 1 and 1.5 for E2M1: the largest magnitude becomes 6 or 4.

use multiversion::multiversion;

use crate::{
    BlockStatistics, ErrorNorm, Operation, ScaleChoice, Scaling,
    nested::Nested,
    powers::{floor_log2, wide_exp2},
    range::Range,
    scaling::BlockScale,
    two_levels::TensorScale,
};

/// Elements whose errors are added one after the other; sums of more are added as a tree: Transformer Engine's for
/// tiles of 16 x 16.
const RUN: usize = 16;
type Run = [f32; RUN];

impl Scaling {
    /// The scale of a block with these elements, all of them in the order of its rows, by the candidate with the
    /// smallest error.
    #[must_use]
    pub fn choose(
        &self,
        range: &Range,
        block: &BlockStatistics,
        tensor: Option<&TensorScale>,
        values: &[f32],
    ) -> [f32; 2] {
        self.chosen(range, block, tensor, values, 0).0.pair()
    }

    /// The chosen scale, and the number of its candidate; `word` is that of scales that are rounded at random.
    pub(crate) fn chosen(
        &self,
        range: &Range,
        block: &BlockStatistics,
        tensor: Option<&TensorScale>,
        values: &[f32],
        word: u32,
    ) -> (BlockScale, u8) {
        let plain = |factor| self.scale_by(range, block, tensor, factor, word);
        let Some(choice) = self.choice else { return (plain(1.0), 0) };
        let mut best = (plain(choice.factors[0]), 0);
        let mut least = error(self, range, &best.0, tensor, choice, values);
        for (index, factor) in (1u8..).zip(choice.factors[1..].iter().copied().filter(|factor| *factor > 0.0))
        {
            let scale = plain(factor);
            let found = error(self, range, &scale, tensor, choice, values);
            if found < least {
                (best, least) = ((scale, index), found);
            }
        }
        best
    }
}

/// The error of a block at a scale.
#[multiversion(targets("x86_64+avx2+avx512f+avx512bw+avx512dq+avx512vl", "x86_64+avx2"))]
fn error(
    scaling: &Scaling,
    range: &Range,
    scale: &BlockScale,
    tensor: Option<&TensorScale>,
    choice: ScaleChoice,
    values: &[f32],
) -> f32 {
    let ScaleChoice { norm, ties_away, .. } = choice;
    // The value whose error is taken: with the order of four over six the nested one, as in the sources.
    let is_nested = scaling.order.divides_amax() || scaling.dequantize == Operation::Nested;
    let nested = tensor.filter(|_| is_nested).map(|tensor| Nested::new(scaling, range, tensor));
    let pair = [scale.encode, scale.decode];
    let sum_of = |values: &[f32]| {
        let mut run: Run = [0.0; RUN];
        run[..values.len()].copy_from_slice(values);
        let mut points = run;
        scaling.quantize.quantize_all(&mut points, pair);
        nearest(range, &mut points, ties_away);
        match &nested {
            Some(nested) => nested.restore(&mut points, scale),
            None => scaling.dequantize.dequantize_all(&mut points, pair),
        }
        let mut sum = 0f32;
        for (v, x) in points.iter().zip(&run).take(values.len()) {
            let error = v - x;
            sum = match norm {
                ErrorNorm::Squares => sum + error * error,
                ErrorNorm::Magnitudes => sum + error.abs(),
                // NaN stays.
                ErrorNorm::Largest => {
                    if error.abs() <= sum {
                        sum
                    } else {
                        error.abs()
                    }
                }
            };
        }
        sum
    };
    if values.len() <= RUN {
        return sum_of(values);
    }
    let mut sums: Vec<f32> = values.chunks(RUN).map(sum_of).collect();
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

/// Rounds to the nearest values of a minifloat, with their signs.
#[inline(always)]
fn nearest(range: &Range, run: &mut Run, ties_away: bool) {
    /// Added to a number below 2^22 it leaves a whole number, ties to even.
    const WHOLE: f32 = (1u32 << 23) as f32;
    let significand_bits = range.significand_bits.unwrap_or(0) as i32;
    // Steps are normal numbers, and so are their inverses.
    if range.emin - significand_bits < -125 || significand_bits > 20 {
        run.iter_mut().for_each(|x| *x = nearest_of_wide(range, *x, ties_away));
        return;
    }
    for x in run {
        let magnitude = x.abs().min(range.largest);
        let step = ((magnitude.to_bits() >> 23) as i32 - 127).max(range.emin) - significand_bits;
        let [unit, inverse] = [step, -step].map(|e| f32::from_bits(((e + 127) as u32) << 23));
        // Exact: powers of two.
        let steps = magnitude * inverse;
        let even = steps + WHOLE - WHOLE;
        let whole = if ties_away && steps - even == 0.5 { even + 1.0 } else { even };
        let value = (whole * unit).min(range.largest).copysign(*x);
        *x = if x.is_nan() { *x } else { value };
    }
}

/// The same for any format, with the arithmetic of f64.
fn nearest_of_wide(range: &Range, x: f32, ties_away: bool) -> f32 {
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

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use altgrad_plugin_api::{Conventions, Domain, FormatSpec, ValueGrid, grid::minifloat};

    use super::*;

    /// Random numbers of all sizes, every tie and its neighbours, and what is no number.
    #[test]
    fn fast_rounding_is_that_of_f64() {
        for (exponent, significand, domain) in [
            (2, 1, Domain::FIN),
            (4, 3, Domain::FN),
            (5, 2, Domain::IEEE),
            (0, 3, Domain::FIN),
            (8, 7, Domain::IEEE),
        ] {
            let spec = FormatSpec::Minifloat(minifloat(exponent, significand, domain).unwrap());
            let values = ValueGrid::new(&spec).unwrap();
            let range = Range::new(&values, &Conventions::default());
            let mut state = 1u32;
            let random = (0..20_000).map(|_| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                f32::from_bits(state)
            });
            let finite = values.finite_values();
            let ties = finite.windows(2).flat_map(|pair| {
                let tie = (pair[0] + pair[1]) / 2.0;
                [pair[0], tie.next_down(), tie, tie.next_up()]
            });
            let special = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 0.0, -0.0, f32::MAX];
            let all: Vec<f32> = random.chain(ties).chain(special).collect();
            for run in all.chunks(RUN) {
                for ties_away in [false, true] {
                    let mut rounded = [0.0; RUN];
                    rounded[..run.len()].copy_from_slice(run);
                    nearest(&range, &mut rounded, ties_away);
                    for (x, rounded) in run.iter().zip(rounded) {
                        let expected = nearest_of_wide(&range, *x, ties_away);
                        assert_eq!(rounded.to_bits(), expected.to_bits(), "E{exponent}M{significand} {x:e}");
                    }
                }
            }
        }
    }
}

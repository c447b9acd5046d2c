//! The warning about a format that zeroes small elements of the logit gradient: its range is narrow for the vocabulary.

use altgrad_plugin_api::{Rounding, ValueGrid};

use crate::quant::{Role, Scaling, TensorQuantizer};

/// The increase of the held-out loss over fp32, nats per token, by load: the vocabulary over the limit of step 0.
/// Measured in results/vocabulary with 256 tokens and 200 steps, five seeds per load.
const INCREASES: [(f64, f64); 6] =
    [(0.065, 0.003), (0.286, 0.029), (0.508, 0.064), (1.008, 0.133), (2.133, 0.396), (10.667, 0.714)];
/// The smallest increase that is worth a warning: what five seeds can tell from none there.
const NOTICEABLE: f64 = 0.02;

/// The largest vocabulary whose logit gradient a format keeps at step 0, with one scale for a token's elements.
///
/// The gradient of a token is its softmax minus 1 at the target. With initial weights the other elements are about 1/V,
/// so the largest is V - 1 times as large; scaled to `target`, they become zero up to half of the smallest value with
/// ties to even (below the whole of it toward zero, which keeps one token more). Infinite for a format without zero,
/// and if the mean of the rounded elements is right.
fn limit(values: &ValueGrid, target: f32, rounding: Rounding) -> f64 {
    let kept_from = match rounding {
        Rounding::STOCHASTIC => return f64::INFINITY,
        Rounding::TOWARD_ZERO => 1.0,
        _ => 0.5,
    };
    if values.value_at(0.0) != 0.0 {
        return f64::INFINITY;
    }
    f64::from(target) / (kept_from * f64::from(values.min_positive()))
}

/// The increase at a load, linear in its logarithm between measured ones, 0 below them and constant beyond. Tokens
/// become rarer than at step 0, so that it does not begin at a load of 1.
fn increase(load: f64) -> f64 {
    let Some(above) = INCREASES.iter().position(|(measured, _)| load < *measured) else {
        return INCREASES[INCREASES.len() - 1].1;
    };
    let Some([(from, low), (to, high)]) =
        above.checked_sub(1).map(|below| [INCREASES[below], INCREASES[above]])
    else {
        return 0.0;
    };
    low + (high - low) * (load / from).ln() / (to / from).ln()
}

/// True if a token's elements share a scale that follows from them.
fn is_scaled_together(site: &TensorQuantizer, vocabulary: usize) -> bool {
    let shares = match site.role {
        // A row is a token.
        Role::Grad => site.blocks(vocabulary).block_columns >= vocabulary as u64,
        _ => site.has_one_scale(),
    };
    shares && !matches!(site.scaling, Scaling::None)
}

/// The warning about the logit gradient, if one of these sites rounds it like that.
pub(super) fn warning<'a>(
    sites: impl Iterator<Item = &'a TensorQuantizer>,
    vocabulary: usize,
) -> Option<String> {
    let gradients = sites.filter(|site| matches!(site.role, Role::Grad | Role::GradWgrad));
    let mut narrow = gradients.filter(|site| is_scaled_together(site, vocabulary)).filter_map(|site| {
        let limit = limit(site.format.values(), site.format.amax_target(), site.rounding);
        let load = vocabulary as f64 / limit;
        let increase = increase(load);
        (increase >= NOTICEABLE).then_some((site, limit, load, increase))
    });
    narrow.next().map(|(site, limit, load, increase)| {
        format!(
            "{} zeroes small elements of the logit gradient, `{}`: with one scale, rounded {}, it keeps those of up to {:.0} equally \
             probable tokens, and this vocabulary has {vocabulary}, {load:.2} times as many; at this ratio, small models of 256 tokens \
             ended about {increase:.2} nats per token above fp32; round this gradient stochastically, in blocks, or to a format with a \
             wider range",
            site.format.plugin().identity.name,
            site.layer,
            site.rounding.name().unwrap_or("to nearest"),
            limit.floor(),
        )
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use altgrad_plugin_api::FormatSpec;

    use super::*;

    #[test]
    fn the_limit_is_the_range_of_a_format() {
        let table = |values: &[f32]| ValueGrid::new(&FormatSpec::Table(values.to_vec().into())).unwrap();
        // E2M1: 6 over half of 0.5.
        let e2m1 = [-6.0, -4.0, -3.0, -2.0, -1.5, -1.0, -0.5, -0.0, 0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0];
        let e2m1 = table(&e2m1);
        assert_eq!(limit(&e2m1, 6.0, Rounding::NEAREST_EVEN), 24.0);
        assert_eq!(limit(&e2m1, 6.0, Rounding::TOWARD_ZERO), 12.0);
        assert_eq!(limit(&e2m1, 6.0, Rounding::STOCHASTIC), f64::INFINITY);
        let without_zero = table(&[-1.0, -0.5, 0.5, 1.0]);
        assert_eq!(limit(&without_zero, 1.0, Rounding::NEAREST_EVEN), f64::INFINITY);
    }

    #[test]
    fn increases_are_those_of_the_committed_losses() {
        let records = include_str!("../../../../results/vocabulary/losses.csv");
        let losses = |case: &str| -> Vec<f64> {
            let prefix = format!("256,{case},");
            let rows = records.lines().filter_map(|row| row.strip_prefix(prefix.as_str()));
            rows.map(|row| row.split(',').next_back().unwrap().parse().unwrap()).collect()
        };
        let fp32 = losses("fp32");
        // Largest over smallest value.
        let formats = [
            ("E3M4", 1984.0),
            ("E3M2", 448.0),
            ("E2M5", 252.0),
            ("E1M6", 127.0),
            ("E2M3", 60.0),
            ("E2M1", 12.0),
        ];
        for ((case, ratio), (load, increase)) in formats.into_iter().zip(INCREASES) {
            let minus = losses(case).iter().zip(&fp32).map(|(loss, fp32)| loss - fp32).sum::<f64>() / 5.0;
            assert!((256.0 / (2.0 * ratio) - load).abs() < 5e-4, "{case}: {load}");
            assert!((minus - increase).abs() < 5e-4, "{case}: {minus}");
        }
    }

    #[test]
    fn the_increase_is_that_of_measured_loads_and_between_them() {
        for (load, measured) in INCREASES {
            assert!((increase(load) - measured).abs() < 1e-12, "{load}");
        }
        let [(from, low), (to, high)] = [INCREASES[2], INCREASES[3]];
        let middle = increase((from * to).sqrt());
        assert!((middle - (low + high) / 2.0).abs() < 1e-12, "{middle}");
        assert_eq!([increase(0.0), increase(0.01), increase(1e9)], [0.0, 0.0, 0.714]);
    }
}

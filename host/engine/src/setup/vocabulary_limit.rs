//! The warning about a format that zeroes most of the gradient at the head: its range is too narrow for the vocabulary.

use altgrad_plugin_api::{Rounding, ValueGrid};

use crate::quant::{Role, Scaling, TensorQuantizer};

/// The largest vocabulary whose gradient at the head a format keeps, with one scale for a token's elements.
///
/// The gradient of a token is its softmax minus 1 at the target. With initial weights the other elements are about 1/V, so
/// the largest is V - 1 times as large; scaled to `target`, they become zero below half of the smallest value (below the whole
/// of it toward zero). Infinite for a format without zero, and if the mean of the rounded elements is right.
fn limit(values: &ValueGrid, target: f32, rounding: Rounding) -> f64 {
    let kept_from = match rounding {
        Rounding::STOCHASTIC => return f64::INFINITY,
        Rounding::TOWARD_ZERO => 1.0,
        _ => 0.5,
    };
    if values.value_at(0.0) != 0.0 {
        return f64::INFINITY;
    }
    f64::from(target) / (kept_from * f64::from(values.min_positive())) + 1.0
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

/// The warning about the gradient at the head, if one of these sites rounds it like that.
pub(super) fn warning<'a>(
    sites: impl Iterator<Item = &'a TensorQuantizer>,
    vocabulary: usize,
) -> Option<String> {
    let gradients = sites.filter(|site| matches!(site.role, Role::Grad | Role::GradWgrad));
    let mut narrow = gradients.filter_map(|site| {
        let limit = limit(site.format.values(), site.format.amax_target(), site.rounding);
        (vocabulary as f64 > limit && is_scaled_together(site, vocabulary)).then_some((site, limit))
    });
    narrow.next().map(|(site, limit)| {
        format!(
            "{} zeroes most of the gradient at the head, `{}`: with one scale, rounded {}, a vocabulary may have up to {:.0} tokens, \
             and this one has {vocabulary}; round this gradient stochastically, in blocks, or to a format with a wider range",
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
        assert_eq!(limit(&e2m1, 6.0, Rounding::NEAREST_EVEN), 25.0);
        assert_eq!(limit(&e2m1, 6.0, Rounding::TOWARD_ZERO), 13.0);
        assert_eq!(limit(&e2m1, 6.0, Rounding::STOCHASTIC), f64::INFINITY);
        let without_zero = table(&[-1.0, -0.5, 0.5, 1.0]);
        assert_eq!(limit(&without_zero, 1.0, Rounding::NEAREST_EVEN), f64::INFINITY);
    }
}

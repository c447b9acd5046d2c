//! Warnings of choices of a run file without effect: patterns of sinks, formats, and the grids of an optimizer.

use std::collections::BTreeSet;

use altgrad_config::{QuantSection, RunConfig};
use wildmatch::WildMatch;

use crate::{
    metrics::MetricId,
    model::{Layout, layout::ParamId},
    optimizer::OptimizerState,
    quant::{QuantPlan, Role},
};

/// Warns of all choices without effect; `casts` are those of all phases, `metrics` those that a row may contain.
pub(super) fn warn(
    config: &RunConfig,
    casts: &[&QuantPlan],
    metrics: &[MetricId],
    (optimizer, layout): (&OptimizerState, &Layout),
) {
    warn_of_patterns(config, metrics);
    warn_of_transforms(casts, optimizer, layout);
    let rounded = casts.iter().flat_map(|quant| quant.sites()).map(|site| site.role).collect();
    for idle in idle_formats(&config.quant, &rounded) {
        tracing::warn!("{idle}");
    }
}

/// Warns of a pattern of a sink that matches no metric: a typing error, or a file that is shared with runs that have
/// more metrics.
fn warn_of_patterns(config: &RunConfig, metrics: &[MetricId]) {
    for (index, sink) in config.sink.iter().enumerate() {
        for (list, patterns) in [("include", &sink.include), ("exclude", &sink.exclude)] {
            for pattern in patterns {
                let matcher = WildMatch::new(pattern);
                if !metrics.iter().any(|metric| matcher.matches(&metric.to_string())) {
                    tracing::warn!(
                        "`sink.{index}.{list}`: the pattern `{pattern}` matches no metric of this run"
                    );
                }
            }
        }
    }
}

/// Warns of an optimizer whose rule depends on grids, where weights have a format but lie on none.
fn warn_of_transforms(casts: &[&QuantPlan], optimizer: &OptimizerState, layout: &Layout) {
    let misses = |id: &ParamId| casts.iter().any(|quant| optimizer.misses_grid(quant, layout, *id));
    let missing: Vec<ParamId> = (0..layout.specs.len()).filter(misses).collect();
    if let Some(first) = missing.first() {
        tracing::warn!(
            "optimizer `{}` depends on the grids of weights, and weights that are transformed before they are rounded lie on none: it updates {} of them, `{}` first, like parameters without a format",
            optimizer.identity().name,
            missing.len(),
            layout.specs[*first].name
        );
    }
}

/// The formats of `[quant]` that round nothing, if the tensors of the `rounded` roles are rounded. Second uses follow
/// the first.
fn idle_formats(quant: &QuantSection, rounded: &BTreeSet<Role>) -> Vec<String> {
    let idle = Role::ALL.into_iter().filter(|role| role.first_use().is_none()).filter_map(|role| {
        let cast = quant.cast(role, |_| false);
        let format = cast.format().filter(|_| !rounded.contains(&role))?;
        Some(format!(
            "`{}` has no effect: no {} are rounded to {format}, every layer is excluded, skipped or switched off",
            cast.key,
            role.plural()
        ))
    });
    idle.collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn formats_that_round_nothing_are_named() {
        let idle = |quant: &str, rounded: &[Role]| {
            let quant: QuantSection = toml::from_str(quant).unwrap();
            idle_formats(&quant, &rounded.iter().copied().collect())
        };
        let text = "weight = 'E4M3'\nactivation = 'none'\ncast = { grad = { format = 'E5M2' } }";
        assert!(idle(text, &[Role::Weight, Role::Grad]).is_empty() && idle("", &[]).is_empty());
        let found = idle(text, &[Role::Weight]);
        let said = "`quant.cast.grad.format` has no effect: no gradients are rounded to E5M2, every layer is excluded, skipped or switched off";
        assert_eq!(found, [said]);
        assert_eq!(idle(text, &[]).len(), 2);
    }
}

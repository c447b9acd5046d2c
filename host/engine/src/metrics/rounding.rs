//! The effect of rounding on the tensors of a step: by site, by role, and over all.

use altgrad_metrics::{
    Layer, MetricDefinition, MetricId, MetricRecord, Over, Role, Statistic,
    families::rounding::{AMAX, NAN_COUNT, OVERFLOW_RATE, SCALE, SHRINKAGE, SQNR_DB, UNDERFLOW_RATE},
};

use super::family::{MetricFamily, MetricSetup};
use crate::quant::QuantStats;

/// A statistic's value, if it has one.
type Formula = fn(&QuantStats) -> Option<f64>;

/// Statistics of every site, of every role and of the whole.
static STATISTICS: &[(&MetricDefinition, Formula)] = &[
    (&OVERFLOW_RATE, |seen| share(seen.stats.overflow, seen.elements.saturating_sub(seen.stats.nan))),
    // Formats count NaN as an element that is not zero. Missing if every element is zero or NaN.
    (&UNDERFLOW_RATE, |seen| share(seen.stats.underflow, seen.stats.nonzero.saturating_sub(seen.stats.nan))),
    (&NAN_COUNT, |seen| Some(seen.stats.nan as f64)),
    (&SQNR_DB, sqnr_db),
    (&SHRINKAGE, |seen| (seen.stats.sum_x2 > 0.0).then(|| seen.stats.sum_x_xhat / seen.stats.sum_x2 - 1.0)),
    (&AMAX, |seen| (seen.stats.amax > 0.0).then(|| f64::from(seen.stats.amax))),
    (&SCALE, |seen| seen.scale.map(f64::from)),
];

/// Missing if rounding changed nothing.
fn sqnr_db(seen: &QuantStats) -> Option<f64> {
    let stats = &seen.stats;
    let both = stats.sum_x2 > 0.0 && stats.sum_err2 > 0.0;
    both.then(|| 10.0 * (stats.sum_x2 / stats.sum_err2).log10())
}

fn share(count: u64, of: u64) -> Option<f64> {
    (of > 0).then(|| count as f64 / of as f64)
}

/// The statistics of some calls that have a value.
pub fn values(seen: &QuantStats) -> impl Iterator<Item = (&'static MetricDefinition, f64)> {
    STATISTICS.iter().filter_map(|(definition, value)| Some((*definition, value(seen)?)))
}

/// The family.
pub struct RoundingFamily;

impl MetricFamily for RoundingFamily {
    /// The statistics of each site.
    type Inputs<'a> = &'a [Option<QuantStats>];

    fn ids(setup: &MetricSetup<'_>) -> Vec<MetricId> {
        let groups = recorded(setup, &vec![None; setup.sites.len()]);
        let of = |group: Group| {
            let of_layer = matches!(group.over, Over::Layer(_));
            let statistics =
                STATISTICS.iter().filter(move |(definition, _)| of_layer || **definition != SCALE);
            statistics.map(move |(definition, _)| group.id(definition))
        };
        groups.into_iter().flat_map(of).collect()
    }

    fn record(setup: &MetricSetup<'_>, seen: &[Option<QuantStats>], record: &mut MetricRecord) {
        let groups = recorded(setup, seen);
        for group in &groups {
            for (definition, value) in group.seen.iter().flat_map(values) {
                if !group.is_whole() || *definition != SQNR_DB {
                    record.push(group.id(definition), value);
                }
            }
        }
        // A sum over roles would be that of the role with the largest elements.
        let of_roles = groups.iter().filter(|group| group.role.is_some() && group.over == Over::All);
        let least = of_roles.filter_map(|group| sqnr_db(group.seen.as_ref()?)).reduce(f64::min);
        record.push_some(&SQNR_DB, least);
    }
}

/// Sites whose statistics are added.
struct Group {
    role: Option<Role>,
    over: Over,
    seen: Option<QuantStats>,
}

impl Group {
    fn is_whole(&self) -> bool {
        self.role.is_none() && self.over == Over::All
    }

    fn id(&self, definition: &'static MetricDefinition) -> MetricId {
        Statistic { role: self.role, ..Statistic::new(definition) }.over(self.over.clone())
    }
}

/// [`groups`] without sites of layers if `metrics.every` is 0.
fn recorded(setup: &MetricSetup<'_>, seen: &[Option<QuantStats>]) -> Vec<Group> {
    let mut groups = groups(&setup.sites, seen);
    groups.retain(|group| setup.config.every > 0 || group.over == Over::All);
    groups
}

/// The whole, each occurring role, each site; empty without sites.
fn groups(sites: &[(Role, Layer)], seen: &[Option<QuantStats>]) -> Vec<Group> {
    let total = |of: &dyn Fn(Role) -> bool| {
        let seen =
            sites.iter().zip(seen).filter(|((role, _), _)| of(*role)).filter_map(|(_, seen)| seen.as_ref());
        // There is no common scale of several tensors.
        seen.map(|seen| QuantStats { scale: None, ..*seen }).reduce(|mut total, seen| {
            total.merge(&seen);
            total
        })
    };
    if sites.is_empty() {
        return Vec::new();
    }
    let mut groups = vec![Group { role: None, over: Over::All, seen: total(&|_| true) }];
    for role in Role::ALL {
        if sites.iter().any(|(of, _)| *of == role) {
            groups.push(Group { role: Some(role), over: Over::All, seen: total(&|of| of == role) });
        }
    }
    groups.extend(sites.iter().zip(seen).map(|((role, layer), seen)| Group {
        role: Some(*role),
        over: Over::Layer(layer.clone()),
        seen: *seen,
    }));
    groups
}

#[cfg(test)]
mod tests {
    use altgrad_plugin_api::QuantStats as FormatStats;

    use super::*;

    #[test]
    fn what_cannot_be_computed_is_missing() {
        let values = |stats| values(&QuantStats { elements: 4, stats, scale: None }).collect::<Vec<_>>();
        assert_eq!(values(FormatStats::default()), [(&OVERFLOW_RATE, 0.0), (&NAN_COUNT, 0.0)]);
        let stats = FormatStats {
            overflow: 1,
            underflow: 1,
            nonzero: 2,
            sum_x2: 100.0,
            sum_err2: 1.0,
            sum_x_xhat: 99.0,
            ..FormatStats::default()
        };
        let expected: [(&'static MetricDefinition, f64); 5] = [
            (&OVERFLOW_RATE, 0.25),
            (&UNDERFLOW_RATE, 0.5),
            (&NAN_COUNT, 0.0),
            (&SQNR_DB, 20.0),
            (&SHRINKAGE, 0.99 - 1.0),
        ];
        assert_eq!(values(stats), expected);
    }

    /// Of seven elements that are not zero, three are NaN: one of four becomes zero.
    #[test]
    fn nan_is_no_element_that_could_overflow_or_become_zero() {
        let rate_of = |rate: &MetricDefinition, stats| {
            let values = values(&QuantStats { elements: 8, stats, scale: None }).collect::<Vec<_>>();
            values.iter().find(|(definition, _)| **definition == *rate).map(|(_, value)| *value)
        };
        let rate = |stats| rate_of(&UNDERFLOW_RATE, stats);
        for (nan, expected) in [(0, Some(0.25)), (4, Some(0.5)), (8, None)] {
            let stats = FormatStats { overflow: expected.map_or(0, |_| 2), nan, ..FormatStats::default() };
            assert_eq!(rate_of(&OVERFLOW_RATE, stats), expected, "{nan}");
        }
        let stats = FormatStats { underflow: 1, nan: 3, nonzero: 7, ..FormatStats::default() };
        assert_eq!(rate(stats), Some(0.25));
        assert_eq!(rate(FormatStats { underflow: 0, nan: 7, ..stats }), None);
    }
}

//! What rounding did to the tensors of a step: by site, by role, and over all.
//!
//! `quant/sqnr_db` is over everything rounded in the step, `quant/weight/sqnr_db` over all weights,
//! `quant/weight/sqnr_db/h.0.attn.c_attn.weight` over one layer's. Definitions: NUMERICS section 6.

use super::{MetricName, MetricRecord};
use crate::quant::{QuantStats, Role, Site};

/// A statistic: its name, and its value if it has one.
type Statistic = (&'static str, fn(&QuantStats) -> Option<f64>);

/// What is said of every site, role and the whole.
const STATISTICS: [Statistic; 5] = [
    // Share of elements beyond the largest finite code after scaling (they saturate), 0..1.
    ("overflow_rate", |seen| share(seen.stats.overflow, seen.elements)),
    // Share of non-zero elements that become zero, 0..1; missing if every element is zero.
    ("underflow_rate", |seen| share(seen.stats.underflow, seen.stats.nonzero)),
    // NaN elements the quantizer was given.
    ("nan_count", |seen| Some(seen.stats.nan as f64)),
    // 10 log10(sum x^2 / sum (x_hat - x)^2), dB; missing if nothing was rounded.
    ("sqnr_db", |seen| {
        let stats = &seen.stats;
        let both = stats.sum_x2 > 0.0 && stats.sum_err2 > 0.0;
        both.then(|| 10.0 * (stats.sum_x2 / stats.sum_err2).log10())
    }),
    // sum x_hat x / sum x^2 - 1: how much rounding shortens the tensor.
    ("shrinkage", |seen| (seen.stats.sum_x2 > 0.0).then(|| seen.stats.sum_x_xhat / seen.stats.sum_x2 - 1.0)),
];

fn share(count: u64, of: u64) -> Option<f64> {
    (of > 0).then(|| count as f64 / of as f64)
}

/// The statistics of some calls that have a value, by name.
pub fn values(seen: &QuantStats) -> impl Iterator<Item = (&'static str, f64)> {
    STATISTICS.iter().filter_map(|(name, value)| Some((*name, value(seen)?)))
}

/// Every metric of the family, in the order of [`record`].
#[must_use]
pub fn names(sites: &[Site]) -> Vec<MetricName> {
    let prefixes = groups(sites, &vec![None; sites.len()]).into_iter().map(|group| group.0);
    let mut names: Vec<MetricName> = prefixes
        .flat_map(|(prefix, suffix)| {
            STATISTICS.map(|(statistic, _)| MetricName::value(format!("{prefix}/{statistic}{suffix}")))
        })
        .collect();
    if sites.is_empty() {
        names.clear();
    }
    names
}

/// Records what the sites saw in a step.
pub fn record(record: &mut MetricRecord, sites: &[Site], seen: &[Option<QuantStats>]) {
    if sites.is_empty() {
        return;
    }
    for ((prefix, suffix), seen) in groups(sites, seen) {
        for (statistic, value) in seen.iter().flat_map(values) {
            record.push(MetricName::value(format!("{prefix}/{statistic}{suffix}")), value);
        }
    }
}

/// What stands before and after a statistic's name, and what was seen there.
type Group = ((String, String), Option<QuantStats>);

/// The whole, each role that occurs, each site.
fn groups(sites: &[Site], seen: &[Option<QuantStats>]) -> Vec<Group> {
    let total = |of: &dyn Fn(&Site) -> bool| {
        let seen = sites.iter().zip(seen).filter(|(site, _)| of(site)).filter_map(|(_, seen)| seen.as_ref());
        seen.copied().reduce(|mut total, seen| {
            total.merge(&seen);
            total
        })
    };
    let mut groups: Vec<Group> = vec![(("quant".into(), String::new()), total(&|_| true))];
    for role in Role::ALL {
        if sites.iter().any(|site| site.role == role) {
            let prefix = format!("quant/{}", role.name());
            groups.push(((prefix, String::new()), total(&|site| site.role == role)));
        }
    }
    groups.extend(
        sites
            .iter()
            .zip(seen)
            .map(|(site, seen)| ((format!("quant/{}", site.role.name()), format!("/{}", site.layer)), *seen)),
    );
    groups
}

#[cfg(test)]
mod tests {
    use altgrad_plugin_api::QuantStats as FormatStats;

    use super::*;

    #[test]
    fn what_cannot_be_computed_is_missing() {
        let values = |stats| values(&QuantStats { elements: 4, stats }).collect::<Vec<_>>();
        assert_eq!(values(FormatStats::default()), [("overflow_rate", 0.0), ("nan_count", 0.0)]);
        let stats = FormatStats {
            overflow: 1,
            underflow: 1,
            nonzero: 2,
            sum_x2: 100.0,
            sum_err2: 1.0,
            sum_x_xhat: 99.0,
            ..FormatStats::default()
        };
        let expected = [
            ("overflow_rate", 0.25),
            ("underflow_rate", 0.5),
            ("nan_count", 0.0),
            ("sqnr_db", 20.0),
            ("shrinkage", 0.99 - 1.0),
        ];
        assert_eq!(values(stats), expected);
    }
}

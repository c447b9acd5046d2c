//! How a format's codes are used, and how what is rounded to them is spread: by site and, where all sites of a role
//! share a format, by role.
//!
//! `quant/weight/code_entropy/h.0.attn.c_attn.weight` is one site's, `quant/weight/code_entropy` that of all weights' codes
//! together. Kurtosis is by site only: tensors of different spread have none in common. There is no value over all
//! roles: codes of different formats mean different things. A NaN has no code and is left out; `quant/nan_count` has it.
//! Definitions: NUMERICS section 6.

use altgrad_plugin_api::ValueGrid;

use super::{Histogram, MetricName, MetricRecord};
use crate::quant::{Role, Site, SiteHistogram};

const KURTOSIS: &str = "kurtosis";
/// The histogram that goes to sinks: bin c counts code c.
const HISTOGRAM: &str = "code_hist";
/// What is said of codes, before the bits: entropy in bits; share of finite codes unused; binades between the smallest
/// and the largest magnitude used, zero left out, as a share of the format's own.
const STATISTICS: [&str; 3] = ["code_entropy", "dead_codes", "dynamic_range_used"];

/// Used codes of a format.
struct Used<'a> {
    grid: &'a ValueGrid,
    /// Elements by code, codes without a number left out.
    counts: Vec<u64>,
    total: u64,
}

impl<'a> Used<'a> {
    fn new(grid: &'a ValueGrid, mut counts: Vec<u64>) -> Self {
        for (code, count) in counts.iter_mut().enumerate() {
            if grid.decode(code as u16).is_nan() {
                *count = 0;
            }
        }
        let total = counts.iter().sum();
        Self { grid, counts, total }
    }

    /// Share of elements by code; of the codes that occur.
    fn shares(&self) -> impl Iterator<Item = (u16, f64)> {
        let used = self.counts.iter().enumerate().filter(|(_, count)| **count > 0);
        used.map(|(code, &count)| (code as u16, count as f64 / self.total as f64))
    }

    /// Every statistic by name; all missing without elements.
    fn values(&self) -> Vec<(String, Option<f64>)> {
        let some = |value: f64| (self.total > 0).then_some(value);
        let entropy = self.shares().map(|(_, share)| -share * share.log2()).sum();
        let finite = |code: usize| self.grid.decode(code as u16).is_finite();
        let unused = self.counts.iter().enumerate().filter(|(code, count)| finite(*code) && **count == 0);
        let dead = unused.count() as f64 / (0..self.counts.len()).filter(|code| finite(*code)).count() as f64;
        let values = [some(entropy), some(dead), self.dynamic_range()];
        let mut values: Vec<_> = STATISTICS.map(String::from).into_iter().zip(values).collect();
        values.extend((0..bits(self.grid)).map(|bit| {
            let active = self.shares().filter(|(code, _)| code >> bit & 1 == 1).map(|(_, share)| share);
            (bit_active(bit), some(active.sum()))
        }));
        values
    }

    /// Missing without a non-zero number, and for a format of one magnitude.
    fn dynamic_range(&self) -> Option<f64> {
        let own = binades((0..self.counts.len()).map(|code| self.grid.decode(code as u16)))?;
        let used = binades(self.shares().map(|(code, _)| self.grid.decode(code)))?;
        (own > 0.0).then(|| used / own)
    }
}

/// Binades between the smallest and the largest magnitude, zero and infinities left out.
fn binades(values: impl Iterator<Item = f32>) -> Option<f64> {
    let logs =
        values.filter(|value| value.is_finite() && *value != 0.0).map(|value| f64::from(value.abs()).log2());
    let range = logs.fold(None, |range: Option<(f64, f64)>, log| {
        let (low, high) = range.unwrap_or((log, log));
        Some((low.min(log), high.max(log)))
    });
    range.map(|(low, high)| high - low)
}

/// Bits of a code.
fn bits(grid: &ValueGrid) -> u32 {
    grid.codes().trailing_zeros()
}

/// Share of codes with a bit set, the lowest first.
fn bit_active(bit: u32) -> String {
    format!("bit_active/{bit}")
}

/// What is counted together: its names' ends (none, or the layer), its sites.
struct Group {
    role: Role,
    suffix: String,
    sites: Vec<usize>,
}

/// Roles of one format, and sites.
fn groups(sites: &[Site]) -> Vec<Group> {
    let mut groups = Vec::new();
    for role in Role::ALL {
        let of_role: Vec<usize> = (0..sites.len()).filter(|&id| sites[id].role == role).collect();
        let format = |id: usize| &sites[id].format.plugin().identity.name;
        if of_role.len() > 1 && of_role.iter().all(|&id| format(id) == format(of_role[0])) {
            groups.push(Group { role, suffix: String::new(), sites: of_role });
        }
    }
    groups.extend(sites.iter().enumerate().map(|(id, site)| Group {
        role: site.role,
        suffix: format!("/{}", site.layer),
        sites: vec![id],
    }));
    // Codes of more than eight bits are not counted.
    groups.retain(|group| sites[group.sites[0]].format.values().codes() <= 256);
    groups
}

fn name(role: Role, statistic: &str, suffix: &str) -> String {
    format!("quant/{}/{statistic}{suffix}", role.name())
}

/// Every metric of the family.
#[must_use]
pub fn names(sites: &[Site]) -> Vec<MetricName> {
    let kurtosis = sites.iter().map(|site| name(site.role, KURTOSIS, &format!("/{}", site.layer)));
    let codes = groups(sites).into_iter().flat_map(|group| {
        let bits = bits(sites[group.sites[0]].format.values());
        let statistics = STATISTICS.into_iter().map(String::from).chain((0..bits).map(bit_active));
        statistics.map(move |statistic| name(group.role, &statistic, &group.suffix)).collect::<Vec<_>>()
    });
    kurtosis.chain(codes).map(MetricName::value).collect()
}

/// Records the distributions of a watched step, one a site; nothing if there are none. Histograms are of sites.
pub fn record(record: &mut MetricRecord, sites: &[Site], watched: &[SiteHistogram]) {
    if watched.is_empty() {
        return;
    }
    for (site, distribution) in sites.iter().zip(watched) {
        let kurtosis = name(site.role, KURTOSIS, &format!("/{}", site.layer));
        record.push_some(MetricName::value(kurtosis), distribution.powers.kurtosis());
    }
    for Group { role, suffix, sites: of_group } in groups(sites) {
        let grid = sites[of_group[0]].format.values();
        let mut counts = vec![0; grid.codes()];
        for id in of_group {
            counts.iter_mut().zip(&watched[id].codes).for_each(|(sum, count)| *sum += count);
        }
        let used = Used::new(grid, counts);
        for (statistic, value) in used.values() {
            record.push_some(MetricName::value(name(role, &statistic, &suffix)), value);
        }
        if !suffix.is_empty() && used.total > 0 {
            let edges = (0..=grid.codes()).map(|code| code as f64).collect();
            record.histograms.push(Histogram {
                name: name(role, HISTOGRAM, &suffix),
                edges,
                counts: used.counts,
            });
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use altgrad_plugin_api::{Domain, FormatSpec, grid::minifloat};

    use super::*;

    fn values(grid: &ValueGrid, counts: Vec<u64>) -> Vec<(String, Option<f64>)> {
        Used::new(grid, counts).values()
    }

    /// Codes 0, 1, 2, 4 and NaN, NaN, infinity, -2.
    fn table() -> ValueGrid {
        let values = [0.0, 1.0, 2.0, 4.0, f32::NAN, f32::NAN, f32::INFINITY, -2.0];
        ValueGrid::new(&FormatSpec::Table(values.to_vec().into())).unwrap()
    }

    #[test]
    fn codes_by_hand() {
        // Four of 1, two of 2, two of -2; a hundred NaN, which do not count.
        let found = values(&table(), vec![0, 4, 2, 0, 100, 0, 0, 2]);
        let expected = [
            ("code_entropy", 1.5),
            // 0 and 4, of 0, 1, 2, 4, -2.
            ("dead_codes", 0.4),
            // From 1 to 2, of 1 to 4.
            ("dynamic_range_used", 0.5),
            // 001 and 111; 010 and 111; 111.
            ("bit_active/0", 0.75),
            ("bit_active/1", 0.5),
            ("bit_active/2", 0.25),
        ];
        let expected: Vec<_> = expected.map(|(name, value)| (name.to_string(), Some(value))).into();
        assert_eq!(found, expected);
    }

    #[test]
    fn without_elements_all_is_missing() {
        assert!(values(&table(), vec![0; 8]).iter().all(|(_, value)| value.is_none()));
        let zeros = values(&table(), vec![3, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(zeros[0].1, Some(0.0));
        assert_eq!(zeros[2], ("dynamic_range_used".into(), None), "zero has no magnitude");
    }

    #[test]
    fn uniform_codes_use_everything() {
        let grid = ValueGrid::new(&FormatSpec::Minifloat(minifloat(4, 3, Domain::Fn).unwrap())).unwrap();
        let found = values(&grid, vec![7; 256]);
        // 254 finite codes: NaN has two.
        assert!((found[0].1.unwrap() - 254f64.log2()).abs() < 1e-12);
        assert_eq!((found[1].1, found[2].1), (Some(0.0), Some(1.0)));
        assert!((found[10].1.unwrap() - 0.5).abs() < 1e-12, "as many of either sign");
    }
}

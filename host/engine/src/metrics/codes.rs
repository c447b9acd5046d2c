//! Use of a format's codes, and distribution of the values that are rounded to them: by site and, where all sites of a
//! role share a format, by role.
//!
//! Kurtosis is by site only: tensors of different spread have none in common. There is no value over all roles: codes
//! of different formats mean different things. A NaN has no code and is left out; the metrics of rounding count it.

use altgrad_metrics::{
    Histogram, Layer, MetricId, MetricRecord, Over, Role, Statistic,
    families::codes::{BIT_ACTIVE, CODE_ENTROPY, CODE_HIST, DEAD_CODES, DYNAMIC_RANGE_USED, KURTOSIS},
};
use altgrad_plugin_api::ValueGrid;

use super::family::{MetricFamily, MetricSetup};
use crate::quant::{SiteHistogram, TensorQuantizer};

/// Codes of the widest format whose codes are counted.
const MOST_CODES: usize = 256;

/// The family.
pub struct CodesFamily;

impl MetricFamily for CodesFamily {
    /// The distributions of a step that measures them, one per site; otherwise none.
    type Inputs<'a> = &'a [SiteHistogram];

    fn ids(setup: &MetricSetup<'_>) -> Vec<MetricId> {
        let sites = setup.quant.sites();
        let mut ids: Vec<MetricId> =
            setup.sites.iter().map(|site| of_site(Statistic::new(&KURTOSIS), site)).collect();
        for group in groups(setup) {
            let bits = bits(sites[group.sites[0]].format.values());
            ids.extend(statistics(bits).map(|statistic| group.id(statistic)));
            if group.is_site() {
                ids.push(group.id(Statistic::new(&CODE_HIST)));
            }
        }
        ids
    }

    /// Histograms are of sites.
    fn record(setup: &MetricSetup<'_>, distributions: &[SiteHistogram], record: &mut MetricRecord) {
        if distributions.is_empty() {
            return;
        }
        for (site, distribution) in setup.sites.iter().zip(distributions) {
            record.push_some(of_site(Statistic::new(&KURTOSIS), site), distribution.powers.kurtosis());
        }
        for group in groups(setup) {
            let grid = setup.quant.sites()[group.sites[0]].format.values();
            let mut counts = vec![0; grid.codes()];
            for id in &group.sites {
                counts.iter_mut().zip(&distributions[*id].codes).for_each(|(sum, count)| *sum += count);
            }
            let used = UsedCodes::new(grid, counts);
            for (statistic, value) in used.values() {
                record.push_some(group.id(statistic), value);
            }
            if group.is_site() && used.total > 0 {
                let edges = (0..=grid.codes()).map(|code| code as f64).collect();
                let id = group.id(Statistic::new(&CODE_HIST));
                record.histograms.push(Histogram { id, edges, counts: used.counts });
            }
        }
    }
}

fn of_site(statistic: Statistic, (role, layer): &(Role, Layer)) -> MetricId {
    statistic.of_role(*role).of_layer(layer)
}

/// Sites whose codes are counted together: all sites of a role, or one site.
struct Group {
    role: Role,
    over: Over,
    sites: Vec<usize>,
}

impl Group {
    fn id(&self, statistic: Statistic) -> MetricId {
        statistic.of_role(self.role).over(self.over.clone())
    }

    fn is_site(&self) -> bool {
        self.over != Over::All
    }
}

/// Roles with a common format, and sites.
fn groups(setup: &MetricSetup<'_>) -> Vec<Group> {
    let sites: &[TensorQuantizer] = setup.quant.sites();
    let mut groups = Vec::new();
    for role in Role::ALL {
        let of_role: Vec<usize> = (0..sites.len()).filter(|&id| sites[id].role == role).collect();
        let format = |id: usize| &sites[id].format.plugin().identity.name;
        if of_role.len() > 1 && of_role.iter().all(|&id| format(id) == format(of_role[0])) {
            groups.push(Group { role, over: Over::All, sites: of_role });
        }
    }
    groups.extend(setup.sites.iter().enumerate().map(|(id, (role, layer))| Group {
        role: *role,
        over: Over::Layer(layer.clone()),
        sites: vec![id],
    }));
    groups.retain(|group| sites[group.sites[0]].format.values().codes() <= MOST_CODES);
    groups
}

/// The statistics of codes of so many bits.
fn statistics(bits: i8) -> impl Iterator<Item = Statistic> {
    let whole = [&CODE_ENTROPY, &DEAD_CODES, &DYNAMIC_RANGE_USED].map(Statistic::new);
    whole.into_iter().chain((0..bits).map(|bit| Statistic::new(&BIT_ACTIVE).at(bit)))
}

/// Bits of a code.
fn bits(grid: &ValueGrid) -> i8 {
    grid.codes().trailing_zeros() as i8
}

/// The occurring codes of a format.
struct UsedCodes<'a> {
    grid: &'a ValueGrid,
    /// Elements by code, codes without a number left out.
    counts: Vec<u64>,
    total: u64,
}

impl<'a> UsedCodes<'a> {
    fn new(grid: &'a ValueGrid, mut counts: Vec<u64>) -> Self {
        for (code, count) in counts.iter_mut().enumerate() {
            if grid.decode(code as u16).is_nan() {
                *count = 0;
            }
        }
        let total = counts.iter().sum();
        Self { grid, counts, total }
    }

    /// Share of elements by code, for codes that occur.
    fn shares(&self) -> impl Iterator<Item = (u16, f64)> {
        let used = self.counts.iter().enumerate().filter(|(_, count)| **count > 0);
        used.map(|(code, &count)| (code as u16, count as f64 / self.total as f64))
    }

    /// Every statistic; all missing without elements.
    fn values(&self) -> Vec<(Statistic, Option<f64>)> {
        let some = |value: f64| (self.total > 0).then_some(value);
        let entropy = self.shares().map(|(_, share)| -share * share.log2()).sum();
        let finite = |code: usize| self.grid.decode(code as u16).is_finite();
        let unused = self.counts.iter().enumerate().filter(|(code, count)| finite(*code) && **count == 0);
        let dead = unused.count() as f64 / (0..self.counts.len()).filter(|code| finite(*code)).count() as f64;
        let bits = bits(self.grid);
        let active = (0..bits).map(|bit| {
            let active = self.shares().filter(|(code, _)| code >> bit & 1 == 1).map(|(_, share)| share);
            some(active.sum())
        });
        let values = [some(entropy), some(dead), self.dynamic_range()];
        statistics(bits).zip(values.into_iter().chain(active)).collect()
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

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use altgrad_plugin_api::{Domain, FormatSpec, grid::minifloat};

    use super::*;

    fn values(grid: &ValueGrid, counts: Vec<u64>) -> Vec<(String, Option<f64>)> {
        let values = UsedCodes::new(grid, counts).values();
        values.into_iter().map(|(statistic, value)| (statistic.to_string(), value)).collect()
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
            ("quant/code_entropy", 1.5),
            // 0 and 4, of 0, 1, 2, 4, -2.
            ("quant/dead_codes", 0.4),
            // From 1 to 2, of 1 to 4.
            ("quant/dynamic_range_used", 0.5),
            // 001 and 111; 010 and 111; 111.
            ("quant/bit_active/0", 0.75),
            ("quant/bit_active/1", 0.5),
            ("quant/bit_active/2", 0.25),
        ];
        let expected: Vec<_> = expected.map(|(name, value)| (name.to_string(), Some(value))).into();
        assert_eq!(found, expected);
    }

    #[test]
    fn without_elements_all_is_missing() {
        assert!(values(&table(), vec![0; 8]).iter().all(|(_, value)| value.is_none()));
        let zeros = values(&table(), vec![3, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(zeros[0].1, Some(0.0));
        assert_eq!(zeros[2], ("quant/dynamic_range_used".into(), None), "zero has no magnitude");
    }

    #[test]
    fn uniform_codes_use_everything() {
        let grid = ValueGrid::new(&FormatSpec::Minifloat(minifloat(4, 3, Domain::FN).unwrap())).unwrap();
        let found = values(&grid, vec![7; 256]);
        // 254 finite codes: NaN has two.
        assert!((found[0].1.unwrap() - 254f64.log2()).abs() < 1e-12);
        assert_eq!((found[1].1, found[2].1), (Some(0.0), Some(1.0)));
        assert!((found[10].1.unwrap() - 0.5).abs() < 1e-12, "as many of either sign");
    }
}

//! How far an optimizer step moved the weights, in codes (ULP) of the format they are rounded to.
//!
//! `|phi(k w_after) - phi(k w_before)|` an element, with the step's own scale k: the weights', not their codes', so a step
//! too small to change a code counts as what it is. Over all and by parameter: mean, median, 99th percentile, and the
//! share of elements that left their binade. The percentiles come from the update-survival spectrum, which says how
//! exact they are: [`super::spectrum`]. Missing where a value is not finite. Definitions: NUMERICS sections 2 and 6.

use altgrad_plugin_api::kernel::update::UpdateCounts;
use rayon::prelude::*;

use super::{Histogram, MetricName, MetricRecord, ruler::Ruler, spectrum::Spectrum, updates::rounded};
use crate::{model::Layout, quant::QuantContext};

const STATISTICS: [&str; 4] =
    ["update/ulp_abs_mean", "update/ulp_abs_p50", "update/ulp_abs_p99", "update/binade_crossings"];
/// Mean distance from the initial weights, ULP.
const FROM_INIT: &str = "update/ulp_from_init";
/// The spectrum as it goes to sinks.
const HISTOGRAM: &str = "update/ulp_hist";
/// Elements measured at once: what is written stays in the first-level cache.
const PIECE: usize = 2048;
/// Elements a thread takes at once. Fixed, so that sums do not depend on the number of threads.
const PART: usize = 1 << 16;

/// Distances between two states of a parameter.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Ulps {
    elements: u64,
    sum: f64,
    crossings: u64,
    spectrum: Spectrum,
}

impl Ulps {
    /// Measures on one thread; `[n]` each.
    #[must_use]
    pub fn of_part(before: &[f32], after: &[f32], ruler: &Ruler) -> Self {
        let mut all = Self { elements: before.len() as u64, ..Self::default() };
        let mut codes = [0.0; PIECE];
        for (before, after) in before.chunks(PIECE).zip(after.chunks(PIECE)) {
            let codes = &mut codes[..before.len()];
            all.crossings += ruler.distances(before, after, codes);
            all.sum += sum(codes);
            all.spectrum.add(codes);
        }
        all
    }

    /// What a device measured over `elements`.
    #[must_use]
    pub fn counted(elements: u64, counts: &UpdateCounts) -> Self {
        let spectrum = Spectrum::from_counts(counts.spectrum());
        Self { elements, sum: counts.ulp_sum, crossings: counts.get("crossings"), spectrum }
    }

    /// Adds another part or parameter.
    pub fn add(&mut self, other: &Self) {
        self.elements += other.elements;
        self.sum += other.sum;
        self.crossings += other.crossings;
        self.spectrum.merge(&other.spectrum);
    }

    /// The values of [`STATISTICS`]: all missing without elements or with a value that is not finite.
    fn values(&self) -> [Option<f64>; 4] {
        let measured = self.elements > 0 && self.sum.is_finite();
        let (count, percentile) = (self.elements as f64, |share| self.spectrum.percentile(share));
        let values =
            [Some(self.sum / count), percentile(0.5), percentile(0.99), Some(self.crossings as f64 / count)];
        values.map(|value| value.filter(|_| measured))
    }
}

/// The sum, in f64 over lanes of f32.
fn sum(values: &[f32]) -> f64 {
    const LANES: usize = 16;
    let (groups, rest) = values.as_chunks::<LANES>();
    let mut lanes = [0f32; LANES];
    for group in groups {
        for i in 0..LANES {
            lanes[i] += group[i];
        }
    }
    lanes.iter().chain(rest).map(|&value| f64::from(value)).sum()
}

/// Mean distance between two states of a parameter, ULP; `None` if a value is not finite. `[n]` each.
#[must_use]
pub fn mean_distance(a: &[f32], b: &[f32], ruler: &Ruler) -> Option<f64> {
    let parts = a.par_chunks(PART).zip(b.par_chunks(PART)).map(|(a, b)| {
        let mut codes = vec![0.0; a.len()];
        ruler.distances(a, b, &mut codes);
        codes.chunks(PIECE).map(sum).sum::<f64>()
    });
    let mean = parts.collect::<Vec<f64>>().iter().sum::<f64>() / a.len() as f64;
    mean.is_finite().then_some(mean)
}

/// Every metric of the family.
#[must_use]
pub fn names(layout: &Layout, quant: &QuantContext) -> Vec<MetricName> {
    let mut names = Vec::new();
    for statistic in STATISTICS {
        names.extend(with_total(layout, quant, statistic));
    }
    names
}

/// Names of the distances from the initial weights, which are measured less often: by parameter.
#[must_use]
pub fn from_init_names(layout: &Layout, quant: &QuantContext) -> Vec<MetricName> {
    rounded(layout, quant).map(|(_, name)| MetricName::value(format!("{FROM_INIT}/{name}"))).collect()
}

/// A statistic's name for all parameters together, if there are any, and for each.
fn with_total(layout: &Layout, quant: &QuantContext, statistic: &'static str) -> Vec<MetricName> {
    let each = rounded(layout, quant).map(|(_, name)| MetricName::value(format!("{statistic}/{name}")));
    let mut names: Vec<MetricName> = each.collect();
    if !names.is_empty() {
        names.insert(0, MetricName::constant(statistic));
    }
    names
}

/// Records a step, one entry a parameter, `None` for those without a grid; with `histograms`, also their spectra.
pub fn record(
    record: &mut MetricRecord,
    layout: &Layout,
    quant: &QuantContext,
    ulps: &[Option<&Ulps>],
    histograms: bool,
) {
    let total = ulps.iter().flatten().fold(Ulps::default(), |mut total, ulps| {
        total.add(ulps);
        total
    });
    let (total, each) = (total.values(), rounded(layout, quant));
    let each: Vec<_> = each.filter_map(|(id, name)| Some((name, ulps.get(id).copied().flatten()?))).collect();
    let values: Vec<_> = each.iter().map(|(name, ulps)| (*name, ulps.values())).collect();
    for (column, statistic) in STATISTICS.into_iter().enumerate() {
        record.push_some(MetricName::constant(statistic), total[column]);
        for (name, values) in &values {
            record.push_some(MetricName::value(format!("{statistic}/{name}")), values[column]);
        }
    }
    for (name, ulps) in each.iter().filter(|(_, ulps)| histograms && ulps.sum.is_finite()) {
        let (edges, counts) = (Spectrum::edges(), ulps.spectrum.counts().to_vec());
        record.histograms.push(Histogram { name: format!("{HISTOGRAM}/{name}"), edges, counts });
    }
}

/// Records the distances from the initial weights, one entry a parameter.
pub fn record_from_init(
    record: &mut MetricRecord,
    layout: &Layout,
    quant: &QuantContext,
    distances: &[Option<f64>],
) {
    for (id, name) in rounded(layout, quant) {
        let distance = distances.get(id).copied().flatten();
        record.push_some(MetricName::value(format!("{FROM_INIT}/{name}")), distance);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use altgrad_plugin_api::{Domain, FormatSpec, ValueGrid, grid::minifloat};

    use super::*;

    fn ruler(scale: f32) -> Ruler {
        let spec = FormatSpec::Minifloat(minifloat(5, 2, Domain::Ieee).unwrap());
        Ruler::new(ValueGrid::new(&spec).unwrap(), scale)
    }

    #[test]
    fn a_step_by_hand() {
        // E5M2: four codes a binade. Two values stay, one moves half a code, one four codes into the next binade.
        let (before, after) = ([1.0, -3.0, 1.0, 2.0], [1.0, -3.0, 1.125, 4.0]);
        let ulps = Ulps::of_part(&before, &after, &ruler(1.0));
        let [mean, median, p99, crossings] = ulps.values().map(Option::unwrap);
        assert_eq!((mean, median, crossings), (4.5 / 4.0, 0.0, 0.25));
        assert!((4.0..4.5).contains(&p99), "{p99}");
        // In weight units the same, whatever the power-of-two scale.
        assert_eq!(Ulps::of_part(&before, &after, &ruler(16.0)), ulps);
    }

    #[test]
    fn parts_add_up_and_faults_are_missing() {
        let before: Vec<f32> = (0..10_000).map(|i| (i as f32 * 0.7).sin()).collect();
        let after: Vec<f32> = before.iter().map(|w| w * 1.01).collect();
        let whole = Ulps::of_part(&before, &after, &ruler(3.0));
        let mut parts = Ulps::of_part(&before[..3000], &after[..3000], &ruler(3.0));
        parts.add(&Ulps::of_part(&before[3000..], &after[3000..], &ruler(3.0)));
        assert_eq!(
            (whole.elements, whole.crossings, &whole.spectrum),
            (parts.elements, parts.crossings, &parts.spectrum)
        );
        assert!((whole.sum - parts.sum).abs() < 1e-6 * whole.sum);
        let mean = mean_distance(&before, &after, &ruler(3.0)).unwrap();
        assert!((mean - whole.values()[0].unwrap()).abs() < 1e-6 * mean);
        assert_eq!(Ulps::of_part(&[1.0, 1.0], &[1.0, f32::NAN], &ruler(1.0)).values(), [None; 4]);
        assert_eq!(mean_distance(&[1.0], &[f32::INFINITY], &ruler(1.0)), None);
        assert_eq!(Ulps::default().values(), [None; 4]);
    }
}

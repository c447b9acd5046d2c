//! The distance that an optimizer step moved the weights, in codes (ULP) of the format they are rounded to.
//!
//! `|phi(k w_after) - phi(k w_before)|` of an element, with the step's own scale k: the distance of weights, not of
//! their codes, so a step too small to change a code is included. The percentiles come from the histogram of distances,
//! whose bins define their accuracy: [`super::spectrum`]. Missing where a value is not finite.

use altgrad_metrics::{
    Histogram, MetricId, MetricRecord, Statistic,
    families::update_distances::{BINADE_CROSSINGS, ULP_ABS_MEAN, ULP_ABS_P50, ULP_ABS_P99, ULP_HIST},
};

use super::{
    family::{self, Formula, MetricFamily, MetricSetup},
    spectrum::Spectrum,
    ulp_distance::UlpDistance,
    update_counts::UpdateCounts,
};

/// Elements measured at once: the output stays in the first-level cache.
pub(super) const PIECE: usize = 2048;

/// Statistics over all parameters and by parameter.
static STATISTICS: &[Formula<UpdateDistances, Option<f64>>] = &[
    (&ULP_ABS_MEAN, |distances| Some(distances.sum / distances.elements as f64)),
    (&ULP_ABS_P50, |distances| distances.spectrum.percentile(0.5)),
    (&ULP_ABS_P99, |distances| distances.spectrum.percentile(0.99)),
    (&BINADE_CROSSINGS, |distances| Some(distances.crossings as f64 / distances.elements as f64)),
];

/// The family: of parameters that are rounded with one scale.
pub struct UpdateDistancesFamily;

/// The measurements of a step.
#[derive(Debug, Clone, Default)]
pub struct DistanceInputs<'a> {
    /// The distances of each parameter, `None` for those without a grid.
    pub distances: Vec<Option<&'a UpdateDistances>>,
    /// True if the step records histograms.
    pub histograms: bool,
}

impl MetricFamily for UpdateDistancesFamily {
    /// The measurements, on the steps that record them.
    type Inputs<'a> = Option<DistanceInputs<'a>>;

    fn ids(setup: &MetricSetup<'_>) -> Vec<MetricId> {
        if setup.rounded().next().is_none() {
            return Vec::new();
        }
        let definitions = STATISTICS.iter().map(|(definition, _)| *definition).chain([&ULP_HIST]);
        definitions.flat_map(|definition| family::ids_of(definition, setup.rounded_layers())).collect()
    }

    fn record(setup: &MetricSetup<'_>, measured: Option<DistanceInputs<'_>>, record: &mut MetricRecord) {
        let Some(DistanceInputs { distances, histograms }) = measured else { return };
        let total = distances.iter().flatten().fold(UpdateDistances::default(), |mut total, distances| {
            total.add(distances);
            total
        });
        let of = |param: usize| distances.get(param).copied().flatten();
        let each: Vec<_> = setup.rounded().filter_map(|(param, layer)| Some((layer, of(param)?))).collect();
        for (definition, value) in STATISTICS {
            let statistic = Statistic::new(definition);
            record.push_some(statistic, total.value(*value));
            for (layer, distances) in &each {
                record.push_some(statistic.of_layer(layer), distances.value(*value));
            }
        }
        for (layer, distances) in each.iter().filter(|(_, distances)| histograms && distances.sum.is_finite())
        {
            let (edges, counts) = (Spectrum::edges(), distances.spectrum.counts().to_vec());
            record.histograms.push(Histogram {
                id: Statistic::new(&ULP_HIST).of_layer(layer),
                edges,
                counts,
            });
        }
    }
}

/// Distances between two states of a parameter.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct UpdateDistances {
    elements: u64,
    sum: f64,
    crossings: u64,
    spectrum: Spectrum,
}

impl UpdateDistances {
    /// Measures on one thread; `[n]` each.
    #[must_use]
    pub fn of_part(before: &[f32], after: &[f32], distance: &UlpDistance) -> Self {
        let mut all = Self { elements: before.len() as u64, ..Self::default() };
        let mut codes = [0.0; PIECE];
        for (before, after) in before.chunks(PIECE).zip(after.chunks(PIECE)) {
            let codes = &mut codes[..before.len()];
            all.crossings += distance.distances(before, after, codes);
            all.sum += sum(codes);
            all.spectrum.add(codes);
        }
        all
    }

    /// The measurements of a device over `elements`.
    #[must_use]
    pub fn counted(elements: u64, counts: &UpdateCounts) -> Self {
        let spectrum = Spectrum::from_counts(&counts.spectrum);
        Self { elements, sum: counts.ulp_sum, crossings: counts.crossings, spectrum }
    }

    /// Adds another part or parameter.
    pub fn add(&mut self, other: &Self) {
        self.elements += other.elements;
        self.sum += other.sum;
        self.crossings += other.crossings;
        self.spectrum.merge(&other.spectrum);
    }

    /// The value of a statistic: missing without elements or with a weight that is not finite.
    fn value(&self, statistic: fn(&Self) -> Option<f64>) -> Option<f64> {
        (self.elements > 0 && self.sum.is_finite()).then(|| statistic(self)).flatten()
    }
}

/// The sum, in f64 over lanes of f32.
pub(super) fn sum(values: &[f32]) -> f64 {
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

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use altgrad_plugin_api::{Domain, FormatSpec, ValueGrid, grid::minifloat};

    use super::*;

    fn distance(scale: f32) -> UlpDistance {
        let spec = FormatSpec::Minifloat(minifloat(5, 2, Domain::IEEE).unwrap());
        UlpDistance::new(ValueGrid::new(&spec).unwrap(), scale)
    }

    fn values(distances: &UpdateDistances) -> [Option<f64>; 4] {
        std::array::from_fn(|i| distances.value(STATISTICS[i].1))
    }

    #[test]
    fn a_step_by_hand() {
        // E5M2: four codes per binade. Two values stay, one moves half a code, one four codes into the next binade.
        let (before, after) = ([1.0, -3.0, 1.0, 2.0], [1.0, -3.0, 1.125, 4.0]);
        let distances = UpdateDistances::of_part(&before, &after, &distance(1.0));
        let [mean, median, p99, crossings] = values(&distances).map(Option::unwrap);
        assert_eq!((mean, median, crossings), (4.5 / 4.0, 0.0, 0.25));
        assert!((4.0..4.5).contains(&p99), "{p99}");
        // Equal in weight units for every power-of-two scale.
        assert_eq!(UpdateDistances::of_part(&before, &after, &distance(16.0)), distances);
    }

    #[test]
    fn parts_add_up_and_faults_are_missing() {
        let before: Vec<f32> = (0..10_000).map(|i| (i as f32 * 0.7).sin()).collect();
        let after: Vec<f32> = before.iter().map(|w| w * 1.01).collect();
        let whole = UpdateDistances::of_part(&before, &after, &distance(3.0));
        let mut parts = UpdateDistances::of_part(&before[..3000], &after[..3000], &distance(3.0));
        parts.add(&UpdateDistances::of_part(&before[3000..], &after[3000..], &distance(3.0)));
        assert_eq!(
            (whole.elements, whole.crossings, &whole.spectrum),
            (parts.elements, parts.crossings, &parts.spectrum)
        );
        assert!((whole.sum - parts.sum).abs() < 1e-6 * whole.sum);
        let mean = super::super::ulp_from_init::mean_distance(&before, &after, &distance(3.0)).unwrap();
        assert!((mean - values(&whole)[0].unwrap()).abs() < 1e-6 * mean);
        assert_eq!(
            values(&UpdateDistances::of_part(&[1.0, 1.0], &[1.0, f32::NAN], &distance(1.0))),
            [None; 4]
        );
        assert_eq!(
            super::super::ulp_from_init::mean_distance(&[1.0], &[f32::INFINITY], &distance(1.0)),
            None
        );
        assert_eq!(values(&UpdateDistances::default()), [None; 4]);
    }
}

//! Weights compared with the grid they are rounded to, before a step's update; and the distribution of their values.
//!
//! Grid alignment is the mean of |w - nearest grid value| / S(w): 0 on the grid, 1/4 for weights independent of it.
//! Stiffness is log2 S, S the spacing in weight units; its correlation is Pearson's with log2 |gradient|, over elements
//! whose gradient is not zero. Missing for a parameter that is not rounded with one scale, and where a value is not
//! finite. Definitions: docs/numerics.md, sections 3.1 and 7.10.

use altgrad_metrics::{
    Histogram, MetricDefinition, MetricId, MetricRecord, Statistic,
    families::weights::{GRID_ALIGNMENT, HIST, SPACING_HIST, STIFFNESS_GRAD_CORR, STIFFNESS_MEAN},
};
use altgrad_plugin_api::ValueGrid;
use rayon::prelude::*;

use super::{
    family::{self, MetricFamily, MetricSetup},
    spacings::Spacings,
    ulp_distance::UlpDistance,
};

/// Statistics of the grid, in the order of [`Sums::values`].
static STATISTICS: [&MetricDefinition; 3] = [&GRID_ALIGNMENT, &STIFFNESS_MEAN, &STIFFNESS_GRAD_CORR];
/// Bins of the histogram.
const BINS: usize = 64;
/// Elements per task. The number is fixed, so that sums do not depend on the number of threads.
const PART: usize = 1 << 16;

/// The family: of parameters that are rounded with one scale, histograms of all.
pub struct WeightsFamily;

impl MetricFamily for WeightsFamily {
    /// The measurements, one entry per parameter, or none.
    type Inputs<'a> = &'a [WeightStatistics];

    fn ids(setup: &MetricSetup<'_>) -> Vec<MetricId> {
        let of_grids = STATISTICS.into_iter().chain([&SPACING_HIST]);
        let of_grids = of_grids.flat_map(|definition| family::ids_of(definition, setup.rounded_layers()));
        of_grids.chain(family::ids_of(&HIST, setup.parameters.iter())).collect()
    }

    fn record(setup: &MetricSetup<'_>, weights: &[WeightStatistics], record: &mut MetricRecord) {
        for (column, definition) in STATISTICS.into_iter().enumerate() {
            for (param, layer) in setup.rounded() {
                let value = weights.get(param).and_then(|weights| weights.statistics[column]);
                record.push_some(Statistic::new(definition).of_layer(layer), value);
            }
        }
        for (layer, weights) in setup.parameters.iter().zip(weights) {
            for (definition, histogram) in [(&HIST, &weights.histogram), (&SPACING_HIST, &weights.spacings)] {
                if let Some((edges, counts)) = histogram.clone() {
                    let id = Statistic::new(definition).of_layer(layer);
                    record.histograms.push(Histogram { id, edges, counts });
                }
            }
        }
    }
}

/// The measurements of a parameter's weights.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct WeightStatistics {
    histogram: Option<(Vec<f64>, Vec<u64>)>,
    spacings: Option<(Vec<f64>, Vec<u64>)>,
    /// The values of [`STATISTICS`].
    statistics: [Option<f64>; 3],
}

/// Sums over elements.
#[derive(Debug, Clone, Default)]
struct Sums {
    count: f64,
    alignment: f64,
    stiffness: f64,
    /// Of pairs (log2 S, log2 |g|), from an origin: count, x, y, xx, yy, xy.
    pairs: [f64; 6],
    spacings: Spacings,
}

impl Sums {
    fn add(mut self, other: &Self) -> Self {
        self.count += other.count;
        self.alignment += other.alignment;
        self.stiffness += other.stiffness;
        self.pairs.iter_mut().zip(other.pairs).for_each(|(own, other)| *own += other);
        self.spacings.merge(&other.spacings);
        self
    }

    fn values(&self) -> [Option<f64>; 3] {
        let finite = |value: f64| value.is_finite().then_some(value);
        [finite(self.alignment / self.count), finite(self.stiffness / self.count), self.correlation()]
    }

    /// `None` with fewer than two pairs, or without variance on either side.
    fn correlation(&self) -> Option<f64> {
        let [n, x, y, xx, yy, xy] = self.pairs;
        let (x_spread, y_spread) = (n * xx - x * x, n * yy - y * y);
        let some = n >= 2.0 && x_spread > 0.0 && y_spread > 0.0;
        some.then(|| ((n * xy - x * y) / (x_spread * y_spread).sqrt()).clamp(-1.0, 1.0))
    }
}

/// The smallest and the largest number of a format.
fn bounds(grid: &ValueGrid) -> [f64; 2] {
    [grid.min_finite(), grid.max_finite()].map(f64::from)
}

impl WeightStatistics {
    /// Measures a parameter before its step; `grad` is the step's, clipped or not. Both `[n]`.
    #[must_use]
    pub fn of(weights: &[f32], grad: &[f32], distance: Option<&UlpDistance>) -> Self {
        let histogram = histogram(weights);
        let Some(distance) = distance else { return Self { histogram, ..Self::default() } };
        let sums = sums(weights, grad, distance);
        Self {
            histogram,
            spacings: sums.spacings.histogram(distance.log2_scale()),
            statistics: sums.values(),
        }
    }
}

fn sums(weights: &[f32], grad: &[f32], distance: &UlpDistance) -> Sums {
    let bounds = bounds(distance.grid());
    let logs = |w: f32, g: f32| (g != 0.0).then(|| [distance.log2_spacing(w), f64::from(g.abs()).log2()]);
    // Counted from the first pair: values that are all equal then have exactly no variance.
    let origin = weights.iter().zip(grad).find_map(|(&w, &g)| logs(w, g)).unwrap_or_default();
    let of_part = |(weights, grad): (&[f32], &[f32])| {
        let mut sums = Sums::default();
        for (&w, &g) in weights.iter().zip(grad) {
            sums.count += 1.0;
            sums.alignment += off_grid(distance.grid(), bounds, distance.stored(w));
            let spacing = distance.log2_spacing(w);
            sums.stiffness += spacing;
            sums.spacings.add(spacing + distance.log2_scale());
            if let Some([x, y]) = logs(w, g) {
                let [x, y] = [x - origin[0], y - origin[1]];
                sums.pairs
                    .iter_mut()
                    .zip([1.0, x, y, x * x, y * y, x * y])
                    .for_each(|(sum, term)| *sum += term);
            }
        }
        sums
    };
    let parts: Vec<Sums> = weights.par_chunks(PART).zip(grad.par_chunks(PART)).map(of_part).collect();
    parts.iter().fold(Sums::default(), Sums::add)
}

/// The distance |x - nearest value| / S(x) of a stored value x before rounding. Within a cell the code coordinate is
/// linear, so the nearest value is the one of the nearest integer.
fn off_grid(grid: &ValueGrid, [low, high]: [f64; 2], x: f64) -> f64 {
    let nearest = grid.value_at(grid.coordinate(x).round()).clamp(low, high);
    (x - nearest).abs() / grid.spacing(x)
}

/// Equal bins from the smallest to the largest finite value, both included; one unit around them where they are one.
/// `None` without finite values.
fn histogram(values: &[f32]) -> Option<(Vec<f64>, Vec<u64>)> {
    let finite = || values.iter().copied().filter(|value| value.is_finite());
    let (low, high) = (finite().reduce(f32::min)?, finite().reduce(f32::max)?);
    let (low, high) = (f64::from(low), f64::from(high));
    let (low, high) = if low < high { (low, high) } else { (low - 0.5, high + 0.5) };
    let width = (high - low) / BINS as f64;
    let mut counts = vec![0; BINS];
    finite().for_each(|value| counts[(((f64::from(value) - low) / width) as usize).min(BINS - 1)] += 1);
    Some(((0..=BINS).map(|bin| low + bin as f64 * width).collect(), counts))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use altgrad_plugin_api::{Domain, FormatSpec, grid::minifloat};

    use super::*;

    fn e4m3() -> ValueGrid {
        ValueGrid::new(&FormatSpec::Minifloat(minifloat(4, 3, Domain::FN).unwrap())).unwrap()
    }

    fn statistics(weights: &[f32], grad: &[f32], scale: f32) -> [Option<f64>; 3] {
        WeightStatistics::of(weights, grad, Some(&UlpDistance::new(e4m3(), scale))).statistics
    }

    #[test]
    fn grids_by_hand() {
        // E4M3: spacing 1/8 from 1 to 2, 1/4 from 2 to 4, 2^-9 near zero. Off by nothing, 1/4, 1/2 and 1/10 of it.
        let weights = [1.0, 1.03125, -2.125, 0.1 / 512.0];
        let [alignment, stiffness, correlation] = statistics(&weights, &[0.0; 4], 1.0);
        assert!((alignment.unwrap() - 0.85 / 4.0).abs() < 1e-8, "{alignment:?}");
        assert_eq!(stiffness, Some((-3.0 - 3.0 - 2.0 - 9.0) / 4.0));
        assert_eq!(correlation, None, "no gradient");
        // Scaled by 4, spacings in weight units are those of 4 w, divided by 4.
        assert_eq!(statistics(&[1.0], &[0.0], 4.0)[1], Some(-3.0));
        assert_eq!(statistics(&[0.0], &[0.0], 4.0)[1], Some(-11.0));
        // Beyond the largest value, 448, the nearest is that one; the spacing there is 32.
        assert_eq!(statistics(&[-480.0], &[0.0], 1.0)[0], Some(1.0));
    }

    #[test]
    fn correlation_by_hand() {
        // log2 S -3, -2, -1 (and -3 without a gradient), log2 |g| 0, 1, 5: from their means -1, 0, 1 and -2, -1, 3.
        let found = statistics(&[1.0, 2.0, 4.0, 1.0], &[1.0, -2.0, 32.0, 0.0], 1.0)[2].unwrap();
        let (x, y) = ([-1.0, 0.0, 1.0], [-2.0, -1.0, 3.0]);
        let product: f64 = (0..3).map(|i| x[i] * y[i]).sum();
        let expected = product / (2f64 * 14.0).sqrt();
        assert!((found - expected).abs() < 1e-12, "{found}, {expected}");
        assert_eq!(statistics(&[1.0, 1.5, 1.2], &[0.1, 0.2, 0.3], 1.0)[2], None, "one spacing");
        assert_eq!(statistics(&[1.0, 2.5, 5.2], &[0.1, 0.1, -0.1], 1.0)[2], None, "one gradient");
        assert_eq!(statistics(&[1.0, 2.5], &[0.1, 0.0], 1.0)[2], None, "one pair");
        assert_eq!(statistics(&[1.0, f32::NAN], &[0.1, 0.2], 1.0), [None; 3]);
    }

    /// The definition from the format's values alone: search the nearest, count the gaps.
    #[test]
    fn alignment_against_a_search_through_all_values() {
        let grid = e4m3();
        let mut values: Vec<f64> = (0..256).map(|code| f64::from(grid.decode(code))).collect();
        values.retain(|value| value.is_finite());
        values.sort_by(f64::total_cmp);
        let weights: Vec<f32> = (0..5000).map(|i| (i as f32 * 0.11).sin() * 2f32.powi(i % 17 - 10)).collect();
        let slow = |w: f32| {
            let x = f64::from(w * 3.0);
            let nearest = values.iter().map(|value| (x - value).abs()).fold(f64::MAX, f64::min);
            // The gap away from zero: between the last value not beyond |x| and the next.
            let above = values.iter().position(|value| *value > x.abs()).unwrap();
            nearest / (values[above] - values[above - 1])
        };
        let expected = weights.iter().map(|&w| slow(w)).sum::<f64>() / 5000.0;
        let found = statistics(&weights, &vec![0.0; 5000], 3.0)[0].unwrap();
        assert!((found - expected).abs() < 1e-12, "{found}, {expected}");
        assert!((found - 0.25).abs() < 0.02, "weights that know nothing of the grid: {found}");
    }

    /// Counted from the format's values alone: the gap above each weight's magnitude.
    #[test]
    fn spacings_against_gaps_between_values() {
        let grid = e4m3();
        let mut values: Vec<f64> = (0..128).map(|code| f64::from(grid.decode(code))).collect();
        values.retain(|value| value.is_finite());
        let weights: Vec<f32> = (0..9000).map(|i| (i as f32 * 0.37).sin() * 2f32.powi(i % 19 - 12)).collect();
        let scale = 3.0f32;
        let (edges, counts) =
            WeightStatistics::of(&weights, &vec![0.0; 9000], Some(&UlpDistance::new(grid, scale)))
                .spacings
                .unwrap();
        let mut expected = vec![0; counts.len()];
        for w in weights {
            let above = values.iter().position(|value| *value > f64::from((w * scale).abs())).unwrap();
            let gap = ((values[above] - values[above - 1]) / f64::from(scale)).log2();
            let bin = edges.windows(2).position(|edge| edge[0] < gap && gap < edge[1]).unwrap();
            expected[bin] += 1;
        }
        assert_eq!(counts, expected);
        // From 2^-9 below 2^-5 to 2^4 at 192, the largest that is stored.
        assert_eq!((counts.len(), counts.iter().sum::<u64>()), (14, 9000));
        assert!(WeightStatistics::of(&[1.0], &[0.0], None).spacings.is_none(), "no grid, no spacing");
    }

    #[test]
    fn histograms_count_every_finite_value() {
        let (edges, counts) = histogram(&[0.0, 64.0, 1.0, 1.5, f32::NAN, f32::INFINITY]).unwrap();
        assert_eq!((edges[0], edges[1], edges[64]), (0.0, 1.0, 64.0));
        assert_eq!((counts[0], counts[1], counts[63]), (1, 2, 1));
        let (edges, counts) = histogram(&[1.0; 5]).unwrap();
        assert_eq!((edges[0], edges[64], counts[32]), (0.5, 1.5, 5));
        assert_eq!(histogram(&[f32::NAN]), None);
    }
}

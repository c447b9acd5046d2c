//! The search for the best table: a partition of the bins, Lloyd's iteration, and one value at a time.

use super::{Distribution, TableObjective, distribution::cell};

/// Iterations of Lloyd's condition at most; each is a fraction of a millisecond.
const MOST_ITERATIONS: usize = 50_000;
/// A change of all values below this, in units of the largest, ends it.
const PRECISION: f64 = 1e-12;
/// Sweeps over all values that lower another objective.
const SWEEPS: usize = 60;

/// The squared error of bins that share a value, their mean.
fn error(distribution: &Distribution, first: usize, last: usize) -> f64 {
    let ([a, b, c], [d, e, f]) = (distribution.below_edge(first), distribution.below_edge(last));
    let (mass, sum, squares) = (d - a, e - b, f - c);
    if mass > 0.0 { (squares - sum * sum / mass).max(0.0) } else { 0.0 }
}

/// The means of the best division of the bins into this many runs, by dynamic programming. The best last cut does not
/// decrease with the number of bins, so that halves are searched apart.
pub(super) fn partition(distribution: &Distribution, count: usize) -> Vec<f64> {
    let bins = distribution.edges().len() - 1;
    let mut errors: Vec<f64> = (0..=bins).map(|last| error(distribution, 0, last)).collect();
    let mut cuts: Vec<Vec<usize>> = Vec::new();
    for _ in 1..count.min(bins) {
        let mut next = vec![0.0; bins + 1];
        let mut cut = vec![0; bins + 1];
        let mut ranges = vec![(0, bins, 0, bins)];
        while let Some((low, high, first, last)) = ranges.pop() {
            let middle = usize::midpoint(low, high);
            let candidates =
                (first..=last.min(middle)).map(|at| (errors[at] + error(distribution, at, middle), at));
            let (found, at) = candidates
                .fold((f64::INFINITY, first), |best, other| if other.0 < best.0 { other } else { best });
            (next[middle], cut[middle]) = (found, at);
            if middle > low {
                ranges.push((low, middle - 1, first, at));
            }
            if middle < high {
                ranges.push((middle + 1, high, at, last));
            }
        }
        errors = next;
        cuts.push(cut);
    }
    let mut ends = vec![bins];
    for cut in cuts.iter().rev() {
        ends.push(cut[ends[ends.len() - 1]]);
    }
    ends.push(0);
    ends.reverse();
    let mut values: Vec<f64> = ends
        .windows(2)
        .map(|ends| {
            let ([a, b, _], [c, d, _]) = (distribution.below_edge(ends[0]), distribution.below_edge(ends[1]));
            if c > a { (d - b) / (c - a) } else { distribution.edges()[ends[0]] }
        })
        .collect();
    // More values than bins: the others lie between.
    while values.len() < count {
        let gap = (1..values.len())
            .max_by(|a, b| (values[*a] - values[*a - 1]).total_cmp(&(values[*b] - values[*b - 1])));
        let Some(gap) = gap else {
            values.push(values[0] + 1.0);
            continue;
        };
        values.insert(gap, f64::midpoint(values[gap - 1], values[gap]));
    }
    values.sort_by(f64::total_cmp);
    values
}

/// The index of the value that is zero, if one is to be.
fn zero_of(values: &[f64]) -> usize {
    (0..values.len()).min_by(|a, b| values[*a].abs().total_cmp(&values[*b].abs())).unwrap_or(0)
}

/// Moves each value to the mean of the elements that are rounded to it, until none moves.
pub(super) fn lloyd_max(distribution: &Distribution, values: &mut [f64], zero: bool) {
    let fixed = zero.then(|| zero_of(values));
    let most = values.iter().fold(0.0, |most: f64, value| most.max(value.abs()));
    for _ in 0..MOST_ITERATIONS {
        let before = values.to_vec();
        for (index, value) in values.iter_mut().enumerate() {
            let [low, high] = cell(&before, index);
            let [mass, sum, _] = distribution.between(low, high);
            if mass > 0.0 {
                *value = sum / mass;
            }
        }
        if let Some(fixed) = fixed {
            values[fixed] = 0.0;
        }
        let moved = values.iter().zip(&before).fold(0.0, |moved: f64, (a, b)| moved.max((a - b).abs()));
        if moved <= PRECISION * most {
            break;
        }
    }
}

/// Lowers another objective by one value at a time, between its neighbours.
pub(super) fn lower(distribution: &Distribution, values: &mut [f64], zero: bool, objective: TableObjective) {
    const GOLDEN: f64 = 0.618_033_988_749_894_9;
    let fixed = zero.then(|| zero_of(values));
    let mut best = objective.of(&distribution.grade(values));
    for _ in 0..SWEEPS {
        let before = best;
        for index in (0..values.len()).filter(|index| Some(*index) != fixed) {
            let known = values[index];
            let spread = values[values.len() - 1] - values[0];
            let mut low = if index == 0 { known - spread / 8.0 } else { values[index - 1] };
            let mut high = if index + 1 == values.len() { known + spread / 8.0 } else { values[index + 1] };
            let mut at = |x: f64| {
                values[index] = x;
                objective.of(&distribution.grade(values))
            };
            for _ in 0..40 {
                let (a, b) = (high - GOLDEN * (high - low), low + GOLDEN * (high - low));
                if at(a) < at(b) { high = b } else { low = a }
            }
            let found = f64::midpoint(low, high);
            let value = at(found);
            if value < best { best = value } else { values[index] = known }
        }
        if before - best <= 1e-9 * before {
            break;
        }
    }
}

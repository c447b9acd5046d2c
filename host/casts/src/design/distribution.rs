//! A distribution in bins, whose density is linear in each, with its partial moments.

/// Bins in ascending order, and how much lies in each.
#[derive(Debug, Clone, PartialEq)]
pub struct Distribution {
    /// The bins' ends, one more than there are bins.
    edges: Vec<f64>,
    /// The density at the middle of each bin, and its slope.
    densities: Vec<[f64; 2]>,
    /// Mass, sum and sum of squares below each edge.
    below: Vec<[f64; 3]>,
}

/// The error of a table on a distribution.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Grade {
    /// Expected squared error over expected square.
    pub noise: f64,
    /// Share of the mean magnitude in elements that become zero.
    pub zeroed: f64,
    /// Mean change of magnitudes, over the mean magnitude; negative where values shrink.
    pub shrinkage: f64,
}

impl Grade {
    /// Signal over noise in decibels.
    #[must_use]
    pub fn sqnr_db(&self) -> f64 {
        -10.0 * self.noise.log10()
    }
}

impl Distribution {
    /// Bins with these ends, ascending, and the mass of each.
    #[must_use]
    pub fn new(edges: Vec<f64>, masses: &[f64]) -> Self {
        let density = |bin: usize| masses[bin] / (edges[bin + 1] - edges[bin]);
        let middle = |bin: usize| f64::midpoint(edges[bin], edges[bin + 1]);
        let slope = |a: usize, b: usize| (density(b) - density(a)) / (middle(b) - middle(a));
        let densities = (0..masses.len()).map(|bin| {
            // The slope between both neighbours, at most twice that to each; none at an extremum, such as the bin of
            // one value.
            let slope = if bin == 0 || bin + 1 == masses.len() {
                0.0
            } else {
                let (left, right) = (slope(bin - 1, bin), slope(bin, bin + 1));
                let most = 2.0 * left.abs().min(right.abs());
                if left * right > 0.0 { slope(bin - 1, bin + 1).clamp(-most, most) } else { 0.0 }
            };
            [density(bin), slope]
        });
        let densities: Vec<[f64; 2]> = densities.collect();
        let mut found = Self { edges, densities, below: vec![[0.0; 3]] };
        for bin in 0..masses.len() {
            let (mut sums, moments) = (found.below[bin], found.within(bin, found.edges[bin + 1]));
            sums.iter_mut().zip(moments).for_each(|(sum, moment)| *sum += moment);
            found.below.push(sums);
        }
        found
    }

    /// Mass, sum and sum of squares of a bin's elements below a number.
    fn within(&self, bin: usize, x: f64) -> [f64; 3] {
        let (a, b) = (self.edges[bin], self.edges[bin + 1]);
        let ([density, slope], middle) = (self.densities[bin], f64::midpoint(a, b));
        // Integrals of powers of the distance from the middle.
        let power = |n: i32| ((x - middle).powi(n) - (a - middle).powi(n)) / f64::from(n);
        let [mass, first, second] = [1, 2, 3].map(|n| density * power(n) + slope * power(n + 1));
        [mass, middle * mass + first, middle * middle * mass + 2.0 * middle * first + second]
    }

    /// Mass, sum and sum of squares of all elements.
    #[must_use]
    pub fn total(&self) -> [f64; 3] {
        self.below.last().copied().unwrap_or_default()
    }

    pub(super) fn edges(&self) -> &[f64] {
        &self.edges
    }

    /// Mass, sum and sum of squares below an edge.
    pub(super) fn below_edge(&self, index: usize) -> [f64; 3] {
        self.below[index]
    }

    /// Mass, sum and sum of squares below a number.
    pub(super) fn below(&self, x: f64) -> [f64; 3] {
        let above = self.edges.partition_point(|edge| *edge <= x);
        if above == 0 {
            return [0.0; 3];
        }
        if above == self.edges.len() {
            return self.total();
        }
        let ([a, b, c], [d, e, f]) = (self.below[above - 1], self.within(above - 1, x));
        [a + d, b + e, c + f]
    }

    /// Mass, sum and sum of squares between two numbers.
    pub(super) fn between(&self, low: f64, high: f64) -> [f64; 3] {
        let ([a, b, c], [d, e, f]) = (self.below(low), self.below(high));
        [d - a, e - b, f - c]
    }

    /// The number below which this share of the mass lies.
    #[must_use]
    pub fn quantile(&self, share: f64) -> f64 {
        let mass = share * self.total()[0];
        let index = self.below.partition_point(|sums| sums[0] < mass).clamp(1, self.edges.len() - 1);
        let (before, after) = (self.below[index - 1][0], self.below[index][0]);
        let part = if after > before { (mass - before) / (after - before) } else { 0.0 };
        self.edges[index - 1] + part * (self.edges[index] - self.edges[index - 1])
    }

    /// The distribution of magnitudes.
    #[must_use]
    pub fn folded(&self) -> Self {
        let mut edges: Vec<f64> = self.edges.iter().map(|edge| edge.abs()).chain([0.0]).collect();
        edges.sort_by(f64::total_cmp);
        edges.dedup();
        let masses: Vec<f64> = edges
            .windows(2)
            .map(|ends| self.between(ends[0], ends[1])[0] + self.between(-ends[1], -ends[0])[0])
            .collect();
        Self::new(edges, &masses)
    }

    /// The error of rounding to the nearest of these values, ascending.
    #[must_use]
    pub fn grade(&self, values: &[f64]) -> Grade {
        let (mut noise, mut zeroed, mut change, mut magnitude) = (0.0, 0.0, 0.0, 0.0);
        let [_, _, square] = self.total();
        for (index, value) in values.iter().enumerate() {
            let [low, high] = cell(values, index);
            let [mass, sum, squares] = self.between(low, high);
            noise += squares - 2.0 * value * sum + value * value * mass;
            // Magnitudes on both sides of zero.
            let [[below, sum_below, _], [above, sum_above, _]] =
                [self.between(low.min(0.0), high.min(0.0)), self.between(low.max(0.0), high.max(0.0))];
            let magnitudes = sum_above - sum_below;
            magnitude += magnitudes;
            if *value == 0.0 {
                zeroed += magnitudes;
            }
            change += value * (above - below) - magnitudes;
        }
        Grade { noise: (noise / square).max(0.0), zeroed: zeroed / magnitude, shrinkage: change / magnitude }
    }
}

/// The numbers that are rounded to a value: up to the middles between it and its neighbours.
pub(super) fn cell(values: &[f64], index: usize) -> [f64; 2] {
    let middle = |a: usize, b: usize| f64::midpoint(values[a], values[b]);
    let low = if index == 0 { f64::NEG_INFINITY } else { middle(index - 1, index) };
    let high = if index + 1 == values.len() { f64::INFINITY } else { middle(index, index + 1) };
    [low, high]
}

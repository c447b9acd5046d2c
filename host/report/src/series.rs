//! A curve of any length in bounded memory, peaks included; and a few columns of a picture that changes over time.

/// Finite values of rows that follow each other: the step of the first, the least and the largest value, and when.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Bucket {
    start: u64,
    low: (u64, f64),
    high: (u64, f64),
    rows: u64,
    sum: f64,
}

/// A metric over steps. Of every bucket of steps the least and the largest value stay, so that no peak is lost; a
/// bucket is one step until there are more rows than buckets. Buckets begin at multiples of their length, which is a
/// power of two: those of two curves match although one lacks rows.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    buckets: Vec<Bucket>,
    capacity: usize,
    /// The binary logarithm of the steps of a bucket.
    bits: u32,
    first: Option<(u64, f64)>,
    last: Option<(u64, f64)>,
    not_finite: Option<u64>,
}

/// The end of a series.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tail {
    /// Its first step.
    pub from: u64,
    /// The mean of its finite values.
    pub mean: f64,
}

impl Series {
    /// A curve of at most `2 * capacity + 1` points.
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        Self {
            buckets: Vec::new(),
            capacity: capacity.max(2),
            bits: 0,
            first: None,
            last: None,
            not_finite: None,
        }
    }

    /// Takes in the value of a step, of steps in rising order. NaN and infinities have no place on a curve: the first
    /// is remembered.
    pub fn add(&mut self, step: u64, value: f64) {
        if !value.is_finite() {
            self.not_finite.get_or_insert(step);
            return;
        }
        let point = (step, value);
        self.first.get_or_insert(point);
        self.last = Some(point);
        let bucket = Bucket { start: step, low: point, high: point, rows: 1, sum: value };
        let bits = self.bits;
        match self.buckets.last_mut().filter(|last| place(last.start, bits) >= place(step, bits)) {
            Some(last) => last.merge(bucket),
            None => {
                self.buckets.push(bucket);
                while self.buckets.len() > self.capacity {
                    self.halve();
                }
            }
        }
    }

    /// Doubles the length of buckets.
    fn halve(&mut self) {
        self.bits += 1;
        let is_same = |a: &Bucket, b: &Bucket| place(a.start, self.bits) == place(b.start, self.bits);
        let merged = self.buckets.chunk_by(is_same).map(|alike| {
            let mut bucket = alike[0];
            alike[1..].iter().for_each(|other| bucket.merge(*other));
            bucket
        });
        self.buckets = merged.collect();
    }

    /// The curve: at most `points` of it, in the order of steps.
    #[must_use]
    pub fn points(&self, points: usize) -> Vec<(u64, f64)> {
        let mut thin = self.clone();
        while thin.buckets.len() > 2 && thin.most_points() > points {
            thin.halve();
        }
        let mut found = Vec::new();
        for Bucket { low, high, .. } in thin.buckets {
            let (first, second) = if low.0 <= high.0 { (low, high) } else { (high, low) };
            found.push(first);
            if second.0 != first.0 {
                found.push(second);
            }
        }
        if let Some(last) = self.last.filter(|last| found.last().is_some_and(|found| found.0 < last.0)) {
            found.push(last);
        }
        found
    }

    /// Means over equal numbers of steps, at most `count`, each at the first of these: curves of the same steps match,
    /// where both have finite values.
    #[must_use]
    pub fn means(&self, count: usize) -> Vec<(u64, f64)> {
        let mut thin = self.clone();
        while thin.buckets.len() > count.max(1) {
            thin.halve();
        }
        let first = |bucket: &Bucket| place(bucket.start, thin.bits).checked_shl(thin.bits).unwrap_or(0);
        thin.buckets.iter().map(|bucket| (first(bucket), bucket.sum / bucket.rows as f64)).collect()
    }

    fn most_points(&self) -> usize {
        self.buckets.iter().map(|bucket| if bucket.rows == 1 { 1 } else { 2 }).sum()
    }

    /// The last finite value and its step.
    #[must_use]
    pub fn last(&self) -> Option<(u64, f64)> {
        self.last
    }

    /// The first step whose value was NaN or infinite.
    #[must_use]
    pub fn first_not_finite(&self) -> Option<u64> {
        self.not_finite
    }

    /// Mean of the finite values.
    #[must_use]
    pub fn mean(&self) -> Option<f64> {
        mean(&self.buckets)
    }

    /// About the last `share` of the rows, at least one bucket; `None` without a finite value.
    #[must_use]
    pub fn tail(&self, share: f64) -> Option<Tail> {
        let count = ((self.buckets.len() as f64 * share).ceil() as usize).max(1);
        let last = &self.buckets[self.buckets.len().saturating_sub(count)..];
        Some(Tail { from: last.first()?.start, mean: mean(last)? })
    }

    /// The largest value and its step.
    #[must_use]
    pub fn largest(&self) -> Option<(u64, f64)> {
        self.buckets.iter().map(|bucket| bucket.high).max_by(|a, b| a.1.total_cmp(&b.1))
    }

    /// The least value and its step.
    #[must_use]
    pub fn least(&self) -> Option<(u64, f64)> {
        self.buckets.iter().map(|bucket| bucket.low).min_by(|a, b| a.1.total_cmp(&b.1))
    }

    /// The first finite value and its step.
    #[must_use]
    pub fn first(&self) -> Option<(u64, f64)> {
        self.first
    }
}

impl Bucket {
    fn merge(&mut self, other: Self) {
        if other.low.1 < self.low.1 {
            self.low = other.low;
        }
        if other.high.1 > self.high.1 {
            self.high = other.high;
        }
        self.rows += other.rows;
        self.sum += other.sum;
    }
}

/// The number of the bucket of a step.
fn place(step: u64, bits: u32) -> u64 {
    step.checked_shr(bits).unwrap_or(0)
}

fn mean(buckets: &[Bucket]) -> Option<f64> {
    let rows: u64 = buckets.iter().map(|bucket| bucket.rows).sum();
    let sum: f64 = buckets.iter().map(|bucket| bucket.sum).sum();
    (rows > 0).then(|| sum / rows as f64)
}

/// Pictures at some steps, evenly spread over all that there were: each a list of numbers.
#[derive(Debug, Clone, PartialEq)]
pub struct Timeline {
    columns: Vec<(u64, Vec<f64>)>,
    capacity: usize,
    stride: u64,
    seen: u64,
}

impl Timeline {
    /// At most `capacity` columns.
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        Self { columns: Vec::new(), capacity: capacity.max(2), stride: 1, seen: 0 }
    }

    /// Adds the picture of a step.
    pub fn add(&mut self, step: u64, column: Vec<f64>) {
        if self.seen.is_multiple_of(self.stride) {
            if self.columns.len() == self.capacity {
                let mut index = 0;
                self.columns.retain(|_| {
                    index += 1;
                    index % 2 == 1
                });
                self.stride *= 2;
            }
            if self.seen.is_multiple_of(self.stride) {
                self.columns.push((step, column));
            }
        }
        self.seen += 1;
    }

    /// The columns, in the order of steps.
    #[must_use]
    pub fn columns(&self) -> &[(u64, Vec<f64>)] {
        &self.columns
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn few_rows_stay_as_they_are() {
        let mut series = Series::new(8);
        (0..5).for_each(|step| series.add(step * 10, step as f64));
        series.add(50, f64::NAN);
        assert_eq!(series.points(100), [(0, 0.0), (10, 1.0), (20, 2.0), (30, 3.0), (40, 4.0)]);
        assert_eq!((series.mean(), series.last()), (Some(2.0), Some((40, 4.0))));
        assert_eq!(series.first_not_finite(), Some(50));
        assert_eq!(Series::new(8).mean(), None);
    }

    #[test]
    fn peaks_survive_in_bounded_memory() {
        let mut series = Series::new(64);
        for step in 0..100_000u64 {
            series.add(step, if step == 77_777 { 9.0 } else { (step as f64 * 0.01).sin() });
        }
        assert!(series.buckets.len() <= 64);
        let points = series.points(40);
        assert!(points.len() <= 65 && points.contains(&(77_777, 9.0)), "{points:?}");
        assert!(points.is_sorted_by(|a, b| a.0 < b.0));
        assert_eq!(points.last().unwrap().0, 99_999);
        assert_eq!(series.largest(), Some((77_777, 9.0)));
        assert!(series.mean().unwrap().abs() < 0.01);
        assert_eq!(series.first(), Some((0, 0.0)));
    }

    #[test]
    fn means_of_curves_of_the_same_steps_match_although_one_lacks_rows() {
        let [mut up, mut down] = [Series::new(8), Series::new(8)];
        for step in (0..50).map(|index| index * 5) {
            up.add(step, step as f64);
            if ![0, 60, 65, 130].contains(&step) {
                down.add(step, if step == 70 { f64::NAN } else { -(step as f64) });
            }
        }
        let steps = |series: &Series| series.means(6).iter().map(|(step, _)| *step).collect::<Vec<_>>();
        assert_eq!((steps(&up), steps(&down)), (vec![0, 64, 128, 192], vec![0, 64, 128, 192]));
        // 0 to 60, and 65 to 125, by fives.
        assert_eq!(up.means(6)[..2], [(0, 30.0), (64, 95.0)]);
        assert_eq!(down.means(6)[1], (64, -100.0), "75 to 125");
    }

    #[test]
    fn any_steps_fit() {
        let mut series = Series::new(2);
        for step in [5, u64::MAX, 3, 1 << 63, 0, u64::MAX] {
            series.add(step, 1.0);
            assert!(series.buckets.len() <= 2 && series.means(1).len() == 1 && !series.points(1).is_empty());
        }
        assert_eq!(series.mean(), Some(1.0));
    }

    #[test]
    fn pictures_are_spread_evenly() {
        let mut timeline = Timeline::new(4);
        (0..20).for_each(|step| timeline.add(step * 100, vec![step as f64]));
        let steps: Vec<u64> = timeline.columns().iter().map(|column| column.0).collect();
        assert_eq!(steps, [0, 800, 1600]);
    }
}

//! Axes: positions of values, and labels.

/// Units of an axis's length.
const LENGTH: f64 = 1000.0;
/// Labels of an axis, about.
const LABELS: f64 = 5.0;
/// Decades up to which 2 and 5 are labelled too, and powers of ten below which they are.
const FEW_DECADES: i32 = 2;
const FEW_POWERS: usize = 3;

/// The scale of an axis.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Kind {
    Linear,
    Log,
    /// Names, each at its number.
    Names(Vec<String>),
}

/// The style of labels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Labels {
    Plain,
    Percent,
    None,
}

/// An axis.
#[derive(Debug, Clone)]
pub(crate) struct Axis {
    pub title: String,
    pub kind: Kind,
    /// Its ends.
    pub range: [f64; 2],
    pub labels: Labels,
}

impl Axis {
    /// An axis that contains these values, with a small margin.
    pub fn over(title: &str, kind: Kind, values: impl Iterator<Item = f64>) -> Self {
        let range = match &kind {
            Kind::Names(names) => [-0.5, names.len() as f64 - 0.5],
            Kind::Linear => room(values.filter(|value| value.is_finite())),
            Kind::Log => {
                let logs = values.filter(|value| *value > 0.0 && value.is_finite()).map(f64::log10);
                room(logs).map(|log| 10f64.powf(log))
            }
        };
        Self { title: title.to_string(), kind, range, labels: Labels::Plain }
    }

    pub fn percent(mut self) -> Self {
        self.labels = Labels::Percent;
        self
    }

    pub fn without_labels(mut self) -> Self {
        self.labels = Labels::None;
        self
    }

    pub fn with_range(mut self, range: [f64; 2]) -> Self {
        self.range = range;
        self
    }

    /// The position of a value, 0 to 1000 from the axis's lower end; `None` for a value that the axis
    /// cannot show.
    pub fn place(&self, value: f64) -> Option<f64> {
        let of = |value: f64| if self.kind == Kind::Log { value.log10() } else { value };
        let [low, high] = self.range.map(of);
        let place = (of(value) - low) / (high - low) * LENGTH;
        // Points far outside are clipped; their coordinates need not be exact.
        place.is_finite().then(|| place.clamp(-LENGTH, 2.0 * LENGTH))
    }

    /// Labelled values: place and text.
    pub fn ticks(&self) -> Vec<(f64, String)> {
        let (values, step) = match &self.kind {
            _ if self.labels == Labels::None => (Vec::new(), 1.0),
            Kind::Names(names) => {
                let named = names.iter().enumerate();
                return named.filter_map(|(at, name)| Some((self.place(at as f64)?, name.clone()))).collect();
            }
            Kind::Linear => linear(self.range),
            Kind::Log => match decades(self.range) {
                // Within less than a decade, round numbers of a linear axis are more.
                few if few.len() < 3 => linear(self.range),
                decades => (decades, 0.0),
            },
        };
        let text = |value: f64| match self.labels {
            Labels::Percent => format!("{} %", number(value * 100.0, step * 100.0)),
            _ => number(value, step),
        };
        values.into_iter().filter_map(|value| Some((self.place(value)?, text(value)))).collect()
    }
}

/// The least and the largest of some values, with a small margin.
fn room(values: impl Iterator<Item = f64>) -> [f64; 2] {
    let (low, high) =
        values.fold((f64::MAX, f64::MIN), |(low, high), value| (low.min(value), high.max(value)));
    match high - low {
        _ if low > high => [0.0, 1.0],
        0.0 => [low - 0.5 * low.abs().max(1e-3), high + 0.5 * high.abs().max(1e-3)],
        width => [low - 0.03 * width, high + 0.03 * width],
    }
}

/// Multiples of 1, 2 or 5 times a power of ten within a range, and their distance.
fn linear([low, high]: [f64; 2]) -> (Vec<f64>, f64) {
    let rough = (high - low) / LABELS;
    let magnitude = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * magnitude);
    let step = step.into_iter().find(|step| *step >= rough).unwrap_or(rough);
    let first = (low / step).ceil();
    let count = ((high / step).floor() - first).clamp(0.0, 2.0 * LABELS) as i32;
    ((0..=count).map(|index| (first + f64::from(index)) * step).collect(), step)
}

/// Powers of ten within a range, with 2 and 5 times them where there are few.
fn decades([low, high]: [f64; 2]) -> Vec<f64> {
    let (first, last) = (low.log10().floor() as i32, high.log10().ceil() as i32);
    let within = |value: &f64| *value >= low * 0.999 && *value <= high * 1.001;
    let times = |factors: &[f64]| -> Vec<f64> {
        let decades = (first..=last).map(|decade| 10f64.powi(decade));
        decades.flat_map(|power| factors.iter().map(move |factor| factor * power)).filter(within).collect()
    };
    let powers = times(&[1.0]);
    if last - first <= FEW_DECADES || powers.len() < FEW_POWERS {
        return times(&[1.0, 2.0, 5.0]);
    }
    let stride = (powers.len() as f64 / LABELS).ceil() as usize;
    powers.into_iter().step_by(stride).collect()
}

/// A number as an axis of this distance between labels has it; of logarithmic axes the distance is 0.
pub(crate) fn number(value: f64, step: f64) -> String {
    let size = value.abs().max(step);
    if value == 0.0 {
        return "0".into();
    }
    if !(1e-4..1e6).contains(&size) {
        return short_power(value, step);
    }
    let digits = if step > 0.0 { (-step.log10().floor()).max(0.0) } else { (-size.log10().floor()).max(0.0) };
    let text = format!("{value:.*}", (digits + if step > 0.0 { 0.0 } else { 1.0 }) as usize);
    match text.contains('.') && step == 0.0 {
        true => text.trim_end_matches('0').trim_end_matches('.').to_string(),
        false => text,
    }
}

/// `1e-5`, `2.5e7`; more digits where the step is smaller.
fn short_power(value: f64, step: f64) -> String {
    let exponent = |value: f64| value.abs().log10().floor();
    let digits = if step > 0.0 { (exponent(value) - exponent(step)).max(0.0) as usize } else { 1 };
    let text = format!("{value:.digits$e}");
    match text.split_once('e') {
        Some((digits, power)) if digits.contains('.') => {
            format!("{}e{power}", digits.trim_end_matches('0').trim_end_matches('.'))
        }
        _ => text,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn texts(axis: &Axis) -> Vec<String> {
        axis.ticks().into_iter().map(|(_, text)| text).collect()
    }

    #[test]
    fn labels_are_round_numbers_at_their_places() {
        let axis = Axis::over("", Kind::Linear, [0.0, 10.0].into_iter()).with_range([0.0, 10.0]);
        assert_eq!(axis.ticks()[1], (200.0, "2".into()));
        assert_eq!(texts(&axis), ["0", "2", "4", "6", "8", "10"]);
        let axis = axis.with_range([2.03, 2.11]);
        assert_eq!(texts(&axis), ["2.04", "2.06", "2.08", "2.10"]);
        let axis = axis.with_range([1.869, 1.86916]);
        assert_eq!(texts(&axis), ["1.86900", "1.86905", "1.86910", "1.86915"]);
        let axis = axis.with_range([1.0499e-5, 1.0591e-5]);
        assert_eq!(texts(&axis), ["1.05e-5", "1.052e-5", "1.054e-5", "1.056e-5", "1.058e-5"]);
        let axis = axis.with_range([8e5, 1.2e6]);
        assert_eq!(texts(&axis), ["800000", "900000", "1e6", "1.1e6", "1.2e6"]);
        let axis = axis.with_range([0.0, 0.5]).percent();
        assert_eq!(texts(&axis), ["0 %", "10 %", "20 %", "30 %", "40 %", "50 %"]);
    }

    #[test]
    fn logarithmic_axes_place_decades_evenly_and_leave_out_what_has_no_logarithm() {
        let axis = Axis::over("", Kind::Log, [1e-6, 1e-2].into_iter()).with_range([1e-6, 1e-2]);
        assert_eq!(texts(&axis), ["1e-6", "1e-5", "0.0001", "0.001", "0.01"]);
        assert!((axis.place(1e-4).unwrap() - 500.0).abs() < 1e-9);
        assert_eq!((axis.place(0.0), axis.place(f64::NAN)), (None, None));
        let axis = axis.with_range([1.0, 10.0]);
        assert_eq!(texts(&axis), ["1", "2", "5", "10"]);
        let axis = axis.with_range([1.7, 350.0]);
        assert_eq!(texts(&axis), ["2", "5", "10", "20", "50", "100", "200"], "between two and three decades");
        let axis = axis.with_range([2.3, 6.3]);
        assert_eq!(texts(&axis), ["3", "4", "5", "6"]);
    }

    #[test]
    fn one_value_or_none_has_room_around_it() {
        for values in [vec![], vec![3.0], vec![0.0], vec![f64::NAN]] {
            let axis = Axis::over("", Kind::Linear, values.into_iter());
            assert!(axis.range[0] < axis.range[1] && !axis.ticks().is_empty(), "{axis:?}");
        }
    }
}

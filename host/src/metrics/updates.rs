//! What an optimizer step did to the parameters: to their values, and to the codes they are stored as.
//!
//! Measured on the step itself, before and after. Codes are those of the step's own scale, to nearest-even, so that a
//! scale that moves is not taken for a weight that moves. Definitions: NUMERICS section 6.

use altgrad_plugin_api::QuantParams;
use rayon::prelude::*;

use super::{MetricName, MetricRecord};
use crate::{model::Layout, plugins::FormatPlugin, quant::Quant};

/// Elements a thread takes at once.
const PART: usize = 1 << 16;
/// Share of all elements whose value did not change although their gradient is not zero.
const ZERO_UPDATES: MetricName = MetricName::constant("update/zero_update_frac");
/// What is said of codes, in all and by parameter: among elements whose gradient is not zero, the share whose code did
/// not change; shares whose code, and whose sign, changed.
const CODES: [&str; 3] = ["update/bit_stall_rate", "update/flip_rate", "update/sign_flip_rate"];

/// One parameter before and after its step; `[n]` each.
#[derive(Debug, Clone, Copy)]
pub struct Step<'a> {
    /// Values before.
    pub before: &'a [f32],
    /// Values after.
    pub after: &'a [f32],
    /// The gradient that the optimizer got.
    pub grad: &'a [f32],
}

/// What was counted of one parameter's step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Update {
    elements: u64,
    /// Elements whose gradient is not zero and whose value stayed.
    unchanged: u64,
    codes: Option<Codes>,
}

/// What became of the codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Codes {
    elements: u64,
    with_gradient: u64,
    /// Elements whose gradient is not zero and whose code stayed.
    stalled: u64,
    flipped: u64,
    sign_flipped: u64,
}

impl Codes {
    fn add(self, other: Self) -> Self {
        Self {
            elements: self.elements + other.elements,
            with_gradient: self.with_gradient + other.with_gradient,
            stalled: self.stalled + other.stalled,
            flipped: self.flipped + other.flipped,
            sign_flipped: self.sign_flipped + other.sign_flipped,
        }
    }

    /// The values of [`CODES`].
    fn values(&self) -> [Option<f64>; 3] {
        let share = |count: u64, of: u64| (of > 0).then(|| count as f64 / of as f64);
        [
            share(self.stalled, self.with_gradient),
            share(self.flipped, self.elements),
            share(self.sign_flipped, self.elements),
        ]
    }
}

impl Update {
    /// Counts a step; `stored` is the format the parameter is rounded to and its scale, if it is. Codes stay missing where
    /// a value has none, as NaN in a format without NaN.
    #[must_use]
    pub fn of(step: Step<'_>, stored: Option<(&FormatPlugin, f32)>) -> Self {
        let Step { before, after, grad } = step;
        let parts = before.par_chunks(PART).zip(after.par_chunks(PART)).zip(grad.par_chunks(PART));
        let parts = parts.map(|((before, after), grad)| Self::of_part(Step { before, after, grad }, stored));
        parts.reduce_with(Self::add).unwrap_or_default()
    }

    fn of_part(step: Step<'_>, stored: Option<(&FormatPlugin, f32)>) -> Self {
        let Step { before, after, grad } = step;
        let unchanged: u32 =
            before.iter().zip(after).zip(grad).map(|((a, b), g)| u32::from((a == b) & (*g != 0.0))).sum();
        let codes = stored.and_then(|(format, scale)| {
            let params = QuantParams { scale, inv_scale: 1.0 / scale, ..QuantParams::IDENTITY };
            let (old, new) = (format.encode(before, &params).ok()?, format.encode(after, &params).ok()?);
            Some(codes(step, &old, &new))
        });
        Self { elements: grad.len() as u64, unchanged: unchanged.into(), codes }
    }

    /// Both parts; without the codes of one the codes of the whole are missing.
    fn add(self, other: Self) -> Self {
        Self {
            elements: self.elements + other.elements,
            unchanged: self.unchanged + other.unchanged,
            codes: self.codes.zip(other.codes).map(|(a, b)| a.add(b)),
        }
    }
}

fn codes(Step { before, after, grad }: Step<'_>, old: &[u16], new: &[u16]) -> Codes {
    let (mut with_gradient, mut stalled, mut flipped, mut sign_flipped) = (0u32, 0u32, 0u32, 0u32);
    for (((&old, &new), &g), (a, b)) in old.iter().zip(new).zip(grad).zip(before.iter().zip(after)) {
        let (moved, pushed) = (old != new, g != 0.0);
        with_gradient += u32::from(pushed);
        stalled += u32::from(pushed & !moved);
        flipped += u32::from(moved);
        sign_flipped += u32::from(moved & (a.is_sign_negative() != b.is_sign_negative()));
    }
    let [with_gradient, stalled, flipped, sign_flipped] =
        [with_gradient, stalled, flipped, sign_flipped].map(u64::from);
    Codes { elements: grad.len() as u64, with_gradient, stalled, flipped, sign_flipped }
}

/// Every metric of the family; those of codes for weights that are rounded with one scale.
#[must_use]
pub fn names(layout: &Layout, quant: &Quant) -> Vec<MetricName> {
    let stored: Vec<&str> = rounded(layout, quant).map(|(_, name)| name).collect();
    let mut names = vec![ZERO_UPDATES];
    if !stored.is_empty() {
        for statistic in CODES {
            names.push(MetricName::constant(statistic));
            names.extend(stored.iter().map(|name| MetricName::value(format!("{statistic}/{name}"))));
        }
    }
    names
}

/// Numbers and names of the parameters that are rounded with one scale.
fn rounded<'a>(layout: &'a Layout, quant: &'a Quant) -> impl Iterator<Item = (usize, &'a str)> {
    let specs = layout.specs.iter().enumerate();
    specs.filter(|(id, _)| quant.has_one_scale(*id)).map(|(id, spec)| (id, spec.name.as_str()))
}

/// Records a step of all parameters.
pub fn record(record: &mut MetricRecord, layout: &Layout, quant: &Quant, updates: &[Update]) {
    let elements: u64 = updates.iter().map(|update| update.elements).sum();
    let unchanged: u64 = updates.iter().map(|update| update.unchanged).sum();
    record.push_some(ZERO_UPDATES, (elements > 0).then(|| unchanged as f64 / elements as f64));
    let total = updates.iter().filter_map(|update| update.codes).reduce(Codes::add);
    for (column, statistic) in CODES.into_iter().enumerate() {
        let value = |codes: Option<Codes>| codes.and_then(|codes| codes.values()[column]);
        record.push_some(MetricName::constant(statistic), value(total));
        for (id, name) in rounded(layout, quant) {
            record.push_some(MetricName::value(format!("{statistic}/{name}")), value(updates[id].codes));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEP: Step<'_> = Step {
        before: &[1.0, 1.0, 1.0, -0.1, 0.0],
        after: &[1.0, 1.1, 2.0, 0.1, 0.0],
        grad: &[1.0, 1.0, 1.0, 1.0, 0.0],
    };

    #[test]
    fn values_that_stay_although_pushed() {
        let update = Update::of(STEP, None);
        assert_eq!(update, Update { elements: 5, unchanged: 1, codes: None });
    }

    #[test]
    fn codes_by_hand() {
        // 1.1 rounds to 1, -0.1 and 0.1 to zeros of either sign.
        let codes = codes(STEP, &[8, 8, 8, 128, 0], &[8, 8, 16, 0, 0]);
        assert_eq!(codes, Codes { elements: 5, with_gradient: 4, stalled: 2, flipped: 2, sign_flipped: 1 });
        assert_eq!(codes.values(), [Some(0.5), Some(0.4), Some(0.2)]);
        assert_eq!(Codes::default().values(), [None; 3]);
    }
}

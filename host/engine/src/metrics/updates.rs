//! The effect of an optimizer step on the parameters: on their values, and on the codes they are stored as.
//!
//! Measured on the step itself, before and after. Codes are those of one scale, to nearest-even: the step's, or without
//! master weights that of the grid after the update. [`super::scale_changes`] measures the effect of a changed scale.

use std::ops::Range;

use altgrad_loader::FormatPlugin;
use altgrad_metrics::{
    MetricId, MetricRecord, Statistic,
    families::updates::{
        BIT_STALL_RATE, FLIP_RATE, OSCILLATION, ROUNDING_LOSS, SIGN_FLIP_RATE, ZERO_UPDATE_FRAC,
    },
};
use altgrad_plugin_api::{QuantParams, Scales};
use rayon::prelude::*;

use super::{
    family::{self, Formula, MetricFamily, MetricSetup},
    ulp_distance::UlpDistance,
    update_counts::UpdateCounts,
    update_distances::UpdateDistances,
    update_loss::UpdateLoss,
};
use crate::packed_ints::PackedInts;

/// Elements per task.
const PART: usize = 1 << 16;

/// Statistics of codes, in all and by parameter.
static CODES: &[Formula<Codes, Option<f64>>] = &[
    (&BIT_STALL_RATE, |codes| share(codes.stalled, codes.with_gradient)),
    (&FLIP_RATE, |codes| share(codes.flipped, codes.elements)),
    (&SIGN_FLIP_RATE, |codes| share(codes.sign_flipped, codes.elements)),
    (&OSCILLATION, |codes| share(codes.returned?, codes.elements)),
];

fn share(count: u64, of: u64) -> Option<f64> {
    (of > 0).then(|| count as f64 / of as f64)
}

/// The family; metrics of codes are of parameters that are rounded with one scale.
pub struct UpdatesFamily;

impl MetricFamily for UpdatesFamily {
    /// The counts of each parameter's step, on the steps that record them.
    type Inputs<'a> = Option<&'a [Update]>;

    fn ids(setup: &MetricSetup<'_>) -> Vec<MetricId> {
        let mut ids = vec![MetricId::from(&ZERO_UPDATE_FRAC)];
        // A returning code is detected only if every step is measured.
        let shown =
            CODES.iter().filter(|(definition, _)| **definition != OSCILLATION || setup.config.every == 1);
        if setup.rounded().next().is_some() {
            ids.extend(shown.flat_map(|(definition, _)| family::ids_of(definition, setup.rounded_layers())));
        }
        if setup.stored().next().is_some() {
            ids.extend(family::ids_of(&ROUNDING_LOSS, setup.stored().map(|(_, layer)| layer)));
        }
        ids
    }

    fn record(setup: &MetricSetup<'_>, updates: Option<&[Update]>, record: &mut MetricRecord) {
        let Some(updates) = updates else { return };
        let elements: u64 = updates.iter().map(|update| update.elements).sum();
        let stalled = |param: usize| updates[param].codes.filter(|_| setup.quant.is_stored_on_grid(param));
        // A change of a stored weight's one scale changes all its values, so its codes decide whether it moved.
        let unchanged = |(param, update): (usize, &Update)| {
            stalled(param).map_or(update.unchanged, |codes| codes.stalled)
        };
        let unchanged: u64 = updates.iter().enumerate().map(unchanged).sum();
        record.push_some(&ZERO_UPDATE_FRAC, share(unchanged, elements));
        let lost = updates.iter().filter_map(|update| update.lost).reduce(|a, b| a + b);
        record.push_some(&ROUNDING_LOSS, lost.and_then(UpdateLoss::share));
        for (param, layer) in setup.stored() {
            let lost = updates[param].lost.and_then(UpdateLoss::share);
            record.push_some(Statistic::new(&ROUNDING_LOSS).of_layer(layer), lost);
        }
        let total = updates.iter().filter_map(|update| update.codes).reduce(Codes::add);
        for (definition, value) in CODES {
            let statistic = Statistic::new(definition);
            let value = |codes: Option<Codes>| codes.and_then(|codes| value(&codes));
            record.push_some(statistic, value(total));
            for (param, layer) in setup.rounded() {
                record.push_some(statistic.of_layer(layer), value(updates[param].codes));
            }
        }
    }
}

/// One parameter before and after its step; `[n]` each.
#[derive(Debug, Clone, Copy)]
pub struct ParameterUpdate<'a> {
    /// Values before.
    pub before: &'a [f32],
    /// Values after.
    pub after: &'a [f32],
    /// The gradient that the optimizer received.
    pub grad: &'a [f32],
}

impl<'a> ParameterUpdate<'a> {
    /// Some elements of it.
    fn part(self, range: Range<usize>) -> Self {
        let of = |values: &'a [f32]| &values[range.clone()];
        Self { before: of(self.before), after: of(self.after), grad: of(self.grad) }
    }
}

/// The counts of one parameter's step.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Update {
    elements: u64,
    /// Elements whose gradient is not zero and whose value stayed.
    unchanged: u64,
    codes: Option<Codes>,
    distances: Option<UpdateDistances>,
    /// The loss by rounding, if the update ended with one.
    pub(super) lost: Option<UpdateLoss>,
}

/// The changes of the codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Codes {
    elements: u64,
    with_gradient: u64,
    /// Elements whose gradient is not zero and whose code stayed.
    stalled: u64,
    flipped: u64,
    sign_flipped: u64,
    /// Elements whose code returned, if the codes of the last two steps are stored.
    returned: Option<u64>,
}

impl Codes {
    fn add(self, other: Self) -> Self {
        Self {
            elements: self.elements + other.elements,
            with_gradient: self.with_gradient + other.with_gradient,
            stalled: self.stalled + other.stalled,
            flipped: self.flipped + other.flipped,
            sign_flipped: self.sign_flipped + other.sign_flipped,
            returned: self.returned.zip(other.returned).map(|(a, b)| a + b),
        }
    }
}

/// The format a parameter is rounded to, and the scale of a step.
#[derive(Debug, Clone, Copy)]
pub struct Stored<'a> {
    /// Gives codes.
    pub format: &'a FormatPlugin,
    /// Gives distances, at the same scale.
    pub distance: &'a UlpDistance,
    /// The scale of the step.
    pub scale: f32,
}

/// The codes a parameter had in the last two steps, before their updates: a byte per element and step if the
/// format has at most 256 codes, else two.
#[derive(Debug, Default)]
pub struct PastCodes {
    /// The codes of the last step, or none.
    pub last: PackedInts,
    /// The codes of the step before.
    pub earlier: PackedInts,
    /// Steps in a row whose codes a device remembers, up to two.
    pub(super) on_device: u8,
}

impl PastCodes {
    /// The codes of a checkpoint, with which main memory or a device continues.
    #[must_use]
    pub fn restored(last: PackedInts, earlier: PackedInts) -> Self {
        let on_device = match [last.is_empty(), earlier.is_empty()] {
            [true, _] => 0,
            [false, true] => 1,
            [false, false] => 2,
        };
        Self { last, earlier, on_device }
    }
}

impl Update {
    /// Counts a step of a parameter that is not rounded with one scale.
    #[must_use]
    pub fn unstored(step: ParameterUpdate<'_>) -> Self {
        Self { elements: step.grad.len() as u64, unchanged: unchanged(step), ..Self::default() }
    }

    /// Counts a step, and remembers its codes in `past` if oscillation is measured. Codes stay missing, and are
    /// forgotten, where a value has none, such as NaN in a format without NaN.
    #[must_use]
    pub fn stored(step: ParameterUpdate<'_>, stored: Stored<'_>, past: Option<&mut PastCodes>) -> Self {
        let len = step.grad.len();
        let mut codes = vec![0; len];
        let known = past.as_deref().filter(|past| past.last.len() == len && past.earlier.len() == len);
        let parts: Vec<Self> = codes
            .par_chunks_mut(PART)
            .enumerate()
            .map(|(index, codes)| {
                let range = index * PART..index * PART + codes.len();
                let past =
                    known.map(|past| [&past.earlier, &past.last].map(|codes| codes.part(range.clone())));
                Self::of_part(step.part(range), stored, codes, past.as_ref())
            })
            .collect();
        let mut parts = parts.into_iter();
        let mut all = parts.next().unwrap_or_default();
        parts.for_each(|part| all.add(&part));
        if let Some(past) = past {
            let last = if all.codes.is_some() { PackedInts::new(codes) } else { PackedInts::default() };
            *past = PastCodes { earlier: std::mem::take(&mut past.last), last, on_device: 0 };
        }
        all
    }

    /// The counts of a device over `elements`; `stored`: of codes too. As [`Self::stored`] for codes that are missing.
    #[must_use]
    pub fn counted(elements: u64, counts: &UpdateCounts, stored: bool, past: Option<&mut PastCodes>) -> Self {
        let unchanged = counts.unchanged;
        if !stored {
            return Self { elements, unchanged, ..Self::default() };
        }
        let known = past.as_ref().is_some_and(|past| past.on_device == 2);
        let complete = counts.no_code == 0;
        if let Some(past) = past {
            let on_device = if complete { (past.on_device + 1).min(2) } else { 0 };
            *past = PastCodes { on_device, ..PastCodes::default() };
        }
        let codes = complete.then(|| Codes {
            elements,
            with_gradient: counts.with_gradient,
            stalled: counts.stalled,
            flipped: counts.flipped,
            sign_flipped: counts.sign_flipped,
            returned: known.then_some(counts.returned),
        });
        Self {
            elements,
            unchanged,
            codes,
            distances: Some(UpdateDistances::counted(elements, counts)),
            ..Self::default()
        }
    }

    /// A part, on one thread; fills in the codes before the update. `past` are those of the step before the last, and
    /// of the last.
    fn of_part(
        step: ParameterUpdate<'_>,
        stored: Stored<'_>,
        old: &mut [u16],
        past: Option<&[Vec<u16>; 2]>,
    ) -> Self {
        let ParameterUpdate { before, after, grad } = step;
        let pair = [stored.scale, 1.0 / stored.scale];
        let params = QuantParams::nearest(Scales::whole(&pair));
        let encoded = stored.format.encode_into(before, old, &params);
        let codes = encoded.and_then(|()| stored.format.encode(after, &params)).ok();
        let codes = codes
            .map(|new| Codes { returned: past.map(|past| returned(past, old)), ..codes_of(step, old, &new) });
        let distances = Some(UpdateDistances::of_part(before, after, stored.distance));
        let elements = grad.len() as u64;
        Self { elements, unchanged: unchanged(step), codes, distances, ..Self::default() }
    }

    /// Adds another part; without the codes of one the codes of the whole are missing.
    fn add(&mut self, other: &Self) {
        self.elements += other.elements;
        self.unchanged += other.unchanged;
        self.codes = self.codes.zip(other.codes).map(|(a, b)| a.add(b));
        if let (Some(own), Some(other)) = (&mut self.distances, &other.distances) {
            own.add(other);
        }
    }

    /// The distance of the step in codes, if it was measured.
    #[must_use]
    pub fn distances(&self) -> Option<&UpdateDistances> {
        self.distances.as_ref()
    }
}

/// Elements whose gradient is not zero and whose value stayed.
fn unchanged(ParameterUpdate { before, after, grad }: ParameterUpdate<'_>) -> u64 {
    let stayed = |((a, b), g): ((&f32, &f32), &f32)| u32::from((a == b) & (*g != 0.0));
    let part = |((before, after), grad): ((&[f32], &[f32]), &[f32])| -> u64 {
        before.iter().zip(after).zip(grad).map(stayed).sum::<u32>().into()
    };
    before.par_chunks(PART).zip(after.par_chunks(PART)).zip(grad.par_chunks(PART)).map(part).sum()
}

/// The number of elements whose code equals that of two steps ago and differs from that of the last step.
fn returned([earlier, last]: &[Vec<u16>; 2], now: &[u16]) -> u64 {
    let codes = earlier.iter().zip(last).zip(now);
    codes.map(|((earlier, last), now)| u32::from((earlier == now) & (last != now))).sum::<u32>().into()
}

fn codes_of(ParameterUpdate { before, after, grad }: ParameterUpdate<'_>, old: &[u16], new: &[u16]) -> Codes {
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
    Codes { elements: grad.len() as u64, with_gradient, stalled, flipped, sign_flipped, returned: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(codes: &Codes) -> Vec<Option<f64>> {
        CODES.iter().map(|(_, value)| value(codes)).collect()
    }

    const STEP: ParameterUpdate<'_> = ParameterUpdate {
        before: &[1.0, 1.0, 1.0, -0.1, 0.0],
        after: &[1.0, 1.1, 2.0, 0.1, 0.0],
        grad: &[1.0, 1.0, 1.0, 1.0, 0.0],
    };

    #[test]
    fn values_that_stay_although_pushed() {
        let update = Update::unstored(STEP);
        assert_eq!(update, Update { elements: 5, unchanged: 1, ..Update::default() });
    }

    #[test]
    fn codes_by_hand() {
        // 1.1 rounds to 1, -0.1 and 0.1 to zeros of either sign.
        let codes = codes_of(STEP, &[8, 8, 8, 128, 0], &[8, 8, 16, 0, 0]);
        let expected =
            Codes { elements: 5, with_gradient: 4, stalled: 2, flipped: 2, sign_flipped: 1, returned: None };
        assert_eq!(codes, expected);
        assert_eq!(values(&codes), [Some(0.5), Some(0.4), Some(0.2), None]);
        assert_eq!(values(&Codes::default()), [None; 4]);
        let two = Codes { returned: Some(2), ..codes };
        assert_eq!(values(&two.add(codes))[3], None, "unknown for one parameter");
        assert_eq!(values(&two.add(two))[3], Some(0.4));
    }

    #[test]
    fn a_device_knows_what_returns_after_two_steps_or_from_a_checkpoint() {
        let returned = |past: &mut PastCodes| {
            let counts = UpdateCounts { returned: 1, ..UpdateCounts::default() };
            Update::counted(4, &counts, true, Some(past)).codes.and_then(|codes| codes.returned)
        };
        let codes = || PackedInts::new(vec![1; 4]);
        let rows = [
            (PastCodes::default(), [None, None, Some(1)]),
            (PastCodes::restored(codes(), PackedInts::default()), [None, Some(1), Some(1)]),
            (PastCodes::restored(codes(), codes()), [Some(1); 3]),
            // The last step had a value without a code.
            (PastCodes::restored(PackedInts::default(), codes()), [None, None, Some(1)]),
        ];
        for (mut past, expected) in rows {
            assert_eq!([(); 3].map(|()| returned(&mut past)), expected);
            assert!(past.last.is_empty() && past.earlier.is_empty(), "the device has them");
        }
    }

    #[test]
    fn codes_that_come_back() {
        // A-B-A, A-A-A, A-B-C, A-B-B, A-A-B, and A-B-A again.
        let past = [vec![1, 1, 1, 1, 1, 7], vec![2, 1, 2, 2, 1, 8]];
        assert_eq!(returned(&past, &[1, 1, 3, 2, 2, 7]), 2);
    }
}

//! Counting updates on GPUs against the slow definition, on the grids of all formats: counts exactly, distances to
//! f32's rounding.
//!
//! A device that does not answer is reported as skipped.

#![cfg(feature = "gpu")]
#![allow(clippy::unwrap_used)]

use altgrad_engine::{
    device::ComputeDevice,
    kernel_text::cubes,
    metrics::{
        count_op::{CountCall, CountMemory, count_updates},
        element_memory::ElementMemory,
        update_counts::{Counting, UpdateCounts},
    },
    packed_ints::PackedInts,
    read_back::ReadBack,
    tensor::{self, batch::MOST},
};
use altgrad_plugin_api::{
    Domain,
    grid::{MinifloatGrid, minifloat},
};

use super::devices;

/// Limit and window of dead gradients.
const DEAD: (f32, u16) = (1e-3, 3);
/// Updates in a row.
const UPDATES: usize = 5;

/// An element as the definition remembers it.
#[derive(Clone, Copy, Default)]
struct Past {
    /// Code before the last update, and before the one before: 0 before the first.
    last: u16,
    earlier: u16,
    dead: u16,
}

/// The same of all elements, as a checkpoint holds it.
fn memory_of(past: &[Past]) -> ElementMemory {
    let part = |of: fn(&Past) -> u16| PackedInts::new(past.iter().map(of).collect());
    ElementMemory {
        last: part(|past| past.last),
        earlier: part(|past| past.earlier),
        dead: part(|past| past.dead),
    }
}

/// The definition on a grid at a scale.
struct Definition {
    grid: MinifloatGrid,
    scale: f32,
}

impl Definition {
    /// The code by search among all values, ties to the even one; `None` for a NaN that has none.
    fn code(&self, w: f32) -> Option<u16> {
        let (grid, x) = (&self.grid, f64::from(w * self.scale).abs());
        let sign = u16::from(w.is_sign_negative()) << (grid.bits() - 1);
        if w.is_nan() {
            return Some(grid.nan_code()? | sign);
        }
        let distance = |code: u16| (f64::from(grid.decode(code)) - x).abs();
        let above = (0..grid.max_code()).find(|&code| f64::from(grid.decode(code + 1)) >= x);
        let Some(below) = above else { return Some(grid.max_code() | sign) };
        let (near, far) = (distance(below), distance(below + 1));
        let up = far < near || (far == near && below % 2 == 1);
        Some((below + u16::from(up)) | sign)
    }

    fn exponent(&self, w: f32) -> i32 {
        let field = (w * self.scale).to_bits() >> 23 & 0xff;
        (field as i32 - 127).max(self.grid.emin())
    }

    /// Counts an update, and brings `past` up to date.
    fn count(&self, [before, after, grad]: [&[f32]; 3], past: &mut [Past]) -> UpdateCounts {
        let mut counts = UpdateCounts::default();
        for (i, past) in past.iter_mut().enumerate() {
            let (a, b, g) = (before[i], after[i], grad[i]);
            let (from, to) = (self.code(a), self.code(b));
            let (moved, pushed) = (from != to, g != 0.0);
            counts.unchanged += u64::from(a == b && pushed);
            counts.with_gradient += u64::from(pushed);
            counts.stalled += u64::from(pushed && !moved);
            counts.flipped += u64::from(moved);
            counts.sign_flipped += u64::from(moved && a.is_sign_negative() != b.is_sign_negative());
            counts.no_code += u64::from(from.is_none() || to.is_none());
            counts.crossings += u64::from(self.exponent(a) != self.exponent(b));
            let now = from.unwrap_or(0);
            counts.returned += u64::from(past.earlier == now && past.last != now);
            (past.earlier, past.last) = (past.last, now);
            past.dead = if g.abs() < DEAD.0 { past.dead + 1 } else { 0 };
            counts.dead += u64::from(past.dead >= DEAD.1);
            let phi = |w: f32| self.grid.phi(f64::from(w * self.scale));
            counts.ulp_sum += (phi(a) - phi(b)).abs();
        }
        counts
    }
}

/// Weights on all codes, between them, at and beyond the ends, below the smallest, and zeros of both signs; if
/// `broken`, a NaN and an infinity. An odd number of them, if `odd`.
fn weights(definition: &Definition, broken: bool, odd: bool) -> Vec<f32> {
    let mut w = vec![0.0, -0.0, 1e-30, -1e-30];
    for code in 0..=definition.grid.max_code() {
        let value = definition.grid.decode(code);
        for x in [value, value.next_up(), value * 1.3, value * 0.71] {
            w.extend([x / definition.scale, -x / definition.scale]);
        }
    }
    if broken {
        (w[20], w[21]) = (f32::NAN, f32::INFINITY);
    }
    // More than a cube's units, so that they stride.
    w = w.repeat(9);
    w.truncate(w.len() / 4 * 4 - usize::from(odd));
    w
}

/// One update: elements stay, move by less than a code and by more, change their sign, or return.
fn moved(update: usize, w: &[f32], previous: &[f32]) -> Vec<f32> {
    let step = |(i, (&w, &previous)): (usize, (&f32, &f32))| match (i / 3 + update) % 6 {
        0 => w,
        1 => w * 1.0001,
        2 => w * 1.3,
        3 => -w,
        4 => w.next_up(),
        _ => previous,
    };
    w.iter().zip(previous).enumerate().map(step).collect()
}

fn gradients(len: usize) -> Vec<f32> {
    let sizes = [1.0, -2e-3, 0.0, 1e-5, -0.0, -9.9e-4];
    (0..len).map(|i| sizes[i % 5 + usize::from(i % 7 == 0)]).collect()
}

fn on_device(
    device: &ComputeDevice,
    tensors: [&[f32]; 3],
    counting: Counting,
    memory: &CountMemory,
) -> UpdateCounts {
    let tensors = tensors.map(|values| tensor::flat(values.to_vec(), &device.tensors));
    let call = CountCall { updates: vec![(counting, memory.clone())] };
    let [words, sums] = count_updates(vec![tensors], call);
    let mut read_back = ReadBack::default();
    let (words, sums) = (read_back.request(words), read_back.request(sums));
    let values = read_back.read().unwrap();
    let words: Vec<u32> = values.get(words).unwrap().iter().map(|word| word.to_bits()).collect();
    UpdateCounts::new(&words, values.get(sums).unwrap()).unwrap()
}

fn same(what: &str, found: &UpdateCounts, expected: &UpdateCounts, elements: usize) {
    let all: u64 = found.spectrum.iter().map(|&count| u64::from(count)).sum();
    assert_eq!(all, elements as u64, "{what}: every element is in the spectrum");
    if expected.ulp_sum.is_finite() {
        let off = (found.ulp_sum - expected.ulp_sum).abs();
        assert!(off <= 1e-5 * expected.ulp_sum, "{what}: {} codes, not {}", found.ulp_sum, expected.ulp_sum);
    } else {
        assert!(!found.ulp_sum.is_finite(), "{what}: a NaN is not hidden");
    }
    let mut found = UpdateCounts { spectrum: Vec::new(), ulp_sum: 0.0, ..found.clone() };
    let expected = UpdateCounts { ulp_sum: 0.0, ..expected.clone() };
    if expected.no_code > 0 {
        // Codes of a parameter with a NaN that has none are missing.
        let UpdateCounts { stalled, flipped, sign_flipped, returned, .. } = expected;
        found = UpdateCounts { stalled, flipped, sign_flipped, returned, ..found };
    }
    assert_eq!(found, expected, "{what}");
}

#[test]
fn devices_count_updates_by_the_definition() {
    let formats = [
        (2, 1, Domain::FIN),
        (0, 7, Domain::FIN),
        (1, 6, Domain::FIN),
        (2, 5, Domain::FIN),
        (3, 4, Domain::FIN),
        (4, 3, Domain::FN),
        (5, 2, Domain::IEEE),
        (6, 1, Domain::FIN),
        (7, 0, Domain::FIN),
    ];
    for device in devices("devices_count_updates_by_the_definition") {
        for (e, m, domain) in formats {
            for (scale, broken, odd) in [(1.0, false, false), (0.37, false, true), (0.37, true, false)] {
                let grid = MinifloatGrid::new(minifloat(e, m, domain).unwrap()).unwrap();
                let definition = Definition { grid, scale };
                let counting = Counting::values().dead(DEAD.0, DEAD.1).codes(&grid, scale).unwrap().past();
                let mut w = weights(&definition, broken, odd);
                let (mut previous, grad) = (w.clone(), gradients(w.len()));
                let (mut past, mut memory) = (vec![Past::default(); w.len()], CountMemory::default());
                for update in 0..UPDATES {
                    let what = format!("{} E{e}M{m} scale {scale} update {update}", device.label);
                    let after = moved(update, &w, &previous);
                    let tensors = [&w[..], &after, &grad];
                    let expected = definition.count(tensors, &mut past);
                    same(&what, &on_device(&device, tensors, counting, &memory), &expected, w.len());
                    (previous, w) = (w, after);
                    // Counting continues from what a checkpoint holds. The code of a NaN depends on the device.
                    let held = memory.read().unwrap().unwrap();
                    assert!(broken || held == memory_of(&past), "{what}: memory");
                    memory = CountMemory::default();
                    memory.restore(&held);
                    assert_eq!(memory.read().unwrap(), Some(held), "{what}: not transferred yet");
                }
            }
        }
    }
}

#[test]
fn what_is_not_asked_for_is_not_counted() {
    for device in devices("what_is_not_asked_for_is_not_counted") {
        let (w, after, grad) = ([1.0, 2.0, 3.0, f32::NAN], [1.0, 2.5, 3.0, f32::NAN], [1.0, 1.0, 0.0, 0.0]);
        let count =
            |counting, memory: &CountMemory| on_device(&device, [&w, &after, &grad], counting, memory);
        let values = count(Counting::values(), &CountMemory::default());
        let nothing = UpdateCounts { spectrum: vec![0; values.spectrum.len()], ..UpdateCounts::default() };
        assert_eq!(values, UpdateCounts { unchanged: 1, ..nothing.clone() }, "{}", device.label);
        // Gradients are remembered between the steps that count.
        let (memory, dead) = (CountMemory::default(), Counting::default().dead(DEAD.0, 2));
        let found = [dead, dead, Counting::values().dead(DEAD.0, 2)].map(|counting| count(counting, &memory));
        assert_eq!(found[0], nothing, "{}", device.label);
        assert_eq!((found[1].dead, found[2].dead, found[2].unchanged), (2, 2, 1), "{}", device.label);
    }
}

/// More updates than an operation takes, of unequal lengths and grids, are counted as each alone.
#[test]
fn updates_of_one_launch_are_counted_by_themselves() {
    for device in devices("updates_of_one_launch_are_counted_by_themselves") {
        let updates: Vec<_> = (0..MOST)
            .map(|i| {
                let grid = MinifloatGrid::new(minifloat(4, i as u32 % 4, Domain::FIN).unwrap()).unwrap();
                let definition = Definition { grid, scale: [1.0, 0.37][i % 2] };
                let mut w = weights(&definition, false, false);
                w.truncate(w.len() - i);
                let (after, grad) = (moved(i, &w, &w), gradients(w.len()));
                let counting = Counting::values().codes(&definition.grid, definition.scale).unwrap();
                (w, after, grad, if i % 3 == 0 { counting.past().dead(DEAD.0, 1) } else { counting })
            })
            .collect();
        let tensors = updates.iter().map(|(w, after, grad, _)| {
            [w, after, grad].map(|values| tensor::flat(values.clone(), &device.tensors))
        });
        let call =
            CountCall { updates: updates.iter().map(|update| (update.3, CountMemory::default())).collect() };
        let [words, sums] = count_updates(tensors.collect(), call);
        let (words, sums) = (tensor::read_f32(words).unwrap(), tensor::read_f32(sums).unwrap());
        let mut slot = 0;
        for (index, (w, after, grad, counting)) in updates.iter().enumerate() {
            let slots = cubes(w.len());
            let words = &words[index * words.len() / MOST..(index + 1) * words.len() / MOST];
            let words: Vec<u32> = words.iter().map(|word| word.to_bits()).collect();
            let found = UpdateCounts::new(&words, &sums[slot..slot + slots]).unwrap();
            let expected = on_device(&device, [w, after, grad], *counting, &CountMemory::default());
            // Vectors of another width add distances in another order.
            let off = (found.ulp_sum - expected.ulp_sum).abs();
            assert!(off <= 1e-5 * expected.ulp_sum, "{}: update {index}", device.label);
            let found = UpdateCounts { ulp_sum: expected.ulp_sum, ..found };
            assert_eq!(found, expected, "{}: update {index}", device.label);
            slot += slots;
        }
    }
}

//! The kernel that counts the effects of an update: each unit counts, a cube combines the counts, and the host reads
//! them.
//!
//! It counts the same as [`Update::stored`](super::updates::Update::stored), from the values before and after the
//! update. Counts are integers. Distances are added up in f32, one slot per cube, in one fixed order, so that equal
//! launches give equal bits.

use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use super::{
    spectrum,
    update_counts::{CODES, COUNT, Counting, DEAD, PAST, SPECTRUM, WORDS, Word},
};
use crate::{
    cube_parts::{INFINITY, MAGNITUDE, QUIET, UNITS, cube_sum, elements, is_nan},
    kernel_text::cubes,
};

/// The words that a cube counts in shared memory.
type Words = Shared<[Atomic<u32>]>;
/// Rounds in which a cube's units iterate over all words.
const ROUNDS: u32 = (WORDS as u32).div_ceil(UNITS);
const ONES_FIELD: u32 = 127;
/// The code of a NaN in a format that has none.
const NO_CODE: u32 = u32::MAX;

/// Launches it over `[n]` tensors, all contiguous. `memory` has one word per element, or any four words if nothing is
/// remembered; `words` are [`WORDS`] zeros, and `sums` has one slot per cube.
pub(super) fn launch(
    [before, after, grad]: [CubeTensor; 3],
    counting: Counting,
    memory: CubeTensor,
    words: CubeTensor,
    sums: CubeTensor,
) {
    let (client, elements) = (before.client.clone(), elements(&before));
    let fits = |x: &CubeTensor| x.handle.offset_start.unwrap_or(0).is_multiple_of(16);
    let vectors = elements.is_multiple_of(4) && [&before, &after, &grad].into_iter().all(fits);
    let [flags, scale, edge, significand_bits, max_code, nan_code, sign, dead_below, window] =
        counting.scalars();
    count::launch(
        &client,
        CubeCount::new_1d(cubes(elements as usize) as u32),
        CubeDim::new_1d(UNITS),
        if vectors { 4 } else { 1 },
        before.into_buffer_arg(),
        after.into_buffer_arg(),
        grad.into_buffer_arg(),
        memory.into_buffer_arg(),
        words.into_buffer_arg(),
        sums.into_buffer_arg(),
        elements,
        flags,
        scale,
        edge,
        significand_bits,
        max_code,
        nan_code,
        sign,
        dead_below,
        window,
    );
}

#[cube(launch)]
fn count<N: Size>(
    before: &[Vector<f32, N>],
    after: &[Vector<f32, N>],
    grad: &[Vector<f32, N>],
    memory: &mut [Vector<u32, N>],
    statistics: &mut [Atomic<u32>],
    sums: &mut [f32],
    elements: u32,
    flags: u32,
    scale: u32,
    edge: u32,
    significand_bits: u32,
    max_code: u32,
    nan_code: u32,
    sign: u32,
    dead_below: u32,
    window: u32,
) {
    let rule = Rule { flags, scale, edge, significand_bits, max_code, nan_code, sign, dead_below, window };
    let words = Shared::<[Atomic<u32>]>::new_slice(WORDS);
    #[unroll]
    for round in 0..ROUNDS {
        let word = UNIT_POS + round * UNITS;
        if word < comptime!(WORDS as u32) {
            words[word as usize].store(0u32);
        }
    }
    sync_cube();
    let tally = Tally::new();
    let mut position = ABSOLUTE_POS;
    while position * N::value() < elements as usize {
        let (a, b, g) = (before[position], after[position], grad[position]);
        if rule.counts() {
            #[unroll]
            for i in 0..N::value() {
                tally.add(a.extract(i), b.extract(i), g.extract(i), &words, &rule);
            }
        }
        if rule.remembers() {
            let old = memory[position];
            let mut new = Vector::<u32, N>::empty();
            #[unroll]
            for i in 0..N::value() {
                new.insert(i, tally.remember(a.extract(i), g.extract(i), old.extract(i), &rule));
            }
            memory[position] = new;
        }
        position += CUBE_COUNT * (CUBE_DIM as usize);
    }
    tally.finish(&words, statistics, sums);
}

/// The requested counts, and the grid: [`Counting::scalars`].
#[derive(CubeType, Clone, Copy)]
struct Rule {
    flags: u32,
    scale: u32,
    edge: u32,
    significand_bits: u32,
    max_code: u32,
    nan_code: u32,
    sign: u32,
    dead_below: u32,
    window: u32,
}

#[cube]
impl Rule {
    /// True if words are counted.
    fn counts(&self) -> bool {
        (self.flags & COUNT) != 0u32
    }

    /// True if elements have a memory.
    fn remembers(&self) -> bool {
        (self.flags & comptime!(PAST | DEAD)) != 0u32
    }

    fn has(&self, #[comptime] flag: u32) -> bool {
        (self.flags & flag) != 0u32
    }

    /// The code of a stored value, to nearest-even, saturating.
    fn code(&self, x: f32) -> u32 {
        let bits = u32::reinterpret(x);
        let magnitude = bits & MAGNITUDE;
        let field = magnitude >> 23u32;
        // f32 subnormals get an implicit one: they lie far below code 1, which is all that counts.
        let significand = magnitude - ((field - 1u32) << 23u32);
        let below = min(field, self.edge >> 23u32);
        let binade = field - below;
        let shift = min((self.edge >> 23u32) + 23u32 - self.significand_bits - below, 25u32);
        // Without significand bits the code's last bit is the implicit one, and each binade adds one code.
        let floor = (significand >> shift) + select(self.significand_bits == 0u32, binade, 0u32);
        let steps = (significand + ((1u32 << (shift - 1u32)) - 1u32) + (floor & 1u32)) >> shift;
        let finite = min(steps + (binade << self.significand_bits), self.max_code);
        select(magnitude > INFINITY, self.nan_code, finite) | ((bits >> 31u32) * self.sign)
    }

    /// Fine steps from zero of a magnitude: significand steps of f32 at `2^emin` and above.
    fn fine_steps(&self, magnitude: u32) -> u32 {
        // 2^(23-emin) below the edge, where the result is less than 2^23.
        let per_unit = f32::reinterpret((comptime!(2 * ONES_FIELD + 23) - (self.edge >> 23u32)) << 23u32);
        let linear = f32::floor(f32::reinterpret(min(magnitude, self.edge)) * per_unit + 0.5f32);
        let normal = magnitude - (self.edge - comptime!(1u32 << 23));
        select(magnitude < self.edge, u32::cast_from(linear), normal)
    }

    /// Distance in codes between two stored values; NaN unless both are finite.
    fn distance(&self, a: f32, b: f32) -> f32 {
        let (abits, bbits) = (u32::reinterpret(a), u32::reinterpret(b));
        let (x, y) = (abits & MAGNITUDE, bbits & MAGNITUDE);
        let (m, n) = (self.fine_steps(x), self.fine_steps(y));
        let apart = max(m, n) - min(m, n);
        let steps = select(((abits ^ bbits) >> 31u32) == 0u32, apart, m + n);
        let field = self.edge >> 23u32;
        // 2^(M-emin) codes a unit below the edge, 2^(M-23) a fine step.
        let codes_below =
            f32::reinterpret((comptime!(2 * ONES_FIELD) + self.significand_bits - field) << 23u32);
        let fine = f32::reinterpret((comptime!(ONES_FIELD - 23) + self.significand_bits) << 23u32);
        let below = max(x, y) < self.edge;
        let distance = select(below, f32::abs(a - b) * codes_below, f32::cast_from(steps) * fine);
        f32::reinterpret(select(
            max(x, y) >= INFINITY,
            comptime!(INFINITY | QUIET),
            u32::reinterpret(distance),
        ))
    }
}

/// The counts of one unit.
#[derive(CubeType)]
struct Tally {
    unchanged: RuntimeCell<u32>,
    with_gradient: RuntimeCell<u32>,
    stalled: RuntimeCell<u32>,
    flipped: RuntimeCell<u32>,
    sign_flipped: RuntimeCell<u32>,
    no_code: RuntimeCell<u32>,
    crossings: RuntimeCell<u32>,
    returned: RuntimeCell<u32>,
    dead: RuntimeCell<u32>,
    ulps: RuntimeCell<f32>,
}

/// Increments the count if the condition holds.
#[cube]
fn add(cell: &RuntimeCell<u32>, holds: bool) {
    cell.store(cell.read() + u32::cast_from(holds));
}

#[cube]
impl Tally {
    /// Zero counts.
    fn new() -> Tally {
        Tally {
            unchanged: RuntimeCell::<u32>::new(0u32),
            with_gradient: RuntimeCell::<u32>::new(0u32),
            stalled: RuntimeCell::<u32>::new(0u32),
            flipped: RuntimeCell::<u32>::new(0u32),
            sign_flipped: RuntimeCell::<u32>::new(0u32),
            no_code: RuntimeCell::<u32>::new(0u32),
            crossings: RuntimeCell::<u32>::new(0u32),
            returned: RuntimeCell::<u32>::new(0u32),
            dead: RuntimeCell::<u32>::new(0u32),
            ulps: RuntimeCell::<f32>::new(0.0f32),
        }
    }

    /// Counts one element.
    fn add(&self, before: f32, after: f32, grad: f32, words: &Words, rule: &Rule) {
        let (a, b) = (u32::reinterpret(before), u32::reinterpret(after));
        let pushed = (u32::reinterpret(grad) & MAGNITUDE) != 0u32;
        let equal = a == b || ((a | b) & MAGNITUDE) == 0u32;
        add(&self.unchanged, equal && pushed && !is_nan(before));
        if rule.has(CODES) {
            let scale = f32::reinterpret(rule.scale);
            let (x, y) = (before * scale, after * scale);
            let moved = rule.code(x) != rule.code(y);
            add(&self.with_gradient, pushed);
            add(&self.stalled, pushed && !moved);
            add(&self.flipped, moved);
            add(&self.sign_flipped, moved && ((a ^ b) >> 31u32) != 0u32);
            add(&self.no_code, rule.nan_code == NO_CODE && (is_nan(x) || is_nan(y)));
            let (p, q) = (u32::reinterpret(x) & MAGNITUDE, u32::reinterpret(y) & MAGNITUDE);
            add(&self.crossings, (max(p, rule.edge) >> 23u32) != (max(q, rule.edge) >> 23u32));
            let distance = rule.distance(x, y);
            self.ulps.store(self.ulps.read() + distance);
            let octaves = u32::reinterpret(distance) >> comptime!(spectrum::IGNORED);
            let bin = max(octaves, spectrum::OFFSET) - spectrum::OFFSET;
            let bin = min(bin, comptime!(spectrum::BINS as u32 - 1));
            words[(comptime!(SPECTRUM as u32) + bin) as usize].fetch_add(1u32);
        }
    }

    /// The element's new memory: a word of [`ElementMemory`](super::element_memory::ElementMemory).
    fn remember(&self, before: f32, grad: f32, memory: u32, rule: &Rule) -> u32 {
        let mut codes = memory & 0xffffu32;
        if rule.has(PAST) {
            let (last, earlier) = (memory & 0xffu32, (memory >> 8u32) & 0xffu32);
            let now = rule.code(before * f32::reinterpret(rule.scale)) & 0xffu32;
            add(&self.returned, earlier == now && last != now);
            codes = (last << 8u32) | now;
        }
        let mut run = memory >> 16u32;
        if rule.has(DEAD) {
            // Magnitudes compare like their bits; a NaN is not dead.
            let dead = (u32::reinterpret(grad) & MAGNITUDE) < rule.dead_below;
            run = select(dead, min(run + 1u32, 0xffffu32), 0u32);
            add(&self.dead, run >= rule.window);
        }
        (run << 16u32) | codes
    }

    /// Combines the units of the cube and writes: all of them must call it.
    fn finish(&self, words: &Words, statistics: &mut [Atomic<u32>], sums: &mut [f32]) {
        words[comptime!(Word::Unchanged as usize)].fetch_add(self.unchanged.read());
        words[comptime!(Word::WithGradient as usize)].fetch_add(self.with_gradient.read());
        words[comptime!(Word::Stalled as usize)].fetch_add(self.stalled.read());
        words[comptime!(Word::Flipped as usize)].fetch_add(self.flipped.read());
        words[comptime!(Word::SignFlipped as usize)].fetch_add(self.sign_flipped.read());
        words[comptime!(Word::NoCode as usize)].fetch_add(self.no_code.read());
        words[comptime!(Word::Crossings as usize)].fetch_add(self.crossings.read());
        words[comptime!(Word::Returned as usize)].fetch_add(self.returned.read());
        words[comptime!(Word::Dead as usize)].fetch_add(self.dead.read());
        sync_cube();
        #[unroll]
        for round in 0..ROUNDS {
            let word = UNIT_POS + round * UNITS;
            if word < comptime!(WORDS as u32) {
                let count = words[word as usize].load();
                if count != 0u32 {
                    statistics[word as usize].fetch_add(count);
                }
            }
        }
        let ulps = cube_sum(self.ulps.read());
        if UNIT_POS == 0u32 {
            sums[CUBE_POS] = ulps;
        }
    }
}

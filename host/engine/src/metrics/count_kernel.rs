//! The kernel that counts the effects of an update: each unit counts, a cube combines the counts, and the host reads
//! them.
//!
//! It counts the same as [`Update::stored`](super::updates::Update::stored), from the values before and after the
//! update. Counts are integers. Distances are added up in f32, one slot per cube, in one fixed order, so that equal
//! launches give equal bits.

use burn_cubecl::tensor::CubeTensor;
use cubecl::{client::Client, prelude::*};

use super::{
    spectrum,
    update_counts::{CODES, COUNT, Counting, DEAD, PAST, SPECTRUM, WORDS, Word},
};
use crate::{
    cube_parts::{INFINITY, MAGNITUDE, QUIET, UNITS, cube_sum, elements, is_nan},
    tensor::{batch::MOST, batch_kernel::Work},
};

/// The words that a cube counts in shared memory.
type Words = Shared<[Atomic<u32>]>;
/// Rounds in which a cube's units iterate over all words.
const ROUNDS: u32 = (WORDS as u32).div_ceil(UNITS);
const ONES_FIELD: u32 = 127;
/// The code of a NaN in a format that has none.
const NO_CODE: u32 = u32::MAX;

/// Most tensors of each kind of a launch: before, after, gradients and memories, beside words, sums and scalars.
fn most(client: &Client) -> usize {
    (client.properties().hardware.max_bindings as usize).saturating_sub(3).div_euclid(4).clamp(1, MOST)
}

/// One update: values before and after and the gradient, `[n]` and contiguous, and one word of memory per element, or
/// any words if nothing is remembered.
pub(super) struct CountedUpdate {
    pub(super) tensors: [CubeTensor; 3],
    pub(super) memory: CubeTensor,
    pub(super) counting: Counting,
}

/// Launches it over some updates. `words` are [`WORDS`] zeros for each, and `sums` has one slot per cube of each.
pub(super) fn launch(updates: &[CountedUpdate], words: &CubeTensor, sums: &CubeTensor) {
    let client = words.client.clone();
    let (mut first, mut slot) = (0, 0);
    for updates in updates.chunks(most(&client)) {
        let befores: Vec<CubeTensor> = updates.iter().map(|update| update.tensors[0].clone()).collect();
        let work = Work::of(&befores);
        let fits = |x: &CubeTensor| {
            elements(x).is_multiple_of(4) && x.handle.offset_start.unwrap_or(0).is_multiple_of(16)
        };
        let vectors = updates.iter().flat_map(|update| &update.tensors).all(fits);
        let buffers = |of: fn(&CountedUpdate) -> &CubeTensor| {
            updates.iter().map(|update| of(update).clone().into_buffer_arg()).collect()
        };
        let memories = updates.iter().map(|update| update.memory.clone().into_buffer_arg()).collect();
        let (elements, starts) = work.arguments();
        count::launch(
            &client,
            work.cubes(),
            CubeDim::new_1d(UNITS),
            if vectors { 4 } else { 1 },
            buffers(|update| &update.tensors[0]),
            buffers(|update| &update.tensors[1]),
            buffers(|update| &update.tensors[2]),
            memories,
            words.clone().into_buffer_arg(),
            sums.clone().into_buffer_arg(),
            elements,
            starts,
            updates.iter().flat_map(|update| update.counting.scalars()).collect(),
            first,
            slot,
            updates.len(),
        );
        first += updates.len() as u32;
        slot += work.len();
    }
}

/// Cubes from `starts[i]` on count update `i`, by its scalars, nine for each. Its words are those of number `first` and
/// `i`, and the slot of a cube is number `slot` and its own.
#[cube(launch)]
fn count<N: Size>(
    before: Sequence<Box<[Vector<f32, N>]>>,
    after: Sequence<Box<[Vector<f32, N>]>>,
    grad: Sequence<Box<[Vector<f32, N>]>>,
    mut memory: Sequence<Box<[Vector<u32, N>]>>,
    statistics: &mut [Atomic<u32>],
    sums: &mut [f32],
    elements: Sequence<u32>,
    starts: Sequence<u32>,
    scalars: Sequence<u32>,
    first: u32,
    slot: u32,
    #[comptime] count_of_updates: usize,
) {
    let cube = CUBE_POS as u32;
    let mut own = 0u32;
    let mut start = 0u32;
    let mut end = 0u32;
    let mut len = 0u32;
    let mut rule = Rule::new();
    #[unroll]
    for i in 0..count_of_updates {
        if cube >= starts[i] && cube < starts[i + 1] {
            own = comptime!(i as u32).runtime();
            start = starts[i];
            end = starts[i + 1];
            len = elements[i];
            rule.flags = scalars[comptime!(9 * i)];
            rule.scale = scalars[comptime!(9 * i + 1)];
            rule.edge = scalars[comptime!(9 * i + 2)];
            rule.significand_bits = scalars[comptime!(9 * i + 3)];
            rule.max_code = scalars[comptime!(9 * i + 4)];
            rule.nan_code = scalars[comptime!(9 * i + 5)];
            rule.sign = scalars[comptime!(9 * i + 6)];
            rule.dead_below = scalars[comptime!(9 * i + 7)];
            rule.window = scalars[comptime!(9 * i + 8)];
        }
    }
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
    let mut position = ((cube - start) * UNITS + UNIT_POS) as usize;
    while position * N::value() < len as usize {
        // One body for all updates: a copy for each would take long to compile.
        let mut a = Vector::<f32, N>::zeroed();
        let mut b = Vector::<f32, N>::zeroed();
        let mut g = Vector::<f32, N>::zeroed();
        let mut old = Vector::<u32, N>::zeroed();
        #[unroll]
        for i in 0..count_of_updates {
            if own == comptime!(i as u32) {
                a = before[i][position];
                b = after[i][position];
                g = grad[i][position];
                if rule.remembers() {
                    old = memory[i][position];
                }
            }
        }
        if rule.counts() {
            #[unroll]
            for i in 0..N::value() {
                tally.add(a.extract(i), b.extract(i), g.extract(i), &words, &rule);
            }
        }
        if rule.remembers() {
            let mut new = Vector::<u32, N>::empty();
            #[unroll]
            for i in 0..N::value() {
                new.insert(i, tally.remember(a.extract(i), g.extract(i), old.extract(i), &rule));
            }
            #[unroll]
            for i in 0..count_of_updates {
                if own == comptime!(i as u32) {
                    store::<N>(&mut memory[i], position, new);
                }
            }
        }
        position += ((end - start) * UNITS) as usize;
    }
    tally.finish(&words, statistics, (first + own) * comptime!(WORDS as u32), sums, slot + cube);
}

#[cube]
fn store<N: Size>(to: &mut [Vector<u32, N>], position: usize, value: Vector<u32, N>) {
    to[position] = value;
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
    /// Nothing is counted.
    fn new() -> Rule {
        Rule {
            flags: 0u32,
            scale: 0u32,
            edge: 0u32,
            significand_bits: 0u32,
            max_code: 0u32,
            nan_code: 0u32,
            sign: 0u32,
            dead_below: 0u32,
            window: 0u32,
        }
    }

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

    /// Combines the units of the cube and writes, to the statistics from `place` on and to a slot of sums: all of them
    /// must call it.
    fn finish(&self, words: &Words, statistics: &mut [Atomic<u32>], place: u32, sums: &mut [f32], slot: u32) {
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
                    statistics[(place + word) as usize].fetch_add(count);
                }
            }
        }
        let ulps = cube_sum(self.ulps.read());
        if UNIT_POS == 0u32 {
            sums[slot as usize] = ulps;
        }
    }
}

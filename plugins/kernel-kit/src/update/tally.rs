//! What an update did to codes: counted by each unit, combined within a cube, and left for the host.
//!
//! The words and their meaning are `plugin-api`'s `kernel::update`, the definitions docs/numerics.md, sections 7.2, 7.7 and 7.8. Counts are integers. How
//! far weights moved is added up in f32, a slot a cube, in one fixed order, so that equal launches give equal bits.

use altgrad_plugin_api::kernel::update::{CODES, COUNT, DEAD, PAST, SPECTRUM_BINS, STATISTICS, word};
use cubecl_core as cubecl;
use cubecl_core::prelude::*;

use super::is_nan;
use crate::{
    kernels::NO_CODE,
    rounder::{INFINITY, MAGNITUDE, QUIET},
    tally::UNITS,
};

/// Words a cube counts in shared memory: all of the statistics.
pub const SHARED: usize = STATISTICS.len();
/// The words in shared memory.
pub type Words = Shared<[Atomic<u32>]>;
/// First word of the spectrum.
const SPECTRUM: u32 = word("ulp_spectrum") as u32;
/// Bits of an f32 that a bin of the spectrum ignores: it has eight bins an octave.
const IGNORED: u32 = 20;
/// Bin number of the pattern of 2^-24, minus 1: the bin below is bin 0.
const OFFSET: u32 = ((127 - 24) << 3) - 1;
const ONES_FIELD: u32 = 127;

/// What is to be counted, and of what grid: the host's scalars.
#[derive(CubeType, Clone, Copy)]
pub struct Counting {
    pub flags: u32,
    pub stored_scale: u32,
    pub edge: u32,
    pub significand: u32,
    pub max_code: u32,
    pub nan_code: u32,
    pub dead_below: u32,
    pub window: u32,
}

#[cube]
impl Counting {
    /// Whether words are wanted.
    pub fn counts(&self) -> bool {
        (self.flags & COUNT) != 0u32
    }

    /// Whether elements have a memory.
    pub fn remembers(&self) -> bool {
        (self.flags & comptime!(PAST | DEAD)) != 0u32
    }

    fn has(&self, #[comptime] flag: u32) -> bool {
        (self.flags & flag) != 0u32
    }

    /// The 8-bit code of a stored value, to nearest-even, saturating.
    fn code(&self, x: f32) -> u32 {
        let bits = u32::reinterpret(x);
        let magnitude = bits & MAGNITUDE;
        let field = magnitude >> 23u32;
        // f32 subnormals get an implicit one: they lie far below code 1, which is all that counts.
        let significand = magnitude - ((field - 1u32) << 23u32);
        let below = min(field, self.edge >> 23u32);
        let binade = field - below;
        let shift = min((self.edge >> 23u32) + 23u32 - self.significand - below, 25u32);
        // Without significand bits the code's last bit is the implicit one, and each binade adds one code.
        let floor = (significand >> shift) + select(self.significand == 0u32, binade, 0u32);
        let steps = (significand + ((1u32 << (shift - 1u32)) - 1u32) + (floor & 1u32)) >> shift;
        let finite = min(steps + (binade << self.significand), self.max_code);
        select(magnitude > INFINITY, self.nan_code, finite) | ((bits >> 31u32) << 7u32)
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
        let codes_below = f32::reinterpret((comptime!(2 * ONES_FIELD) + self.significand - field) << 23u32);
        let fine = f32::reinterpret((comptime!(ONES_FIELD - 23) + self.significand) << 23u32);
        let below = max(x, y) < self.edge;
        let distance = select(below, f32::abs(a - b) * codes_below, f32::cast_from(steps) * fine);
        f32::reinterpret(select(
            max(x, y) >= INFINITY,
            comptime!(INFINITY | QUIET),
            u32::reinterpret(distance),
        ))
    }
}

/// What one unit has seen.
#[derive(CubeType)]
pub struct Tally {
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

/// Counts one more if something holds.
#[cube]
fn add(cell: &RuntimeCell<u32>, holds: bool) {
    cell.store(cell.read() + u32::cast_from(holds));
}

/// Zeroes the cube's words: all units must call it.
#[cube]
pub fn open(words: &mut Words) {
    #[unroll]
    for round in 0..comptime!(SHARED.div_ceil(UNITS as usize) as u32) {
        let word = UNIT_POS + round * UNITS;
        if word < comptime!(SHARED as u32) {
            words[word as usize].store(0u32);
        }
    }
    sync_cube();
}

#[cube]
impl Tally {
    /// Nothing seen.
    pub fn new() -> Tally {
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
    pub fn add(&self, before: f32, after: f32, grad: f32, words: &Words, counting: &Counting) {
        let (a, b) = (u32::reinterpret(before), u32::reinterpret(after));
        let pushed = (u32::reinterpret(grad) & MAGNITUDE) != 0u32;
        let equal = a == b || ((a | b) & MAGNITUDE) == 0u32;
        add(&self.unchanged, equal && pushed && !is_nan(before));
        if counting.has(CODES) {
            let scale = f32::reinterpret(counting.stored_scale);
            let (x, y) = (before * scale, after * scale);
            let moved = counting.code(x) != counting.code(y);
            add(&self.with_gradient, pushed);
            add(&self.stalled, pushed && !moved);
            add(&self.flipped, moved);
            add(&self.sign_flipped, moved && ((a ^ b) >> 31u32) != 0u32);
            add(&self.no_code, counting.nan_code == NO_CODE && (is_nan(x) || is_nan(y)));
            let (p, q) = (u32::reinterpret(x) & MAGNITUDE, u32::reinterpret(y) & MAGNITUDE);
            add(&self.crossings, (max(p, counting.edge) >> 23u32) != (max(q, counting.edge) >> 23u32));
            let distance = counting.distance(x, y);
            self.ulps.store(self.ulps.read() + distance);
            let bin = max(u32::reinterpret(distance) >> IGNORED, OFFSET) - OFFSET;
            words[(SPECTRUM + min(bin, comptime!(SPECTRUM_BINS as u32 - 1))) as usize].fetch_add(1u32);
        }
    }

    /// The element's memory after this update: codes of the last two, and updates that it has been dead for.
    pub fn remember(&self, before: f32, grad: f32, memory: u32, counting: &Counting) -> u32 {
        let mut codes = memory & 0xffffu32;
        if counting.has(PAST) {
            let (last, earlier) = (memory & 0xffu32, (memory >> 8u32) & 0xffu32);
            let now = counting.code(before * f32::reinterpret(counting.stored_scale)) & 0xffu32;
            add(&self.returned, earlier == now && last != now);
            codes = (last << 8u32) | now;
        }
        let mut run = memory >> 16u32;
        if counting.has(DEAD) {
            // Magnitudes compare like their bits; a NaN is not dead.
            let dead = (u32::reinterpret(grad) & MAGNITUDE) < counting.dead_below;
            run = select(dead, min(run + 1u32, 0xffffu32), 0u32);
            add(&self.dead, run >= counting.window);
        }
        (run << 16u32) | codes
    }

    /// Combines the units of the cube and writes: all of them must call it.
    pub fn finish(&self, words: &Words, statistics: &mut [Atomic<u32>], sums: &mut [f32]) {
        let mut column = Shared::<[f32]>::new_slice(comptime!(UNITS as usize));
        column[UNIT_POS as usize] = self.ulps.read();
        words[comptime!(word("unchanged"))].fetch_add(self.unchanged.read());
        words[comptime!(word("with_gradient"))].fetch_add(self.with_gradient.read());
        words[comptime!(word("stalled"))].fetch_add(self.stalled.read());
        words[comptime!(word("flipped"))].fetch_add(self.flipped.read());
        words[comptime!(word("sign_flipped"))].fetch_add(self.sign_flipped.read());
        words[comptime!(word("no_code"))].fetch_add(self.no_code.read());
        words[comptime!(word("crossings"))].fetch_add(self.crossings.read());
        words[comptime!(word("returned"))].fetch_add(self.returned.read());
        words[comptime!(word("dead"))].fetch_add(self.dead.read());
        sync_cube();
        #[unroll]
        for round in 0..comptime!(SHARED.div_ceil(UNITS as usize) as u32) {
            let word = UNIT_POS + round * UNITS;
            if word < comptime!(SHARED as u32) {
                let count = words[word as usize].load();
                if count != 0u32 {
                    statistics[word as usize].fetch_add(count);
                }
            }
        }
        if UNIT_POS < 16u32 {
            let total = fold(&column, UNIT_POS, 16u32);
            column[UNIT_POS as usize] = total;
        }
        sync_cube();
        if UNIT_POS == 0u32 {
            sums[CUBE_POS] = fold(&column, 0u32, 1u32);
        }
    }
}

/// Adds entries `first, first + step ..`, 16 of them, in order.
#[cube]
fn fold(column: &Shared<[f32]>, first: u32, #[comptime] step: u32) -> f32 {
    let mut total = 0.0f32;
    for i in 0..16u32 {
        total += column[(first + i * step) as usize];
    }
    total
}

//! Statistics of a quantization pass: counted by each unit, combined within a cube, and left for the host.
//!
//! Counts are integers and reach the statistics buffer by one atomic a cube and word. The sums of squares are f32:
//! each cube writes its own slot, added up in one fixed order, so that equal launches give equal bits.
//!
//! Squares of f32 leave the range of f32. Each vector's terms are therefore scaled by a power of two that fits its
//! largest magnitude and kept apart in one of three bins (after J. L. Blue, "A portable Fortran program to find
//! the Euclidean norm of a vector", 1978); the host multiplies them out in f64. Within a vector, terms 2^-40 times
//! the largest and smaller may get lost.

use altgrad_plugin_api::OVERFLOW_ULPS;
use cubecl_core as cubecl;
use cubecl_core::prelude::*;

use crate::rounder::{INFINITY, MAGNITUDE};

/// Units per cube, for every kernel in this crate.
pub const UNITS: u32 = 256;
/// Words of the statistics buffer: amax, overflow, underflow, nan, nonzero.
pub const COUNTS: u32 = 5;
/// Partial sums per cube: x^2, error^2 and x*x_hat, each in bins small, middle and large.
pub const SUMS: u32 = 9;
/// log2 of the factor of a bin's terms, before squaring.
pub const BIN_EXPONENTS: [i32; 3] = [90, 0, -90];

/// Units that add up one word's column in the first stage.
const PARTS: u32 = 16;
/// f32 bits of 2^-50 and 2^50: between them squares and a million of their sums are normal numbers.
const SMALL_BELOW: u32 = (127 - 50) << 23;
const LARGE_FROM: u32 = (127 + 50) << 23;
/// f32 bits of 2^90 and 2^-90.
const ENLARGE: u32 = (127 + 90) << 23;
const SHRINK: u32 = (127 - 90) << 23;
const ONE: u32 = 127 << 23;

/// One sum in three bins.
#[derive(CubeType)]
struct Sum {
    small: RuntimeCell<f32>,
    middle: RuntimeCell<f32>,
    large: RuntimeCell<f32>,
}

#[cube]
impl Sum {
    fn new() -> Sum {
        Sum {
            small: RuntimeCell::<f32>::new(0.0f32),
            middle: RuntimeCell::<f32>::new(0.0f32),
            large: RuntimeCell::<f32>::new(0.0f32),
        }
    }

    fn add(&self, term: f32, small: bool, large: bool) {
        let unscaled = select(small, 0.0f32, select(large, 0.0f32, term));
        self.small.store(self.small.read() + select(small, term, 0.0f32));
        self.middle.store(self.middle.read() + unscaled);
        self.large.store(self.large.read() + select(large, term, 0.0f32));
    }

    /// Writes the bins to this unit's place in columns `first ..`.
    fn publish(&self, columns: &mut Shared<[f32]>, #[comptime] first: u32) {
        columns[column(first)] = self.small.read();
        columns[column(comptime!(first + 1))] = self.middle.read();
        columns[column(comptime!(first + 2))] = self.large.read();
    }
}

/// Place of this unit in a column of one word per unit.
#[cube]
fn column(#[comptime] word: u32) -> usize {
    (UNIT_POS + comptime!(word * UNITS)) as usize
}

/// The counts of one unit.
#[derive(CubeType)]
pub struct Tally {
    amax: RuntimeCell<u32>,
    overflow: RuntimeCell<u32>,
    underflow: RuntimeCell<u32>,
    nan: RuntimeCell<u32>,
    nonzero: RuntimeCell<u32>,
    x2: Sum,
    err2: Sum,
    x_xhat: Sum,
}

#[cube]
impl Tally {
    /// Zero counts.
    pub fn new() -> Tally {
        Tally {
            amax: RuntimeCell::<u32>::new(0u32),
            overflow: RuntimeCell::<u32>::new(0u32),
            underflow: RuntimeCell::<u32>::new(0u32),
            nan: RuntimeCell::<u32>::new(0u32),
            nonzero: RuntimeCell::<u32>::new(0u32),
            x2: Sum::new(),
            err2: Sum::new(),
            x_xhat: Sum::new(),
        }
    }

    /// Adds a vector of values, their results, and their rounded forms.
    pub fn add<N: Size>(&self, x: Vector<f32, N>, y: Vector<f32, N>, scaled: Vector<f32, N>, max_bits: u32) {
        let most = max_bits + OVERFLOW_ULPS;
        let mut overflow = 0u32;
        let mut underflow = 0u32;
        let mut nan = 0u32;
        let mut nonzero = 0u32;
        let mut amax = 0u32;
        let mut largest = 0u32;
        #[unroll]
        for i in 0..N::value() {
            let magnitude = u32::reinterpret(x.extract(i)) & MAGNITUDE;
            let result = u32::reinterpret(y.extract(i)) & MAGNITUDE;
            let rounded = u32::reinterpret(scaled.extract(i)) & MAGNITUDE;
            // Beyond the largest without overflow and at most infinity: one unsigned comparison.
            overflow += u32::cast_from(rounded - (most + 1u32) < INFINITY - most);
            let given = u32::cast_from(magnitude != 0u32);
            underflow += given & u32::cast_from(result == 0u32);
            nonzero += given;
            nan += u32::cast_from(magnitude > INFINITY);
            let finite = magnitude < INFINITY;
            amax = max(amax, select(finite, magnitude, 0u32));
            largest = max(largest, select(finite, result, 0u32));
        }
        self.overflow.store(self.overflow.read() + overflow);
        self.underflow.store(self.underflow.read() + underflow);
        self.nan.store(self.nan.read() + nan);
        self.nonzero.store(self.nonzero.read() + nonzero);
        self.amax.store(max(self.amax.read(), amax));
        self.add_sums::<N>(x, y, max(largest, amax));
    }

    fn add_sums<N: Size>(&self, x: Vector<f32, N>, y: Vector<f32, N>, largest: u32) {
        let small = largest < SMALL_BELOW;
        let large = largest >= LARGE_FROM;
        let factor = f32::reinterpret(select(small, ENLARGE, select(large, SHRINK, ONE)));
        let mut x2 = 0.0f32;
        let mut err2 = 0.0f32;
        let mut x_xhat = 0.0f32;
        #[unroll]
        for i in 0..N::value() {
            let finite = (u32::reinterpret(x.extract(i)) & MAGNITUDE) < INFINITY;
            let a = select(finite, x.extract(i), 0.0f32) * factor;
            let b = select(finite, y.extract(i), 0.0f32) * factor;
            let err = b - a;
            x2 += a * a;
            err2 += err * err;
            x_xhat += a * b;
        }
        self.x2.add(x2, small, large);
        self.err2.add(err2, small, large);
        self.x_xhat.add(x_xhat, small, large);
    }

    /// Combines the units of the cube and writes: all of them must call it.
    pub fn finish(&self, statistics: &mut [Atomic<u32>], sums: &mut [f32]) {
        let mut counts = Shared::<[u32]>::new_slice(comptime!((COUNTS * UNITS) as usize));
        let mut columns = Shared::<[f32]>::new_slice(comptime!((SUMS * UNITS) as usize));
        counts[column(0u32)] = self.amax.read();
        counts[column(1u32)] = self.overflow.read();
        counts[column(2u32)] = self.underflow.read();
        counts[column(3u32)] = self.nan.read();
        counts[column(4u32)] = self.nonzero.read();
        self.x2.publish(&mut columns, 0u32);
        self.err2.publish(&mut columns, 3u32);
        self.x_xhat.publish(&mut columns, 6u32);
        sync_cube();
        // First stage: PARTS units a column, each over every PARTS-th entry, into the first entry it read.
        let word = UNIT_POS / PARTS;
        let first = word * UNITS + UNIT_POS % PARTS;
        if word < COUNTS {
            let total = fold_count(&counts, word, first, PARTS);
            counts[first as usize] = total;
        }
        if word < SUMS {
            let total = fold_sum(&columns, first, PARTS);
            columns[first as usize] = total;
        }
        sync_cube();
        // Second stage: one unit a column.
        if UNIT_POS < COUNTS {
            let total = fold_count(&counts, UNIT_POS, UNIT_POS * UNITS, 1u32);
            if UNIT_POS == 0u32 {
                statistics[0usize].fetch_max(total);
            } else {
                statistics[UNIT_POS as usize].fetch_add(total);
            }
        }
        if UNIT_POS < SUMS {
            sums[CUBE_POS * comptime!(SUMS as usize) + UNIT_POS as usize] =
                fold_sum(&columns, UNIT_POS * UNITS, 1u32);
        }
    }
}

/// Combines entries `first, first + step ..`, 16 of them: word 0 is a maximum, the others are sums.
#[cube]
fn fold_count(counts: &Shared<[u32]>, word: u32, first: u32, #[comptime] step: u32) -> u32 {
    let mut total = 0u32;
    for i in 0..16u32 {
        let entry = counts[(first + i * step) as usize];
        total = select(word == 0u32, max(total, entry), total + entry);
    }
    total
}

/// Adds entries `first, first + step ..`, 16 of them, in order.
#[cube]
fn fold_sum(columns: &Shared<[f32]>, first: u32, #[comptime] step: u32) -> f32 {
    let mut total = 0.0f32;
    for i in 0..16u32 {
        total += columns[(first + i * step) as usize];
    }
    total
}

//! The statistics of a cast in kernels of the host: those that kernels of formats count, where these do not see the
//! values before the cast, or see several tensors.
//!
//! Squares of f32 leave the range of f32. Terms are therefore scaled by a power of two that fits the element, and kept
//! apart in three bins, which are added up in f64 (J. L. Blue, "A portable Fortran program to find the Euclidean norm
//! of a vector", 1978).

#![allow(missing_docs, reason = "the macro adds a module to each function")]

use altgrad_base::diagnostic::Diagnostic;
use altgrad_plugin_api::QuantStats as FormatStats;
use cubecl::prelude::*;

use crate::cube_parts::{INFINITY, MAGNITUDE, cube_sum};

/// Words: amax, overflow, underflow, nan, nonzero.
pub(super) const COUNTS: usize = 5;
/// Sums of a cube: of x^2, error^2 and x times the result, each in the bins small, middle and large.
pub(super) const SUMS: usize = 9;
/// log2 of the factor by which a bin's sums are multiplied.
pub(super) const BIN_EXPONENTS: [i32; 3] = [-180, 0, 180];

/// The statistics of a call, from its words and the sums of all its cubes.
///
/// # Errors
/// The device returned another number of them.
pub(super) fn read(words: &[u32], sums: &[f32]) -> Result<FormatStats, Diagnostic> {
    let wrong = || Diagnostic::run(format!("the device counted {} words of a cast", words.len()));
    let &[amax, overflow, underflow, nan, nonzero] = words else { return Err(wrong()) };
    let (slots, []) = sums.as_chunks::<SUMS>() else { return Err(wrong()) };
    let sum = |first: usize| -> f64 {
        let bin = |(bin, exponent): (usize, i32)| {
            let sum: f64 = slots.iter().map(|slot| f64::from(slot[first + bin])).sum();
            sum * 2f64.powi(exponent)
        };
        BIN_EXPONENTS.into_iter().enumerate().map(bin).sum()
    };
    let [overflow, underflow, nan, nonzero] = [overflow, underflow, nan, nonzero].map(u64::from);
    let [sum_x2, sum_err2, sum_x_xhat] = [0, 3, 6].map(sum);
    let amax = f32::from_bits(amax);
    Ok(FormatStats { amax, overflow, underflow, nan, nonzero, sum_x2, sum_err2, sum_x_xhat })
}

/// f32 bits of 2^-50 and 2^50: between them squares and a million of their sums are normal numbers.
const SMALL_BELOW: u32 = (127 - 50) << 23;
const LARGE_FROM: u32 = (127 + 50) << 23;
/// f32 bits of 2^90 and 2^-90.
const ENLARGE: u32 = (127 + 90) << 23;
const SHRINK: u32 = (127 - 90) << 23;
const ONE: u32 = 127 << 23;

/// One sum in three bins.
#[derive(CubeType)]
struct Bins {
    small: RuntimeCell<f32>,
    middle: RuntimeCell<f32>,
    large: RuntimeCell<f32>,
}

#[cube]
impl Bins {
    fn new() -> Bins {
        Bins {
            small: RuntimeCell::<f32>::new(0.0f32),
            middle: RuntimeCell::<f32>::new(0.0f32),
            large: RuntimeCell::<f32>::new(0.0f32),
        }
    }

    fn add(&self, term: f32, small: bool, large: bool) {
        self.small.store(self.small.read() + select(small, term, 0.0f32));
        self.middle.store(self.middle.read() + select(small || large, 0.0f32, term));
        self.large.store(self.large.read() + select(large, term, 0.0f32));
    }

    /// Writes the sums of the cube: all its units must call it.
    fn finish(&self, sums: &mut [f32], slot: usize) {
        let small = cube_sum(self.small.read());
        let middle = cube_sum(self.middle.read());
        let large = cube_sum(self.large.read());
        if UNIT_POS == 0u32 {
            sums[slot] = small;
            sums[slot + 1] = middle;
            sums[slot + 2] = large;
        }
    }
}

/// The counts of one unit.
#[derive(CubeType)]
pub(super) struct Tally {
    amax: RuntimeCell<u32>,
    overflow: RuntimeCell<u32>,
    underflow: RuntimeCell<u32>,
    nan: RuntimeCell<u32>,
    nonzero: RuntimeCell<u32>,
    x2: Bins,
    err2: Bins,
    x_xhat: Bins,
}

#[cube]
impl Tally {
    /// Zero counts.
    pub(super) fn new() -> Tally {
        Tally {
            amax: RuntimeCell::<u32>::new(0u32),
            overflow: RuntimeCell::<u32>::new(0u32),
            underflow: RuntimeCell::<u32>::new(0u32),
            nan: RuntimeCell::<u32>::new(0u32),
            nonzero: RuntimeCell::<u32>::new(0u32),
            x2: Bins::new(),
            err2: Bins::new(),
            x_xhat: Bins::new(),
        }
    }

    /// Adds an element, its result, and whether it overflowed.
    pub(super) fn add(&self, x: f32, y: f32, overflows: bool) {
        let magnitude = u32::reinterpret(x) & MAGNITUDE;
        let result = u32::reinterpret(y) & MAGNITUDE;
        let finite = magnitude < INFINITY;
        let given = u32::cast_from(magnitude != 0u32);
        let largest = select(finite, magnitude, 0u32);
        self.amax.store(max(self.amax.read(), largest));
        self.overflow.store(self.overflow.read() + u32::cast_from(overflows));
        self.underflow.store(self.underflow.read() + (given & u32::cast_from(result == 0u32)));
        self.nan.store(self.nan.read() + u32::cast_from(magnitude > INFINITY));
        self.nonzero.store(self.nonzero.read() + given);
        let most = max(largest, select(finite, result, 0u32));
        let (small, large) = (most < SMALL_BELOW, most >= LARGE_FROM);
        let factor = f32::reinterpret(select(small, ENLARGE, select(large, SHRINK, ONE)));
        let a = select(finite, x, 0.0f32) * factor;
        let b = select(finite, y, 0.0f32) * factor;
        self.x2.add(a * a, small, large);
        self.err2.add((b - a) * (b - a), small, large);
        self.x_xhat.add(a * b, small, large);
    }

    /// Combines the units of the cube and writes, to [`COUNTS`] words from `place` on and to slot number `slot` of
    /// [`SUMS`] sums: all of them must call it.
    pub(super) fn finish(&self, statistics: &mut [Atomic<u32>], place: usize, sums: &mut [f32], slot: usize) {
        let words = Shared::<[Atomic<u32>]>::new_slice(COUNTS);
        if UNIT_POS < comptime!(COUNTS as u32) {
            words[UNIT_POS as usize].store(0u32);
        }
        sync_cube();
        words[0usize].fetch_max(self.amax.read());
        words[1usize].fetch_add(self.overflow.read());
        words[2usize].fetch_add(self.underflow.read());
        words[3usize].fetch_add(self.nan.read());
        words[4usize].fetch_add(self.nonzero.read());
        sync_cube();
        if UNIT_POS < comptime!(COUNTS as u32) {
            let word = words[UNIT_POS as usize].load();
            if UNIT_POS == 0u32 {
                statistics[place].fetch_max(word);
            } else {
                statistics[place + UNIT_POS as usize].fetch_add(word);
            }
        }
        self.x2.finish(sums, slot * SUMS);
        self.err2.finish(sums, slot * SUMS + 3);
        self.x_xhat.finish(sums, slot * SUMS + 6);
    }
}

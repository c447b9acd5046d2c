//! Quantization of slices on the CPU: scaling, rounding, statistics.
//!
//! One thread, no allocation. Slices are taken in pieces that stay in the first-level cache, and each piece is
//! gone over by a few plain loops, because such loops vectorise and one loop that does everything does not.
//! Nothing depends on the piece size; the f64 sums depend on how the caller splits a tensor, not on threads.
//! Rounding itself is in [`crate::round`], random words in [`crate::random`].

use std::array;

use altgrad_plugin_api::{ErrorKind, PluginError, QuantParams, QuantStats, Rounding};

use crate::{
    random,
    round::{INFINITY, MAGNITUDE, Mode, NearestAway, NearestEven, Rounder, Stochastic, TowardZero},
};

/// Elements a piece: 2 KiB of f32.
const PIECE: usize = 512;
/// Partial sums: element i of a call goes to sum `i % LANES`, and they are added in order at the end.
const LANES: usize = 8;

/// Runs `$body` with `$mode` naming the type of a [`Rounding`]: the choice is made once a call.
macro_rules! with_mode {
    ($rounding:expr, $mode:ident => $body:expr) => {
        match $rounding {
            Rounding::NearestEven => {
                type $mode = NearestEven;
                $body
            }
            Rounding::NearestAway => {
                type $mode = NearestAway;
                $body
            }
            Rounding::TowardZero => {
                type $mode = TowardZero;
                $body
            }
            Rounding::Stochastic => {
                type $mode = Stochastic;
                $body
            }
        }
    };
}

/// `dst[i] = round(src[i] * scale) * inv_scale`, and what was seen on the way; contract as
/// [`Format::fake_quant`](altgrad_plugin_api::Format::fake_quant).
///
/// `histogram` is empty or has a counter a code. A NaN is counted under the NaN code, or nowhere if there is none.
///
/// # Errors
/// `SHAPE` if lengths do not fit.
pub fn fake_quant<const E: u32, const M: u32>(
    rounder: &Rounder<E, M>,
    src: &[f32],
    dst: &mut [f32],
    params: &QuantParams,
    histogram: &mut [u64],
) -> Result<QuantStats, PluginError> {
    same_len("fake_quant", src.len(), dst.len())?;
    if !histogram.is_empty() {
        same_len("histogram", histogram.len(), rounder.grid().codes())?;
    }
    Ok(with_mode!(params.rounding, R => fake_quant_mode::<R, E, M>(rounder, src, dst, params, histogram)))
}

/// `dst[i] = code(round(src[i] * scale))`; contract as [`Format::encode`](altgrad_plugin_api::Format::encode).
///
/// # Errors
/// `VALUE` for NaN in a format without NaN (codes before it are written), `SHAPE` if lengths do not fit.
pub fn encode<const E: u32, const M: u32>(
    rounder: &Rounder<E, M>,
    src: &[f32],
    dst: &mut [u16],
    params: &QuantParams,
) -> Result<(), PluginError> {
    same_len("encode", src.len(), dst.len())?;
    with_mode!(params.rounding, R => encode_mode::<R, E, M>(rounder, src, dst, params))
}

/// `dst[i] = values[codes[i]]`; contract as [`Format::decode`](altgrad_plugin_api::Format::decode).
///
/// # Errors
/// `VALUE` for a code without a value, `SHAPE` if lengths do not fit.
pub fn decode(values: &[f32], codes: &[u16], dst: &mut [f32]) -> Result<(), PluginError> {
    same_len("decode", codes.len(), dst.len())?;
    for (i, (&code, y)) in codes.iter().zip(dst).enumerate() {
        *y = *values.get(usize::from(code)).ok_or_else(|| {
            let largest = values.len().saturating_sub(1);
            PluginError::new(ErrorKind::VALUE, format!("code {code} of element {i} is beyond {largest}"))
        })?;
    }
    Ok(())
}

fn same_len(what: &str, left: usize, right: usize) -> Result<(), PluginError> {
    if left == right {
        return Ok(());
    }
    Err(PluginError::shape(format!("{what}: {left} elements for {right}")))
}

fn fake_quant_mode<R: Mode, const E: u32, const M: u32>(
    rounder: &Rounder<E, M>,
    src: &[f32],
    dst: &mut [f32],
    params: &QuantParams,
    histogram: &mut [u64],
) -> QuantStats {
    let &QuantParams { scale, inv_scale, ref key, .. } = params;
    let (mut stats, mut sums) = (QuantStats::default(), Sums::default());
    let (mut words, mut codes) = ([0; PIECE], [0; PIECE]);
    for (piece, (src, dst)) in src.chunks(PIECE).zip(dst.chunks_mut(PIECE)).enumerate() {
        if R::RANDOM {
            random::fill(key, (piece * PIECE) as u64, &mut words[..src.len()]);
        }
        for ((&x, y), &word) in src.iter().zip(&mut *dst).zip(&words) {
            *y = rounder.value::<R>(x * scale, word) * inv_scale;
        }
        count(src, dst, scale, rounder.max_bits(), &mut stats);
        sums = sums.add(src, dst);
        if !histogram.is_empty() {
            encode_piece::<R, E, M>(rounder, src, &mut codes, scale, &words);
            let unencodable = |x: f32| x.is_nan() && !rounder.grid().has_nan();
            for (_, &code) in src.iter().zip(&codes).filter(|&(&x, _)| !unencodable(x)) {
                histogram[usize::from(code)] += 1;
            }
        }
    }
    sums.finish(&mut stats);
    stats
}

fn encode_mode<R: Mode, const E: u32, const M: u32>(
    rounder: &Rounder<E, M>,
    src: &[f32],
    dst: &mut [u16],
    params: &QuantParams,
) -> Result<(), PluginError> {
    let mut words = [0; PIECE];
    for (piece, (src, dst)) in src.chunks(PIECE).zip(dst.chunks_mut(PIECE)).enumerate() {
        let first = piece * PIECE;
        if R::RANDOM {
            random::fill(&params.key, first as u64, &mut words[..src.len()]);
        }
        encode_piece::<R, E, M>(rounder, src, dst, params.scale, &words);
        if let Some(i) = src.iter().position(|x| x.is_nan()).filter(|_| !rounder.grid().has_nan()) {
            let message = format!("element {} is NaN, which the format has no code for", first + i);
            return Err(PluginError::new(ErrorKind::VALUE, message));
        }
    }
    Ok(())
}

/// The codes of one piece; zero for a NaN without a code.
fn encode_piece<R: Mode, const E: u32, const M: u32>(
    rounder: &Rounder<E, M>,
    src: &[f32],
    codes: &mut [u16],
    scale: f32,
    words: &[u32],
) {
    for ((&x, code), &word) in src.iter().zip(codes).zip(words) {
        *code = rounder.code_or_zero::<R>(x * scale, word);
    }
}

/// Adds the integer statistics of one piece and takes the larger amax. Conditions as [`QuantStats`] defines them.
fn count(src: &[f32], dst: &[f32], scale: f32, max_bits: u32, stats: &mut QuantStats) {
    let (mut amax, mut overflow, mut underflow, mut nan, mut nonzero) = (0u32, 0u32, 0u32, 0u32, 0u32);
    for (&x, &y) in src.iter().zip(dst) {
        let magnitude = x.to_bits() & MAGNITUDE;
        let scaled = (x * scale).to_bits() & MAGNITUDE;
        amax = amax.max(if magnitude < INFINITY { magnitude } else { 0 });
        overflow += u32::from((scaled > max_bits) & (scaled <= INFINITY));
        underflow += u32::from((magnitude != 0) & (y.to_bits() & MAGNITUDE == 0));
        nan += u32::from(magnitude > INFINITY);
        nonzero += u32::from(magnitude != 0);
    }
    stats.amax = stats.amax.max(f32::from_bits(amax));
    stats.overflow += u64::from(overflow);
    stats.underflow += u64::from(underflow);
    stats.nan += u64::from(nan);
    stats.nonzero += u64::from(nonzero);
}

/// The f64 sums in a fixed order that vectorises.
#[derive(Default)]
struct Sums {
    x2: [f64; LANES],
    err2: [f64; LANES],
    x_xhat: [f64; LANES],
}

impl Sums {
    /// Adds a piece that begins at a multiple of [`LANES`]. Products of two f32 are exact in f64.
    #[must_use]
    fn add(mut self, src: &[f32], dst: &[f32]) -> Self {
        let (src, src_rest) = src.as_chunks::<LANES>();
        let (dst, dst_rest) = dst.as_chunks::<LANES>();
        for (x, y) in src.iter().zip(dst) {
            self.add_lanes(x, y);
        }
        // The last, shorter group is filled up with zeros, which add nothing.
        let (mut x, mut y) = ([0.0; LANES], [0.0; LANES]);
        x[..src_rest.len()].copy_from_slice(src_rest);
        y[..dst_rest.len()].copy_from_slice(dst_rest);
        self.add_lanes(&x, &y);
        self
    }

    #[inline(always)]
    fn add_lanes(&mut self, x: &[f32; LANES], y: &[f32; LANES]) {
        let finite: [bool; LANES] = array::from_fn(|i| x[i].is_finite());
        let x: [f64; LANES] = array::from_fn(|i| f64::from(if finite[i] { x[i] } else { 0.0 }));
        let y: [f64; LANES] = array::from_fn(|i| f64::from(if finite[i] { y[i] } else { 0.0 }));
        // One sum a loop, so that each becomes a few SIMD additions.
        add_each(&mut self.x2, |i| x[i] * x[i]);
        add_each(&mut self.err2, |i| (y[i] - x[i]) * (y[i] - x[i]));
        add_each(&mut self.x_xhat, |i| x[i] * y[i]);
    }

    fn finish(self, stats: &mut QuantStats) {
        stats.sum_x2 = self.x2.iter().sum();
        stats.sum_err2 = self.err2.iter().sum();
        stats.sum_x_xhat = self.x_xhat.iter().sum();
    }
}

#[inline(always)]
fn add_each(sums: &mut [f64; LANES], term: impl Fn(usize) -> f64) {
    for (i, sum) in sums.iter_mut().enumerate() {
        *sum += term(i);
    }
}

//! Quantization of slices on the CPU: scaling, rounding, statistics.
//!
//! One thread, no allocation. Slices are taken in pieces that stay in the first-level cache: a loop rounds and looks
//! (`piece.rs`), and where it saw something out of the ordinary a slow one looks again (`exact.rs`). f64 sums depend on
//! how the caller splits a tensor, within their tolerance, but not on threads. Rounding itself is in [`crate::round`],
//! random words in [`crate::random`].

use altgrad_plugin_api::{ErrorKind, PluginError, QuantParams, QuantStats, Rounding, Scales};

use crate::{
    exact,
    histogram::Histogram,
    piece::{Group, LANES},
    random,
    round::{Mode, NearestAway, NearestEven, Rounder, Stochastic, TowardZero},
    scales::{GroupScales, PIECE, PieceScales},
    simd,
};

/// Runs `$body` with `$mode` naming the type of a [`Rounding`]: the choice is made once per call. An unknown mode is an
/// error.
macro_rules! with_mode {
    ($rounding:expr, $mode:ident => $body:expr) => {
        match $rounding {
            Rounding::NEAREST_EVEN => {
                type $mode = NearestEven;
                Ok($body)
            }
            Rounding::NEAREST_AWAY => {
                type $mode = NearestAway;
                Ok($body)
            }
            Rounding::TOWARD_ZERO => {
                type $mode = TowardZero;
                Ok($body)
            }
            Rounding::STOCHASTIC => {
                type $mode = Stochastic;
                Ok($body)
            }
            other => Err(other.unsupported()),
        }
    };
}

/// `dst[i] = round(src[i] * scale) * inverse`, and its statistics; contract as
/// [`Format::fake_quant`](altgrad_plugin_api::Format::fake_quant).
///
/// `histogram` is empty or has one counter per code. A NaN is counted under the NaN code, or nowhere if there is none.
///
/// # Errors
/// `SHAPE` if lengths do not fit, `UNSUPPORTED` for an unknown rounding mode.
pub fn fake_quant<const E: u32, const M: u32>(
    rounder: &Rounder<E, M>,
    src: &[f32],
    dst: &mut [f32],
    params: &QuantParams<'_>,
    histogram: &mut [u64],
) -> Result<QuantStats, PluginError> {
    same_len("fake_quant", src.len(), dst.len())?;
    params.scales.check(src.len())?;
    if !histogram.is_empty() {
        same_len("histogram", histogram.len(), rounder.grid().codes())?;
    }
    with_mode!(params.rounding, R => if histogram.is_empty() {
        fake_quant_mode::<R, false, E, M>(rounder, src, dst, params, histogram)
    } else {
        fake_quant_mode::<R, true, E, M>(rounder, src, dst, params, histogram)
    })
}

/// `dst[i] = code(round(src[i] * scale))`; contract as [`Format::encode`](altgrad_plugin_api::Format::encode).
///
/// # Errors
/// `VALUE` for NaN in a format without NaN (codes before it are written), `SHAPE` if lengths do not fit, `UNSUPPORTED`
/// for an unknown rounding mode.
pub fn encode<const E: u32, const M: u32>(
    rounder: &Rounder<E, M>,
    src: &[f32],
    dst: &mut [u16],
    params: &QuantParams<'_>,
) -> Result<(), PluginError> {
    same_len("encode", src.len(), dst.len())?;
    params.scales.check(src.len())?;
    with_mode!(params.rounding, R => encode_mode::<R, E, M>(rounder, src, dst, params))?
}

/// `dst[i] = values[codes[i]] * inverse`; contract as [`Format::decode`](altgrad_plugin_api::Format::decode).
///
/// # Errors
/// `VALUE` for a code without a value, `SHAPE` if lengths do not fit.
pub fn decode(
    values: &[f32],
    codes: &[u16],
    dst: &mut [f32],
    scales: &Scales<'_>,
) -> Result<(), PluginError> {
    same_len("decode", codes.len(), dst.len())?;
    scales.check(codes.len())?;
    for (range, [_, inverse]) in scales.runs(codes.len()) {
        for (i, (&code, y)) in range.clone().zip(codes[range.clone()].iter().zip(&mut dst[range])) {
            let value = values.get(usize::from(code)).ok_or_else(|| {
                let largest = values.len().saturating_sub(1);
                PluginError::new(ErrorKind::VALUE, format!("code {code} of element {i} is beyond {largest}"))
            })?;
            *y = value * inverse;
        }
    }
    Ok(())
}

fn same_len(what: &str, left: usize, right: usize) -> Result<(), PluginError> {
    if left == right {
        return Ok(());
    }
    Err(PluginError::shape(format!("{what}: {left} elements for {right}")))
}

fn fake_quant_mode<R: Mode, const CODES: bool, const E: u32, const M: u32>(
    rounder: &Rounder<E, M>,
    src: &[f32],
    dst: &mut [f32],
    params: &QuantParams<'_>,
    histogram: &mut [u64],
) -> QuantStats {
    let mut call = Call { rounder, histogram: Histogram::new(histogram), stats: QuantStats::default() };
    let mut words = [[0; LANES]; PIECE / LANES];
    let mut scales = PieceScales::new(&params.scales, src.len());
    for (piece, (src, dst)) in src.chunks(PIECE).zip(dst.chunks_mut(PIECE)).enumerate() {
        if R::RANDOM {
            random::fill(&params.key, (piece * PIECE) as u64, &mut words.as_flattened_mut()[..src.len()]);
        }
        scales.advance(src.len());
        let (groups, rest) = src.as_chunks();
        let (dst_groups, dst_rest) = dst.as_chunks_mut();
        call.groups::<R, CODES>(groups, dst_groups, scales.groups(0..groups.len()), &words);
        if !rest.is_empty() {
            let last = groups.len();
            call.rest::<R, CODES>(rest, dst_rest, scales.groups(last..last + 1), words[last]);
        }
    }
    call.stats
}

/// A call of [`fake_quant`] on its way.
struct Call<'a, const E: u32, const M: u32> {
    rounder: &'a Rounder<E, M>,
    histogram: Histogram<'a>,
    stats: QuantStats,
}

impl<const E: u32, const M: u32> Call<'_, E, M> {
    fn groups<R: Mode, const CODES: bool>(
        &mut self,
        src: &[Group<f32>],
        dst: &mut [Group<f32>],
        scales: GroupScales<'_>,
        words: &[Group<u32>],
    ) {
        let seen = match scales {
            GroupScales::PerGroup(pairs) => {
                simd::quantize::<R, CODES, E, M, _>(self.rounder, src, dst, pairs, words, &mut self.histogram)
            }
            GroupScales::PerElement(pairs) => {
                simd::quantize::<R, CODES, E, M, _>(self.rounder, src, dst, pairs, words, &mut self.histogram)
            }
        };
        if let Some(stats) = seen.ordinary().filter(|_| scales.are_sane()) {
            self.stats.merge(&stats);
            return;
        }
        let (src, dst) = (src.as_flattened(), dst.as_flattened());
        self.stats.merge(&exact::statistics(src, dst, |i| scales.of(i), self.rounder.overflow_bits()));
        if CODES && !self.rounder.grid().has_nan() {
            for (i, x) in src.iter().enumerate().filter(|(_, x)| x.is_nan()) {
                self.histogram.uncount(self.rounder.code_of(x * scales.of(i)), 1);
            }
        }
    }

    /// A last, shorter group, padded with zeros, which no statistic counts.
    fn rest<R: Mode, const CODES: bool>(
        &mut self,
        src: &[f32],
        dst: &mut [f32],
        scales: GroupScales<'_>,
        words: Group<u32>,
    ) {
        let (mut x, mut y) = ([0.0; LANES], [0.0; LANES]);
        x[..src.len()].copy_from_slice(src);
        self.groups::<R, CODES>(&[x], std::slice::from_mut(&mut y), scales, &[words]);
        dst.copy_from_slice(&y[..src.len()]);
        if CODES {
            self.histogram.uncount(0, LANES - src.len());
        }
    }
}

fn encode_mode<R: Mode, const E: u32, const M: u32>(
    rounder: &Rounder<E, M>,
    src: &[f32],
    dst: &mut [u16],
    params: &QuantParams<'_>,
) -> Result<(), PluginError> {
    let mut words = [0; PIECE];
    let mut scales = PieceScales::new(&params.scales, src.len());
    for (piece, (src, dst)) in src.chunks(PIECE).zip(dst.chunks_mut(PIECE)).enumerate() {
        let first = piece * PIECE;
        if R::RANDOM {
            random::fill(&params.key, first as u64, &mut words[..src.len()]);
        }
        scales.advance(src.len());
        let (groups, rest) = src.as_chunks();
        let (dst_groups, dst_rest) = dst.as_chunks_mut();
        let (words, last) = (words.as_chunks().0, groups.len());
        encode_groups::<R, E, M>(rounder, groups, dst_groups, scales.groups(0..last), words);
        if !rest.is_empty() {
            let (mut x, mut codes) = ([0.0; LANES], [0; LANES]);
            x[..rest.len()].copy_from_slice(rest);
            let scales = scales.groups(last..last + 1);
            encode_groups::<R, E, M>(rounder, &[x], std::slice::from_mut(&mut codes), scales, &words[last..]);
            dst_rest.copy_from_slice(&codes[..rest.len()]);
        }
        // Counted, because that vectorises and the search for the first does not.
        let unencodable =
            if rounder.grid().has_nan() { 0 } else { src.iter().filter(|x| x.is_nan()).count() };
        if unencodable > 0 {
            let i = src.iter().position(|x| x.is_nan()).unwrap_or_default();
            let message = format!("element {} is NaN, which the format has no code for", first + i);
            return Err(PluginError::new(ErrorKind::VALUE, message));
        }
    }
    Ok(())
}

fn encode_groups<R: Mode, const E: u32, const M: u32>(
    rounder: &Rounder<E, M>,
    src: &[Group<f32>],
    codes: &mut [Group<u16>],
    scales: GroupScales<'_>,
    words: &[Group<u32>],
) {
    match scales {
        GroupScales::PerGroup(pairs) => simd::encode::<R, E, M, _>(rounder, src, codes, pairs, words),
        GroupScales::PerElement(pairs) => simd::encode::<R, E, M, _>(rounder, src, codes, pairs, words),
    }
}

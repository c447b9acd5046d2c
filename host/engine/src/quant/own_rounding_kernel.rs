//! Roundings in kernels that formats have no mode for: ties toward zero or up, and few random bits. They are those of
//! [`altgrad_casts::Rounding::is_inner`] and [`altgrad_casts::FewBits::round`], bit for bit, for minifloats.

#![allow(missing_docs, reason = "the macro adds a module to each function")]

use altgrad_casts::{FewBits, FewBitsMode, Rounding as CastRounding};
use altgrad_plugin_api::{RandomKey, ValueGrid};
use cubecl::prelude::*;

use super::exact::{exp2, floor_log2, product, significand};
use crate::cube_parts::{INFINITY, MAGNITUDE, SIGN};

/// Most random bits: sums of two such numbers are u32.
const MOST_BITS: u8 = 31;
/// The least exponent of a step of the format: devices may flush the middle between smaller steps to zero.
const LEAST_STEP: i32 = -125;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum OwnKind {
    None,
    /// Ties go to the value toward zero.
    TiesToZero,
    /// Ties go to the greater value.
    TiesUp,
    /// From the value toward zero, by random bits.
    Random(FewBitsMode),
}

/// A rounding of scaled elements after that of the format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct OwnRounding {
    kind: OwnKind,
    /// Random bits.
    bits: u32,
    /// The format's significand bits, and the exponent of its smallest normal number.
    significand_bits: u32,
    emin: i32,
    /// f32 bits of the largest magnitudes below and above zero.
    largest: [u32; 2],
}

impl OwnRounding {
    /// No rounding but that of the format.
    pub(super) const NONE: Self =
        Self { kind: OwnKind::None, bits: 0, significand_bits: 0, emin: 0, largest: [0; 2] };

    /// The rounding of a cast to these values; `None` if kernels do not compute it.
    pub(super) fn of(own: Option<CastRounding>, values: &ValueGrid) -> Option<Self> {
        let Some(own) = own else { return Some(Self::NONE) };
        let ValueGrid::Minifloat(grid) = values else { return None };
        let (kind, bits) = match own {
            CastRounding::NearestZero => (OwnKind::TiesToZero, 0),
            CastRounding::NearestUp => (OwnKind::TiesUp, 0),
            CastRounding::FewBits(FewBits { bits, mode }) if bits <= MOST_BITS => {
                (OwnKind::Random(mode), bits.into())
            }
            _ => return None,
        };
        let significand_bits = grid.spec().significand_bits;
        (grid.emin() - significand_bits as i32 >= LEAST_STEP).then(|| Self {
            kind,
            bits,
            significand_bits,
            emin: grid.emin(),
            largest: [values.min_finite(), values.max_finite()].map(|end| end.abs().to_bits()),
        })
    }

    /// True if the value toward zero is needed beside the nearest.
    pub(super) fn decides_ties(self) -> bool {
        matches!(self.kind, OwnKind::TiesToZero | OwnKind::TiesUp)
    }
}

/// The words of a key without its step: seed, tensor and offset, low words first.
pub(super) fn key_words(key: &RandomKey) -> SequenceArg<u32> {
    let words = |x: u64| [x as u32, (x >> 32) as u32];
    let ([s0, s1], [o0, o1]) = (words(key.seed), words(key.offset));
    [s0, s1, key.tensor as u32, o0, o1].into_iter().collect()
}

/// The rounded element, from the scaled one, that of the format, and the value toward zero if ties are decided.
#[cube]
pub(super) fn own_rounded(
    scaled: f32,
    rounded: f32,
    inner: f32,
    position: u32,
    key: &Sequence<u32>,
    key_step: u32,
    #[comptime] own: OwnRounding,
) -> f32 {
    if comptime!(own.decides_ties()) {
        // Above the middle both differences are exact.
        let is_tie = rounded != inner && scaled - inner == rounded - scaled;
        let to_inner =
            if comptime!(own.kind == OwnKind::TiesToZero) { is_tie } else { is_tie && inner > rounded };
        select(to_inner, inner, rounded)
    } else {
        let bits = u32::reinterpret(scaled);
        let (size, low) = (bits & MAGNITUDE, u32::reinterpret(rounded) & MAGNITUDE);
        let step = max(floor_log2(max(size, 1u32)), own.emin) - comptime!(own.significand_bits as i32);
        let largest = select((bits & SIGN) != 0u32, own.largest[0], own.largest[1]);
        let stays = low >= largest || low == size || size >= INFINITY;
        let up = goes_up(size, step, random_word(position, key, key_step), own) && !stays;
        let count = f32::reinterpret(product(low, exp2(-step))) + 1.0f32;
        let above = product(u32::reinterpret(count), exp2(step)) | (bits & SIGN);
        select(up, f32::reinterpret(above), rounded)
    }
}

/// True if a magnitude goes away from zero: its distance from the value below, in units of `2^-bits` steps, and the
/// random number exceed a step.
#[cube]
fn goes_up(size: u32, step: i32, word: u32, #[comptime] own: OwnRounding) -> bool {
    let bits = comptime!(own.bits as i32).runtime();
    let number = max(size, 1u32);
    // The number is m 2^(e - 23), so that the distance is the bits of m that are cut off.
    let m = significand(number);
    let shift = max(step - (floor_log2(number) - 23i32), 0i32);
    let cut = m & ((1u32 << u32::cast_from(min(shift, 24i32))) - 1u32);
    let down = u32::cast_from(clamp(shift - bits, 0i32, 25i32));
    let left = u32::cast_from(clamp(bits - shift, 0i32, 31i32));
    let whole = (cut << left) >> down;
    let rest = cut & ((1u32 << down) - 1u32);
    let half = (1u32 << down) >> 1u32;
    let tie = rest == half;
    let more = if comptime!(own.kind == OwnKind::Random(FewBitsMode::A)) {
        false.runtime()
    } else if comptime!(own.kind == OwnKind::Random(FewBitsMode::B)) {
        rest >= half
    } else if comptime!(own.kind == OwnKind::Random(FewBitsMode::C)) {
        rest > half || (tie && (whole & 1u32) == 1u32)
    } else {
        rest > half || (tie && (whole & 1u32) == 0u32)
    };
    let whole = whole + u32::cast_from(more && down != 0u32);
    whole + (word >> comptime!(32 - own.bits)) >= comptime!(1u32 << own.bits)
}

/// The random word of an element: Philox4x32-10, as [`altgrad_plugin_api::random`] defines it. `key` are the words of
/// [`key_words`].
#[cube]
pub(super) fn random_word(position: u32, key: &Sequence<u32>, step: u32) -> u32 {
    let offset = key[3];
    let low = offset + position;
    let high = key[4] + u32::cast_from(low < offset);
    let mut c0 = (low >> 2u32) | (high << 30u32);
    let mut c1 = high >> 2u32;
    let mut c2 = step;
    let mut c3 = key[2];
    let mut k0 = key[0];
    let mut k1 = key[1];
    for _ in 0..10u32 {
        let p0 = c0 * 0xd251_1f53u32;
        let p1 = c2 * 0xcd9e_8d57u32;
        let h0 = c0.mul_hi(0xd251_1f53u32);
        let h1 = c2.mul_hi(0xcd9e_8d57u32);
        c0 = h1 ^ c1 ^ k0;
        c2 = h0 ^ c3 ^ k1;
        c1 = p1;
        c3 = p0;
        k0 += 0x9e37_79b9u32;
        k1 += 0xbb67_ae85u32;
    }
    let lane = low & 3u32;
    let first = select(lane == 0u32, c0, c1);
    let last = select(lane == 2u32, c2, c3);
    select(lane < 2u32, first, last)
}

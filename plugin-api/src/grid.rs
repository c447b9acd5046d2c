//! A minifloat as a set of values: everything that derives from its [`Minifloat`] description.
//!
//! Codes are sign-magnitude: the sign is the top bit, and magnitudes ascend with the code below it. Refuses formats
//! wider than 16 bits and those whose values are not all exact in f32. Functions for every format, minifloat or table,
//! are in [`crate::values`].

use crate::{Domain, Minifloat, PluginError};

/// f32 NaN, quiet, positive.
const NAN_BITS: u32 = 0x7fc0_0000;

/// `2^(E-1) - 1`, and 0 when `E <= 1`.
#[must_use]
pub const fn canonical_bias(exponent_bits: u32) -> i32 {
    if exponent_bits <= 1 { 0 } else { (1 << (exponent_bits - 1)) - 1 }
}

/// The minifloat with these bit counts (significand bits as stored) and the canonical bias.
///
/// # Errors
/// `CONFIG` if no such format exists; see [`MinifloatGrid::new`].
pub fn minifloat(
    exponent_bits: u32,
    significand_bits: u32,
    domain: Domain,
) -> Result<Minifloat, PluginError> {
    let bias = if exponent_bits <= 8 { canonical_bias(exponent_bits) } else { 0 };
    MinifloatGrid::new(Minifloat { exponent_bits, significand_bits, bias, domain }).map(|grid| grid.spec)
}

/// `2^n`; 0 or infinity where f64 has no normal number for it.
fn exp2i(n: i64) -> f64 {
    match n {
        1024.. => f64::INFINITY,
        ..-1022 => 0.0,
        _ => f64::from_bits(((n + 1023) as u64) << 52),
    }
}

/// `floor(log2 |w|)` of a normal f64; -1023 below.
fn floor_log2(w: f64) -> i64 {
    ((w.to_bits() >> 52) & 0x7ff) as i64 - 1023
}

/// The values of a minifloat and the geometry between them. Arguments are in scaled units.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MinifloatGrid {
    spec: Minifloat,
}

impl MinifloatGrid {
    /// The grid of `spec`, whose bias need not be the canonical one.
    ///
    /// # Errors
    /// `CONFIG` if it has more than 8 exponent, 10 stored significand or 16 code bits, a domain without a top
    /// exponent to reserve, no finite value but zero, or values that are not exact in f32.
    pub fn new(spec: Minifloat) -> Result<Self, PluginError> {
        let Minifloat { exponent_bits: e, significand_bits: m, bias, domain } = spec;
        let fault =
            |what: &str| Err(PluginError::config(format!("no minifloat E{e}M{m} with bias {bias}: {what}")));
        if e > 8 || m > 10 || e + m > 15 {
            return fault("at most 8 exponent, 10 significand and 16 bits in all");
        }
        if domain.name().is_none() {
            return fault(&format!("domain {} is unknown", domain.0));
        }
        if e == 0 && domain != Domain::FIN {
            return fault("without exponent bits every code is finite");
        }
        let grid = Self { spec };
        if e + m == 0 || grid.max_code() == 0 {
            return fault("it has no value but zero");
        }
        if bias.unsigned_abs() > 1000 || grid.max_f64() > f64::from(f32::MAX) || grid.quantum() < exp2i(-149)
        {
            return fault("its values do not fit in f32");
        }
        Ok(grid)
    }

    /// The description of the grid.
    #[must_use]
    pub fn spec(&self) -> Minifloat {
        self.spec
    }

    /// Exponent of the smallest normal number, and of the spacing below it: `1 - bias`.
    #[must_use]
    pub fn emin(&self) -> i32 {
        1 - self.spec.bias
    }

    /// Bits per code, sign included: 2 to 16.
    #[must_use]
    pub fn bits(&self) -> u32 {
        1 + self.spec.exponent_bits + self.spec.significand_bits
    }

    /// Number of codes: `2^bits`.
    #[must_use]
    pub fn codes(&self) -> usize {
        1 << self.bits()
    }

    /// The sign bit of a code.
    #[must_use]
    pub fn sign_bit(&self) -> u16 {
        1 << (self.bits() - 1)
    }

    /// The largest finite value's code; all smaller ones are finite too.
    #[must_use]
    pub fn max_code(&self) -> u16 {
        let Minifloat { exponent_bits: e, significand_bits: m, domain, .. } = self.spec;
        let all_ones = ((1u32 << (e + m)) - 1) as u16;
        match domain {
            // arXiv:2209.05433 table 1: only S.1111.111 is NaN, so 0x7E = 448 is E4M3's max.
            Domain::FN => all_ones - 1,
            // The all-ones exponent with significand 0 is infinity; the code before it is the largest.
            Domain::IEEE => (((1u32 << e) - 1) << m) as u16 - 1,
            // `fin`: `new` refuses others.
            _ => all_ones,
        }
    }

    /// True if it has infinities.
    #[must_use]
    pub fn has_inf(&self) -> bool {
        self.spec.domain == Domain::IEEE
    }

    /// True if it has a NaN. An `ieee` format without significand bits has none.
    #[must_use]
    pub fn has_nan(&self) -> bool {
        self.nan_code().is_some()
    }

    /// The positive code NaN is encoded as (quiet: top significand bit set), if the format has a NaN.
    #[must_use]
    pub fn nan_code(&self) -> Option<u16> {
        match self.spec.domain {
            Domain::FN => Some(self.max_code() + 1),
            Domain::IEEE => {
                let quiet = 1u16.checked_shl(self.spec.significand_bits.checked_sub(1)?)?;
                Some((self.max_code() + 1) | quiet)
            }
            _ => None,
        }
    }

    /// Largest finite value.
    #[must_use]
    pub fn max_finite(&self) -> f32 {
        self.max_f64() as f32
    }

    /// Smallest normal number; `None` where every finite code is zero or subnormal.
    #[must_use]
    pub fn min_normal(&self) -> Option<f32> {
        let first = 1u16 << self.spec.significand_bits;
        (self.max_code() >= first).then(|| self.decode(first))
    }

    /// Smallest subnormal number; `None` without significand bits.
    #[must_use]
    pub fn min_subnormal(&self) -> Option<f32> {
        (self.spec.significand_bits > 0).then(|| self.decode(1))
    }

    /// The value of a code, exact; infinities and NaN depend on the domain. Bits above the code's are ignored.
    #[must_use]
    pub fn decode(&self, code: u16) -> f32 {
        let magnitude = code & (self.sign_bit() - 1);
        let value = if magnitude <= self.max_code() {
            self.magnitude(magnitude) as f32
        } else if self.has_inf() && magnitude == self.max_code() + 1 {
            f32::INFINITY
        } else {
            f32::from_bits(NAN_BITS)
        };
        if code & self.sign_bit() == 0 { value } else { -value }
    }

    /// `S(w) = 2^(max(floor(log2 |w|), emin) - M)`: the gap to the next value away from zero. NaN unless `w` is finite.
    ///
    /// At a power of two above `2^emin` the gap toward zero is half of it.
    #[must_use]
    pub fn spacing(&self, w: f64) -> f64 {
        if !w.is_finite() {
            return f64::NAN;
        }
        exp2i(floor_log2(w).max(self.emin().into()) - i64::from(self.spec.significand_bits))
    }

    /// Code coordinate: odd, slope `1/S(w)`, and on grid values exactly the (signed) code. It continues beyond the
    /// largest value as if there were more binades. NaN and infinities are returned as they are.
    #[must_use]
    pub fn phi(&self, w: f64) -> f64 {
        if !w.is_finite() {
            return w;
        }
        let e = floor_log2(w).max(self.emin().into());
        let per_binade = exp2i(self.spec.significand_bits.into());
        // Below 2^emin the formula of the first binade continues linearly to zero, since e is clamped.
        let binades_below = (e - i64::from(self.emin())) as f64;
        (per_binade * (binades_below + w.abs() * exp2i(-e))).copysign(w)
    }

    /// The value at a code coordinate: `phi_inverse(phi(w)) = w`.
    #[must_use]
    pub fn phi_inverse(&self, u: f64) -> f64 {
        if !u.is_finite() {
            return u;
        }
        let binade = u.abs() / exp2i(self.spec.significand_bits.into());
        // Binade 0 holds the subnormals and has the spacing of binade 1.
        let lower = binade.floor().max(1.0);
        let magnitude = exp2i(lower as i64 - i64::from(self.spec.bias)) * (binade - (lower - 1.0));
        magnitude.copysign(u)
    }

    /// Spacing of the subnormals: `2^(emin - M)`.
    fn quantum(&self) -> f64 {
        exp2i(i64::from(self.emin()) - i64::from(self.spec.significand_bits))
    }

    fn max_f64(&self) -> f64 {
        self.magnitude(self.max_code())
    }

    /// The value of a finite magnitude code.
    fn magnitude(&self, code: u16) -> f64 {
        self.phi_inverse(code.into())
    }
}

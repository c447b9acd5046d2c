//! The values of small floating-point formats that [`Minifloat`] cannot describe: without sign, subnormals or zero, or
//! with NaN and infinities at other codes.
//!
//! Refuses formats wider than 16 bits and those whose values are not all exact in f32.

use crate::{Domain, FormatSpec, Minifloat, PluginError, grid::MinifloatGrid};

/// The codes of NaN. *Magnitudes* are the bits of a code without its sign.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum NanCode {
    /// There is no NaN.
    #[default]
    None,
    /// The largest magnitude: E4M3 of OCP, unsigned formats of P3109.
    AllOnes,
    /// The code of -0: the FNUZ formats, signed formats of P3109.
    NegativeZero,
    /// The magnitudes with the largest exponent that are no infinity: IEEE 754.
    Ieee,
}

/// The codes of infinities.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum InfinityCode {
    /// There is none.
    #[default]
    None,
    /// The largest magnitude that is not NaN: extended formats of P3109.
    Last,
    /// The magnitude with the largest exponent and significand 0: IEEE 754.
    Ieee,
}

/// The codes of a floating-point format: sign if there is one, exponent, significand, from the highest bit.
///
/// ```
/// use altgrad_plugin_api::{CodeLayout, NanCode, ValueGrid};
///
/// // E8M0 of OCP MX: no sign, no zero, powers of two from 2^-127.
/// let (nan, layout) = (NanCode::AllOnes, CodeLayout::new(8, 0));
/// let e8m0 = CodeLayout { signed: false, subnormals: false, zero: false, nan, ..layout };
/// let values = ValueGrid::new(&e8m0.spec()?)?;
/// assert_eq!((values.decode(0), values.max_finite()), (2f32.powi(-127), 2f32.powi(127)));
/// # Ok::<(), altgrad_plugin_api::PluginError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CodeLayout {
    /// Exponent bits, 0 to 8.
    pub exponent_bits: u32,
    /// Stored significand bits, 0 to 10.
    pub significand_bits: u32,
    /// Exponent bias.
    pub bias: i32,
    /// True if the highest bit of a code is its sign.
    pub signed: bool,
    /// True if exponent 0 has subnormals. Without them it is an ordinary exponent, except for code 0 if that is zero.
    pub subnormals: bool,
    /// True if code 0 is zero. Formats with subnormals have it.
    pub zero: bool,
    /// NaN.
    pub nan: NanCode,
    /// Infinities.
    pub infinity: InfinityCode,
}

impl CodeLayout {
    /// The signed format with subnormals, the bias `2^(E-1) - 1` (0 when `E <= 1`), and numbers only.
    #[must_use]
    pub fn new(exponent_bits: u32, significand_bits: u32) -> Self {
        let bias = if (2..=16).contains(&exponent_bits) { (1 << (exponent_bits - 1)) - 1 } else { 0 };
        let (nan, infinity) = (NanCode::None, InfinityCode::None);
        Self {
            exponent_bits,
            significand_bits,
            bias,
            signed: true,
            subnormals: true,
            zero: true,
            nan,
            infinity,
        }
    }

    /// The values of all codes: a [`Minifloat`] if it is one, otherwise a table.
    ///
    /// # Errors
    /// [`ErrorKind::CONFIG`](crate::ErrorKind::CONFIG): more than 8 exponent, 10 significand or 16 bits, parts that
    /// exclude each other, or values that are not exact in f32.
    pub fn spec(&self) -> Result<FormatSpec, PluginError> {
        self.check()?;
        let domain = match (self.nan, self.infinity) {
            (NanCode::Ieee, InfinityCode::Ieee) => Some(Domain::IEEE),
            (NanCode::AllOnes, InfinityCode::None) => Some(Domain::FN),
            (NanCode::None, InfinityCode::None) => Some(Domain::FIN),
            _ => None,
        };
        let has_signs_and_subnormals = self.signed && self.subnormals;
        if let Some(domain) = domain.filter(|_| has_signs_and_subnormals) {
            let Self { exponent_bits, significand_bits, bias, .. } = *self;
            let minifloat = Minifloat { exponent_bits, significand_bits, bias, domain };
            return MinifloatGrid::new(minifloat).map(|grid| FormatSpec::Minifloat(grid.spec()));
        }
        let magnitudes = 1 << (self.exponent_bits + self.significand_bits);
        let positive: Vec<f32> =
            (0..magnitudes).map(|code| self.magnitude(code)).collect::<Result<_, _>>()?;
        let negative = positive.iter().map(|value| if value.is_nan() { *value } else { -value });
        let mut values = positive.clone();
        values.extend(negative.filter(|_| self.signed));
        if self.nan == NanCode::NegativeZero {
            values[positive.len()] = f32::NAN;
        }
        Ok(FormatSpec::Table(values.into()))
    }

    fn check(&self) -> Result<(), PluginError> {
        let Self { exponent_bits: e, significand_bits: m, .. } = *self;
        let refusals = [
            (e > 8 || m > 10, "it has at most 8 exponent bits and 10 significand bits"),
            (e + m == 0, "it has no exponent and no significand bits"),
            (self.bias.unsigned_abs() > 1000, "its bias is from -1000 to 1000"),
            (self.nan == NanCode::NegativeZero && !self.signed, "without sign it has no -0 to be NaN"),
            (!self.zero && self.subnormals, "a format with subnormals has a zero"),
            (
                (self.nan == NanCode::Ieee || self.infinity == InfinityCode::Ieee) && e == 0,
                "without exponent bits it has no largest exponent for NaN and infinities",
            ),
            (
                self.infinity == InfinityCode::Ieee && self.nan != NanCode::Ieee,
                "infinities as in IEEE 754 need NaN as in IEEE 754",
            ),
            (
                self.infinity == InfinityCode::Last && self.nan == NanCode::Ieee,
                "with NaN as in IEEE 754, infinities are as there or missing",
            ),
        ];
        match refusals.iter().find(|(is, _)| *is) {
            Some((_, why)) => Err(PluginError::config(format!("no floating-point format E{e}M{m}: {why}"))),
            None => Ok(()),
        }
    }

    /// The value of a code without sign.
    fn magnitude(&self, code: u32) -> Result<f32, PluginError> {
        let Self { exponent_bits: e, significand_bits: m, bias, .. } = *self;
        let last = (1u32 << (e + m)) - 1;
        let first_ieee = ((1u32 << e) - 1) << m;
        let largest_number = last - u32::from(self.nan == NanCode::AllOnes);
        match self.infinity {
            InfinityCode::Ieee if code == first_ieee => return Ok(f32::INFINITY),
            InfinityCode::Last if code == largest_number => return Ok(f32::INFINITY),
            _ => {}
        }
        if self.nan == NanCode::Ieee && code >= first_ieee || code > largest_number {
            return Ok(f32::NAN);
        }
        let (exponent, significand) = (code >> m, code & ((1 << m) - 1));
        if code == 0 && self.zero {
            return Ok(0.0);
        }
        let (units, exponent) = match exponent {
            0 if self.subnormals => (significand, 1),
            _ => ((1 << m) + significand, exponent),
        };
        // Exact: f64 has more significand bits, and a wider range.
        let value = f64::from(units) * 2f64.powi(exponent as i32 - bias - m as i32);
        let narrow = value as f32;
        if f64::from(narrow) == value && narrow.is_finite() {
            return Ok(narrow);
        }
        Err(PluginError::config(format!(
            "no floating-point format E{e}M{m} with bias {bias}: {value:e} is no f32"
        )))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::ValueGrid;

    fn values(layout: CodeLayout) -> ValueGrid {
        ValueGrid::new(&layout.spec().unwrap()).unwrap()
    }

    /// Largest values of P3109's formats as gfloat 0.5.2 has them, and the codes of its interim report.
    #[test]
    fn formats_of_p3109_have_their_values() {
        let of = |precision: u32, signed: bool, extended: bool| {
            let exponent_bits = 8 - precision + u32::from(!signed);
            let infinity = if extended { InfinityCode::Last } else { InfinityCode::None };
            let nan = if signed { NanCode::NegativeZero } else { NanCode::AllOnes };
            let bias = 1 << (8 - precision - u32::from(signed));
            values(CodeLayout {
                bias,
                signed,
                nan,
                infinity,
                ..CodeLayout::new(exponent_bits, precision - 1)
            })
        };
        for (format, largest, code) in [
            (of(4, true, true), 224.0, 0x7e),
            (of(4, true, false), 240.0, 0x7f),
            (of(3, true, true), 49152.0, 0x7e),
            (of(4, false, true), 53248.0, 0xfd),
        ] {
            assert_eq!((format.max_finite(), format.decode(code)), (largest, largest));
        }
        let format = of(4, true, true);
        assert_eq!(
            [format.decode(0x48), format.decode(0x7f), format.decode(0xff)],
            [2.0, f32::INFINITY, f32::NEG_INFINITY]
        );
        assert!(format.decode(0x80).is_nan());
        let unsigned = of(4, false, true);
        assert!(unsigned.decode(0xff).is_nan() && unsigned.decode(0xfe) == f32::INFINITY);
    }

    /// UE5M3 as CUDA 13.4 has it.
    #[test]
    fn unsigned_scales_have_their_ranges() {
        let ue5m3 = CodeLayout { signed: false, nan: NanCode::AllOnes, ..CodeLayout::new(5, 3) };
        let grid = values(ue5m3);
        assert_eq!((grid.min_positive(), grid.max_finite()), (2f32.powi(-17), 114_688.0));
        assert_eq!((grid.codes(), grid.min_finite()), (256, 0.0));
    }

    #[test]
    fn a_minifloat_is_described_as_one() {
        let e5m2 = CodeLayout { nan: NanCode::Ieee, infinity: InfinityCode::Ieee, ..CodeLayout::new(5, 2) };
        assert!(
            matches!(e5m2.spec().unwrap(), FormatSpec::Minifloat(minifloat) if minifloat.domain == Domain::IEEE)
        );
        // The same codes as a table.
        let grid = values(e5m2);
        for code in 0..128 {
            let (value, expected) = (e5m2.magnitude(code).unwrap(), grid.decode(code as u16));
            assert!(value == expected || value.is_nan() && expected.is_nan(), "{code}");
        }
    }

    #[test]
    fn impossible_formats_are_refused() {
        let refused = |layout: CodeLayout| layout.spec().is_err();
        let unsigned = CodeLayout { signed: false, ..CodeLayout::new(5, 3) };
        assert!(!refused(unsigned));
        assert!(
            refused(CodeLayout::new(9, 0))
                && refused(CodeLayout::new(0, 0))
                && refused(CodeLayout::new(8, 10))
        );
        assert!(refused(CodeLayout { nan: NanCode::NegativeZero, ..unsigned }));
        assert!(refused(CodeLayout { zero: false, ..unsigned }));
        assert!(refused(CodeLayout { infinity: InfinityCode::Ieee, ..unsigned }));
        assert!(refused(CodeLayout { infinity: InfinityCode::Last, nan: NanCode::Ieee, ..unsigned }));
        assert!(
            refused(CodeLayout { bias: -200, ..unsigned }) && refused(CodeLayout { bias: 400, ..unsigned })
        );
    }
}

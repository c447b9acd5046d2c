//! A number format in one file: symmetric INT8, the grid -127, -126, .. 127.
//!
//! INT8 is no minifloat, so its spec is a table of the codes' values. Codes are two's complement; 0x80 would be
//! -128 and make the grid asymmetric, so it is NaN here. INT8 has no -0: encoding loses that sign. Refuses the
//! rounding modes it does not implement. Code shared by minifloats is in `altgrad-format-kit`.

use altgrad_plugin_api::{
    Config, Descriptor, Format, FormatSpec, PluginError, QuantParams, QuantStats, Rounding, Scales, overflows,
};

/// The format; it has no options, so there is nothing to keep.
#[derive(Debug)]
pub struct Int8;

const MAX: f32 = 127.0;
const NAN_CODE: u16 = 0x80;

/// The rounding of a scaled value in each of the two modes. A tie to the even integer is a tie to the even code.
fn round_for(rounding: Rounding) -> Result<fn(f32) -> f32, PluginError> {
    match rounding {
        Rounding::NEAREST_EVEN => Ok(f32::round_ties_even),
        Rounding::TOWARD_ZERO => Ok(f32::trunc),
        other => Err(other.unsupported().with_hint("use nearest-even or toward-zero")),
    }
}

/// The code of a value on the grid, or of NaN.
fn code(rounded: f32) -> u16 {
    if rounded.is_nan() { NAN_CODE } else { u16::from(rounded as i8 as u8) }
}

/// The value of a code below 256.
fn value(code: u16) -> f32 {
    if code == NAN_CODE { f32::NAN } else { f32::from(code as u8 as i8) }
}

impl Format for Int8 {
    const DESCRIPTOR: Descriptor =
        Descriptor::format("INT8-RUST", env!("CARGO_PKG_VERSION"), "Symmetric 8-bit integers, -127 to 127");

    fn new(_: &Config) -> Result<Self, PluginError> {
        Ok(Self)
    }

    fn spec(&self) -> FormatSpec {
        FormatSpec::Table((0..256).map(value).collect())
    }

    fn fake_quant(
        &self,
        src: &[f32],
        dst: &mut [f32],
        params: &QuantParams<'_>,
        histogram: &mut [u64],
    ) -> Result<QuantStats, PluginError> {
        let round = round_for(params.rounding)?;
        let mut stats = QuantStats::default();
        // Elements of a run are consecutive and have the same scale.
        for (run, [scale, inverse]) in params.scales.runs(src.len()) {
            for (&x, y) in src[run.clone()].iter().zip(&mut dst[run]) {
                let scaled = x * scale;
                let rounded = round(scaled).clamp(-MAX, MAX); // NaN stays NaN.
                *y = rounded * inverse;
                stats.add(x, *y, overflows(scaled, -MAX, MAX));
                if let Some(counter) = histogram.get_mut(usize::from(code(rounded))) {
                    *counter += 1;
                }
            }
        }
        Ok(stats)
    }

    fn encode(&self, src: &[f32], dst: &mut [u16], params: &QuantParams<'_>) -> Result<(), PluginError> {
        let round = round_for(params.rounding)?;
        for (run, [scale, _]) in params.scales.runs(src.len()) {
            for (x, y) in src[run.clone()].iter().zip(&mut dst[run]) {
                *y = code(round(x * scale).clamp(-MAX, MAX));
            }
        }
        Ok(())
    }

    fn decode(&self, codes: &[u16], dst: &mut [f32], scales: &Scales<'_>) -> Result<(), PluginError> {
        for (run, [_, inverse]) in scales.runs(codes.len()) {
            for (&code, y) in codes[run.clone()].iter().zip(&mut dst[run]) {
                if code > 0xff {
                    let message = format!("code {code} is beyond 255");
                    return Err(PluginError::new(altgrad_plugin_api::ErrorKind::VALUE, message));
                }
                *y = value(code) * inverse;
            }
        }
        Ok(())
    }
}

altgrad_plugin_api::export_plugin!(format Int8);

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use altgrad_plugin_api::Blocks;

    use super::*;

    #[test]
    fn values_round_to_integers_and_saturate() {
        let src = [0.25, 0.75, -1.25, 200.0, f32::NEG_INFINITY, f32::NAN, 0.0, 0.1];
        let params = QuantParams::nearest(Scales::whole(&[2.0, 0.5]));
        let (mut values, mut codes, mut histogram) = ([9.0; 8], [0; 8], [0; 256]);
        let stats = Int8.fake_quant(&src, &mut values, &params, &mut histogram).unwrap();
        assert_eq!(values[..5], [0.0, 1.0, -1.0, 63.5, -63.5]);
        assert!(values[5].is_nan());
        assert_eq!(
            (stats.amax, stats.overflow, stats.underflow, stats.nan, stats.nonzero),
            (200.0, 2, 2, 1, 7)
        );
        assert_eq!((histogram[0], histogram[0x80], histogram[127]), (3, 1, 1));
        Int8.encode(&src, &mut codes, &params).unwrap();
        assert_eq!(codes, [0, 2, 0xfe, 127, 0x81, 0x80, 0, 0]);
    }

    #[test]
    fn each_block_has_its_own_scale() {
        let pairs = [[2.0, 0.5], [0.5, 2.0]];
        let scales = Scales::new(&pairs, Blocks::consecutive(2));
        let (src, params) = ([0.75, 1.3, 0.75, 1.3], QuantParams::nearest(scales));
        let (mut values, mut codes, mut decoded) = ([9.0; 4], [9; 4], [9.0; 4]);
        Int8.fake_quant(&src, &mut values, &params, &mut []).unwrap();
        assert_eq!(values, [1.0, 1.5, 0.0, 2.0]);
        Int8.encode(&src, &mut codes, &params).unwrap();
        assert_eq!(codes, [2, 3, 0, 1]);
        Int8.decode(&codes, &mut decoded, &scales).unwrap();
        assert_eq!(decoded, values);
    }

    #[test]
    fn every_code_survives_a_round_trip() {
        let (codes, mut values, mut again) = (Vec::from_iter(0..256), [0.0; 256], [0; 256]);
        Int8.decode(&codes, &mut values, &Scales::ONE).unwrap();
        Int8.encode(&values, &mut again, &QuantParams::IDENTITY).unwrap();
        assert_eq!(codes, again);
        assert!(Int8.decode(&[256], &mut [0.0], &Scales::ONE).is_err());
    }

    #[test]
    fn other_modes_are_refused() {
        let params = QuantParams { rounding: Rounding::STOCHASTIC, ..QuantParams::IDENTITY };
        let error = Int8.encode(&[1.0], &mut [0], &params).unwrap_err();
        assert_eq!(error.message, "it does not round stochastically");
    }
}

//! {{ id }}: an 8-bit number format for altgrad.
//!
//! A format is a list of the values of its codes: change [`value`] to define your own. This example is logarithmic:
//! neighbouring values have the ratio 2^(1/8), from 2^-8 to 2^7.75. `Tabulated` computes rounding, statistics and
//! histograms. It works for any list; a format that must be fast does its own arithmetic instead.

use altgrad_plugin_api::{
    Config, Descriptor, Format, FormatSpec, PluginError, QuantParams, QuantStats, Scales, Tabulated,
};

/// The name in run files.
const NAME: &str = "{{ id }}";

/// The value of a code. The lower seven bits are zero or a logarithm, the upper one is the sign.
///
/// A code may be NaN, as -0 is here; two codes may have one value. The number of codes is a power of two, and one value
/// at least is above 0.
fn value(code: u8) -> f32 {
    let magnitude = match code & 0x7f {
        0 if code != 0 => return f32::NAN,
        0 => 0.0,
        // f32 powers differ between machines in the last bit; f64 ones, rounded, do not.
        logarithm => ((f64::from(logarithm) - 65.0) / 8.0).exp2() as f32,
    };
    if code < 0x80 { magnitude } else { -magnitude }
}

/// The format. Instances are called from several threads at once and hold nothing that changes.
#[derive(Debug)]
pub struct MyFormat {
    table: Tabulated,
}

impl Format for MyFormat {
    /// Name, version, and a line for `plugins list`. Options are declared here too.
    const DESCRIPTOR: Descriptor = Descriptor::format(
        NAME,
        env!("CARGO_PKG_VERSION"),
        "Logarithmic 8-bit numbers, base 2^(1/8)",
    );

    /// The host has checked the options against the descriptor; this format has none.
    fn new(_: &Config) -> Result<Self, PluginError> {
        let table = Tabulated::new((0..=u8::MAX).map(value))?;
        Ok(Self { table })
    }

    /// From this the host derives spacing, code coordinate and range.
    fn spec(&self) -> FormatSpec {
        self.table.spec()
    }

    /// `dst[i] = round(src[i] * scale) * inverse`, and the statistics of the rounding. Each block of elements has its
    /// own scale.
    fn fake_quant(
        &self,
        src: &[f32],
        dst: &mut [f32],
        params: &QuantParams<'_>,
        histogram: &mut [u64],
    ) -> Result<QuantStats, PluginError> {
        self.table.fake_quant(src, dst, params, histogram)
    }

    /// The codes of the rounded values.
    fn encode(
        &self,
        src: &[f32],
        dst: &mut [u16],
        params: &QuantParams<'_>,
    ) -> Result<(), PluginError> {
        self.table.encode(src, dst, params)
    }

    /// The values of codes, times the inverse scales.
    fn decode(
        &self,
        codes: &[u16],
        dst: &mut [f32],
        scales: &Scales<'_>,
    ) -> Result<(), PluginError> {
        self.table.decode(codes, dst, scales)
    }
}

// The one line that makes this crate a plugin library.
altgrad_plugin_api::export_plugin!(format MyFormat);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_mean_what_they_should() {
        assert_eq!(value(0), 0.0);
        assert_eq!(value(1), 2f32.powi(-8));
        assert_eq!(value(65), 1.0);
        assert_eq!(value(0x80 + 73), -2.0);
        assert!(value(0x80).is_nan());
    }

    #[test]
    fn values_round_to_the_nearest() {
        let format = MyFormat::new(&Config::default()).unwrap();
        let (src, mut dst) = ([1.04, -2.05, 0.001, 1e9], [0.0; 4]);
        let stats = format
            .fake_quant(&src, &mut dst, &QuantParams::IDENTITY, &mut [])
            .unwrap();
        assert_eq!(dst, [1.0, -2.0, 0.0, value(127)]);
        assert_eq!((stats.overflow, stats.underflow), (1, 1));
    }
}

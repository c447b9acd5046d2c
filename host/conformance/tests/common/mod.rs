//! Formats to try the suite on.
#![allow(dead_code)]

use altgrad_plugin_api::{
    Config, Conventions, Descriptor, ErrorKind, Format, FormatSpec, OptionSpec, PluginError, QuantParams,
    QuantStats, Rounding, Scales, Tabulated, overflows, texts,
};

/// A name for `MinifloatFormat`.
macro_rules! named {
    ($name:ident, $canonical:expr, $domains:expr) => {
        #[derive(Debug)]
        struct $name;

        impl altgrad_format_kit::MinifloatName for $name {
            const ID: &'static str = stringify!($name);
            const VERSION: &'static str = "1.0.0";
            const SUMMARY: &'static str = "a format under test";
            const CANONICAL: altgrad_plugin_api::Domain = $canonical;
            const DOMAINS: &'static [altgrad_plugin_api::Domain] = $domains;
        }
    };
}
pub(crate) use named;

/// Sixteen codes, seven of them negative, one unused: -128, .. -1/8, 0, 1/8, .. 128 in steps of four, as a slow search.
#[derive(Debug)]
pub struct Table;

/// `values[code]`: two's complement order, so that neighbours differ in their last bit.
fn values() -> Vec<f32> {
    (0..16i32)
        .map(|code| match if code < 8 { code } else { code - 16 } {
            -8 => f32::NAN,
            0 => 0.0,
            rank => 4f32.powi(rank.abs() - 1).copysign(rank as f32) / 32.0,
        })
        .collect()
}

impl Table {
    fn code(x: f32, rounding: Rounding) -> Result<u16, PluginError> {
        let values = values();
        let ranks = (-7..8).map(|rank: i32| (rank & 15) as u16);
        let (mut low, mut high) = (9, 9);
        for code in ranks {
            let value = values[usize::from(code)];
            if value <= x || code == 9 {
                low = code;
            }
            if value < x {
                high = (code + 1) & 15;
            }
        }
        if x >= values[7] {
            return Ok(7);
        }
        if x <= values[9] || values[usize::from(low)] == x {
            return Ok(low);
        }
        let (a, b) = (f64::from(values[usize::from(low)]), f64::from(values[usize::from(high)]));
        let (below, above) = (f64::from(x) - a, b - f64::from(x));
        let up = match rounding {
            Rounding::NEAREST_EVEN => below > above || (below == above && high % 2 == 0),
            Rounding::NEAREST_AWAY => below > above || (below == above && x > 0.0),
            Rounding::TOWARD_ZERO => x < 0.0,
            other => return Err(other.unsupported()),
        };
        Ok(if up { high } else { low })
    }
}

impl Format for Table {
    const DESCRIPTOR: Descriptor =
        Descriptor::format("TABLE4", "1.0.0", "powers of four and their negatives");

    fn new(_: &Config) -> Result<Self, PluginError> {
        Ok(Self)
    }

    fn spec(&self) -> FormatSpec {
        FormatSpec::Table(values().into())
    }

    fn fake_quant(
        &self,
        src: &[f32],
        dst: &mut [f32],
        params: &QuantParams<'_>,
        histogram: &mut [u64],
    ) -> Result<QuantStats, PluginError> {
        let (values, mut stats) = (values(), QuantStats::default());
        for (range, [scale, inverse]) in params.scales.runs(src.len()) {
            for (&x, y) in src[range.clone()].iter().zip(&mut dst[range]) {
                let code = if x.is_nan() { 8 } else { Self::code(x * scale, params.rounding)? };
                let value = values[usize::from(code)];
                *y = if value == 0.0 { value.copysign(x) } else { value } * inverse;
                if let Some(counter) = histogram.get_mut(usize::from(code)).filter(|_| !x.is_nan()) {
                    *counter += 1;
                }
                stats.add(x, *y, overflows(x * scale, -values[7], values[7]));
            }
        }
        Ok(stats)
    }

    fn encode(&self, src: &[f32], dst: &mut [u16], params: &QuantParams<'_>) -> Result<(), PluginError> {
        for (range, [scale, _]) in params.scales.runs(src.len()) {
            for (&x, y) in src[range.clone()].iter().zip(&mut dst[range]) {
                if x.is_nan() {
                    return Err(PluginError::new(ErrorKind::VALUE, "NaN has no code"));
                }
                *y = Self::code(x * scale, params.rounding)?;
            }
        }
        Ok(())
    }

    fn decode(&self, codes: &[u16], dst: &mut [f32], scales: &Scales<'_>) -> Result<(), PluginError> {
        let values = values();
        for (range, [_, inverse]) in scales.runs(codes.len()) {
            for (&code, y) in codes[range.clone()].iter().zip(&mut dst[range]) {
                let value = values.get(usize::from(code));
                let no_code = || PluginError::new(ErrorKind::VALUE, format!("no code {code}"));
                *y = value.ok_or_else(no_code)? * inverse;
            }
        }
        Ok(())
    }
}

/// Values symmetric about zero, whose rounding to nearest is not: ties between codes of one parity, or declared
/// thresholds.
#[derive(Debug)]
pub struct Lopsided(Tabulated);

impl Format for Lopsided {
    const DESCRIPTOR: Descriptor =
        Descriptor::format("LOPSIDED", "1.0.0", "ties fall to one side")
            .options(&[
                OptionSpec::text("variant", "signs").choices(texts!["signs", "halves", "ternary", "turned"])
            ]);

    fn new(config: &Config) -> Result<Self, PluginError> {
        let (values, thresholds): (&[f32], &[f32]) = match config.text("variant")? {
            "signs" => (&[1.0, -1.0], &[]),
            "halves" => (&[0.5, 1.5, -0.5, -1.5], &[]),
            "ternary" => (&[1.0, 0.0, f32::NAN, -1.0], &[]),
            _ => (&[0.0, 1.0, f32::NAN, -1.0], &[-0.25, 0.5]),
        };
        let conventions = Conventions::default().turning_at(thresholds.to_vec());
        Ok(Self(Tabulated::new(values.iter().copied())?.with_conventions(conventions)?))
    }

    fn spec(&self) -> FormatSpec {
        self.0.spec()
    }

    fn conventions(&self) -> Conventions {
        self.0.conventions()
    }

    fn fake_quant(
        &self,
        src: &[f32],
        dst: &mut [f32],
        params: &QuantParams<'_>,
        histogram: &mut [u64],
    ) -> Result<QuantStats, PluginError> {
        self.0.fake_quant(src, dst, params, histogram)
    }

    fn encode(&self, src: &[f32], dst: &mut [u16], params: &QuantParams<'_>) -> Result<(), PluginError> {
        self.0.encode(src, dst, params)
    }

    fn decode(&self, codes: &[u16], dst: &mut [f32], scales: &Scales<'_>) -> Result<(), PluginError> {
        self.0.decode(codes, dst, scales)
    }
}

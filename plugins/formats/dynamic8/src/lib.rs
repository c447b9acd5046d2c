//! DYNAMIC8: the 8-bit dynamic map for the states of optimizers.
//!
//! Dettmers et al., "8-bit Optimizers via Block-wise Quantization" (arXiv:2110.02861, section 1.3), in the construction
//! of bitsandbytes and torchao. The values lie in seven decades below 1. The largest decade has the most values, and
//! each decade below has half as many. A value is the middle of one of 2^i equal parts of [0.1, 1], times 10^(i-6), for
//! i from 0 to 6. Both signs, 0 and 1 make 256 values. The variant `unsigned` has 2^(i+1) parts and no negative values:
//! it is for states that are never negative, such as AdamW's second moment.
//!
//! A code is the index of its value in ascending order. -1 is not a value: the most negative one is -0.993. Rounding
//! `nearest-away` equals the sources' rule (ties up) for values that are not negative. NaN has no code.

use altgrad_plugin_api::{
    Config, Conventions, Descriptor, Format, FormatSpec, OptionSpec, PluginError, QuantParams, QuantStats,
    RStr, Scales, Tabulated,
};

/// The format.
#[derive(Debug)]
pub struct Dynamic8 {
    table: Tabulated,
}

/// Decades of the map.
const DECADES: u32 = 7;

/// Middles of `parts` equal parts of [0.1, 1]. The arithmetic is the f32 arithmetic of the sources, which fixes the
/// last bit of a value: the lower half of the bounds counts up from 0.1 and the upper half counts down from 1, with one
/// rounding per bound.
fn middles(parts: u32) -> impl Iterator<Item = f32> {
    let step = (1.0f32 - 0.1) / parts as f32;
    let bound = move |index: u32| {
        if index < parts.div_ceil(2) {
            step.mul_add(index as f32, 0.1)
        } else {
            (-step).mul_add((parts - index) as f32, 1.0)
        }
    };
    (0..parts).map(move |index| (bound(index) + bound(index + 1)) / 2.0)
}

/// The values in ascending order.
fn values(signed: bool) -> Vec<f32> {
    let mut values = vec![0.0, 1.0];
    for decade in 0..DECADES {
        let unit = 10f64.powi(decade as i32 + 1 - DECADES as i32) as f32;
        let parts = if signed { 1 << decade } else { 2 << decade };
        for magnitude in middles(parts).map(|middle| middle * unit) {
            values.push(magnitude);
            if signed {
                values.push(-magnitude);
            }
        }
    }
    values.sort_by(f32::total_cmp);
    values
}

impl Format for Dynamic8 {
    const DESCRIPTOR: Descriptor = Descriptor::format(
        "DYNAMIC8",
        env!("CARGO_PKG_VERSION"),
        "8-bit dynamic map for optimizer states: seven decades below 1",
    )
    .options(&[OptionSpec::text("variant", "")
        .choices(&[RStr::from_str(""), RStr::from_str("signed"), RStr::from_str("unsigned")])
        .help("signed (both signs) or unsigned (0 to 1, twice as fine); empty means signed")]);

    fn new(config: &Config) -> Result<Self, PluginError> {
        let signed = config.text("variant")? != "unsigned";
        Ok(Self { table: Tabulated::new(values(signed))? })
    }

    fn spec(&self) -> FormatSpec {
        self.table.spec()
    }

    fn conventions(&self) -> Conventions {
        self.table.conventions()
    }

    fn fake_quant(
        &self,
        src: &[f32],
        dst: &mut [f32],
        params: &QuantParams<'_>,
        histogram: &mut [u64],
    ) -> Result<QuantStats, PluginError> {
        self.table.fake_quant(src, dst, params, histogram)
    }

    fn encode(&self, src: &[f32], dst: &mut [u16], params: &QuantParams<'_>) -> Result<(), PluginError> {
        self.table.encode(src, dst, params)
    }

    fn decode(&self, codes: &[u16], dst: &mut [f32], scales: &Scales<'_>) -> Result<(), PluginError> {
        self.table.decode(codes, dst, scales)
    }
}

altgrad_plugin_api::export_plugin!(format Dynamic8);

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use altgrad_plugin_api::ConfigValue;

    use super::*;

    #[test]
    fn each_decade_has_half_the_values_of_the_next() {
        for (signed, positive) in [(true, 128), (false, 255)] {
            let values = values(signed);
            assert_eq!(values.len(), 256);
            assert!(values.is_sorted_by(|a, b| a < b));
            assert_eq!(values.iter().filter(|x| **x > 0.0).count(), positive);
            let decade = |low: f32, high: f32| values.iter().filter(|x| (low..high).contains(*x)).count();
            assert_eq!(decade(0.1, 1.0), 2 * decade(0.01, 0.1));
        }
    }

    /// Values of torchao's map, to the last bit. By hand they are the middles 0.55, 0.325 and 0.775, times powers of
    /// ten.
    #[test]
    fn values_near_zero_and_at_the_ends() {
        let signed = values(true);
        assert_eq!(signed[127], 0.0);
        assert_eq!(signed[128..131], [5.500_000_4e-7, 3.250_000_2e-6, 7.75e-6]);
        assert_eq!(
            (signed[1], signed[0], signed[254], signed[255]),
            (-0.978_906_3, -0.992_968_74, 0.992_968_74, 1.0)
        );
        let unsigned = values(false);
        assert_eq!([unsigned[0], unsigned[254], unsigned[255]], [0.0, 0.996_484_4, 1.0]);
        assert_eq!(unsigned[1].to_bits(), 0x34ae_7baa);
    }

    #[test]
    fn negative_numbers_become_zero_without_a_sign() {
        let config = Config::resolve(
            &Dynamic8::DESCRIPTOR.options,
            [("variant".into(), ConfigValue::Text("unsigned".into()))],
        )
        .unwrap();
        let (format, mut dst) = (Dynamic8::new(&config).unwrap(), [0.0; 3]);
        let stats =
            format.fake_quant(&[-0.5, 2.0, 0.994], &mut dst, &QuantParams::IDENTITY, &mut []).unwrap();
        assert_eq!(dst, [0.0, 1.0, values(false)[254]]);
        assert_eq!(stats.overflow, 2);
    }
}

//! Integers with a zero point for each block, of any width from 2 to 8 bits, in one file.
//!
//! A run file sets the options in the name: `INTZ:bits=5`, or `INTZ:bits=5,zero_point=false`.
//!
//! Codes are the integers from 0 to 2^bits - 1. A block with zero point z has the values code - z. The tables of the
//! zero points are shifted copies of one, and the host takes the one with the largest scale at which no element of the
//! block is beyond the values. Blocks of one sign so have a step of half the size. Without zero points all blocks have
//! the table of z = 2^(bits - 1): the integers of two's complement.

use altgrad_plugin_api::{
    Config, Conventions, Descriptor, Format, FormatSpec, OptionSpec, PluginError, QuantParams, QuantStats,
    Scales, Tabulated,
};

/// The format.
#[derive(Debug)]
pub struct Intz {
    /// The values of the zero point in the middle.
    table: Tabulated,
    conventions: Conventions,
}

impl Format for Intz {
    const DESCRIPTOR: Descriptor = Descriptor::format(
        "INTZ",
        env!("CARGO_PKG_VERSION"),
        "Integers of 2 to 8 bits, with a zero point for each block",
    )
    .options(&[
        OptionSpec::integer("bits", 4).range(2.0, 8.0).help("Bits of a code"),
        OptionSpec::bool("zero_point", true)
            .help("Each block has a zero point; false: that of two's complement"),
    ]);

    fn new(config: &Config) -> Result<Self, PluginError> {
        let bits = config.integer("bits")?;
        if !(2..=8).contains(&bits) {
            return Err(PluginError::config(format!("`bits` must be between 2 and 8, found {bits}")));
        }
        let codes = 1i16 << bits;
        let middle = codes / 2;
        let values: Vec<f32> = (0..codes).map(|code| f32::from(code - middle)).collect();
        let others = (0..codes).filter(|zero| *zero != middle).map(|zero| f32::from(zero - middle));
        let conventions = if config.bool("zero_point")? {
            Conventions::default().shifted_by(&values, others)
        } else {
            Conventions::default()
        };
        Ok(Self { table: Tabulated::new(values)?, conventions })
    }

    fn spec(&self) -> FormatSpec {
        self.table.spec()
    }

    fn conventions(&self) -> Conventions {
        self.conventions.clone()
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

altgrad_plugin_api::export_plugin!(format Intz);

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use altgrad_plugin_api::{ValueGrid, format_config};

    fn made(name: &str) -> Intz {
        Intz::new(&format_config(&Intz::DESCRIPTOR.options, name).unwrap()).unwrap()
    }

    #[test]
    fn each_zero_point_has_a_table() {
        let format = made("INTZ:bits=2");
        assert_eq!(format.spec(), FormatSpec::Table(vec![-2.0, -1.0, 0.0, 1.0].into()));
        let tables = format.conventions().codebooks;
        let expected = [[0.0, 1.0, 2.0, 3.0], [-1.0, 0.0, 1.0, 2.0], [-3.0, -2.0, -1.0, 0.0]];
        assert!(
            tables.iter().map(|table| table.as_slice()).eq(expected.iter().map(|table| table.as_slice()))
        );
    }

    #[test]
    fn options_decide_width_and_zero_points() {
        for (name, codes, tables) in
            [("INTZ", 16, 15), ("INTZ:bits=8", 256, 255), ("INTZ:zero_point=false", 16, 0)]
        {
            let format = made(name);
            let values = ValueGrid::new(&format.spec()).unwrap();
            assert_eq!((values.codes(), format.conventions().codebooks.len()), (codes, tables), "{name}");
            format.conventions().check(&values).unwrap();
        }
    }
}

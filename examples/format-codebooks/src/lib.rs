//! Four bits whose values each block chooses from several tables, and a scaling rule of the format's own, in one file.
//!
//! A table has the magnitudes (i / 7)^p for i from 0 to 7, with both signs. With p = 1 they are equally far apart,
//! which suits blocks of about equal magnitudes; larger p have more values near zero, which suits blocks with outliers.
//! The host takes the table with the least sum of squared errors of each block.
//!
//! The largest magnitude of a block need not be its scale: with the option `deviations` above 0, the scale is this
//! multiple of the root mean square if that is less, and what lies beyond saturates. A run file sets options in the
//! name: `CODEBOOK4:tables=2,deviations=3`.

use altgrad_plugin_api::{
    CodebookChoice, Config, Conventions, Descriptor, Format, FormatSpec, OptionSpec, PluginError,
    QuantParams, QuantStats, Scales, Tabulated,
};

/// The format.
#[derive(Debug)]
pub struct Codebook4 {
    /// The first table.
    table: Tabulated,
    conventions: Conventions,
    /// Root mean squares that are scaled to the largest value; 0: no limit.
    deviations: f64,
}

/// The powers of the tables.
const POWERS: [f32; 4] = [1.0, 2.0, 3.0, 1.5];

/// The table of a power. Code 8 is -0.
fn table(power: f32) -> Vec<f32> {
    let positive = (0..8u8).map(|i| (f32::from(i) / 7.0).powf(power));
    positive.clone().chain(positive.map(|value| -value)).collect()
}

impl Format for Codebook4 {
    const DESCRIPTOR: Descriptor = Descriptor::format(
        "CODEBOOK4",
        env!("CARGO_PKG_VERSION"),
        "Four bits, the values of a block by one of several tables",
    )
    .options(&[
        OptionSpec::integer("tables", 4).range(1.0, 4.0).help("Tables that a block chooses from"),
        OptionSpec::float("deviations", 0.0)
            .range(0.0, 16.0)
            .help("Root mean squares of a block beyond which elements saturate; 0: none saturate"),
    ]);

    fn new(config: &Config) -> Result<Self, PluginError> {
        let tables = config.integer("tables")?;
        let others =
            usize::try_from(tables).ok().and_then(|tables| POWERS.get(1..tables)).ok_or_else(|| {
                PluginError::config(format!(
                    "`tables` must be between 1 and {}, found {tables}",
                    POWERS.len()
                ))
            })?;
        let conventions = Conventions::default()
            .choosing(CodebookChoice::LEAST_ERROR, others.iter().map(|power| table(*power)));
        let deviations = config.float("deviations")?;
        let conventions = if deviations > 0.0 { conventions.with_magnitude() } else { conventions };
        Ok(Self { table: Tabulated::new(table(POWERS[0]))?, conventions, deviations })
    }

    fn spec(&self) -> FormatSpec {
        self.table.spec()
    }

    fn conventions(&self) -> Conventions {
        self.conventions.clone()
    }

    fn magnitude(&self, block: &[f32]) -> Result<f32, PluginError> {
        let (mut amax, mut squares, mut count) = (0f32, 0.0, 0u32);
        for x in block.iter().filter(|x| x.is_finite()) {
            (amax, squares, count) = (amax.max(x.abs()), squares + f64::from(*x) * f64::from(*x), count + 1);
        }
        let limit = self.deviations * (squares / f64::from(count.max(1))).sqrt();
        // Not 0 where the mean is less than the smallest number of f32.
        Ok(amax.min((limit as f32).max(f32::MIN_POSITIVE)))
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

altgrad_plugin_api::export_plugin!(format Codebook4);

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use altgrad_plugin_api::format_config;

    fn made(name: &str) -> Codebook4 {
        Codebook4::new(&format_config(&Codebook4::DESCRIPTOR.options, name).unwrap()).unwrap()
    }

    #[test]
    fn the_scale_of_a_block_with_an_outlier_is_that_of_its_deviation() {
        let format = made("CODEBOOK4:deviations=2");
        let mut block = [1.0; 100];
        assert_eq!(format.magnitude(&block).unwrap(), 1.0);
        block[7] = -10.0;
        // The root mean square is sqrt(1.99).
        assert!((format.magnitude(&block).unwrap() - 2.8213).abs() < 1e-3);
        assert_eq!(format.magnitude(&[0.0, f32::NAN]).unwrap(), 0.0);
    }

    #[test]
    fn tables_have_one_largest_value_and_more_near_zero_by_their_power() {
        assert_eq!(made("CODEBOOK4").conventions().codebooks.len(), 3);
        assert!(POWERS.iter().all(|power| table(*power)[7] == 1.0 && table(*power)[15] == -1.0));
        assert!(table(3.0)[3] < table(2.0)[3] && table(2.0)[3] < table(1.0)[3]);
    }
}

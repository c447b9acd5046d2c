//! The formats under test: their kernel texts and the CPU implementation to hold them against.

use altgrad_format_kit::{MinifloatFormat, MinifloatGrid, MinifloatName};
use altgrad_plugin_api::{
    Config, ConfigValue, Domain, Format, KernelOp, KernelTarget, KernelText, QuantParams, QuantStats,
};

/// Each generated table in a module of its own.
macro_rules! tables {
    ($($name:ident),*) => {
        $(#[allow(missing_docs)]
        pub mod $name {
            include!(concat!(env!("OUT_DIR"), "/", stringify!($name), ".rs"));
        })*
    };
}
tables!(e5m2, e0m7, e1m6, e4m3, e7m0, bf16);

/// The CPU's side of a format in one domain.
pub trait Reference {
    fn fake_quant(
        &self,
        src: &[f32],
        dst: &mut [f32],
        params: &QuantParams,
        histogram: &mut [u64],
    ) -> QuantStats;
    fn encode(&self, src: &[f32], dst: &mut [u16], params: &QuantParams);
    fn decode(&self, codes: &[u16], dst: &mut [f32]);
}

impl<F: Format> Reference for F {
    fn fake_quant(
        &self,
        src: &[f32],
        dst: &mut [f32],
        params: &QuantParams,
        histogram: &mut [u64],
    ) -> QuantStats {
        Format::fake_quant(self, src, dst, params, histogram).unwrap()
    }

    fn encode(&self, src: &[f32], dst: &mut [u16], params: &QuantParams) {
        Format::encode(self, src, dst, params).unwrap();
    }

    fn decode(&self, codes: &[u16], dst: &mut [f32]) {
        Format::decode(self, codes, dst).unwrap();
    }
}

/// A format in one domain.
pub struct Subject {
    /// Such as `e5m2:ieee`.
    pub name: String,
    /// Its values.
    pub grid: MinifloatGrid,
    /// Its CPU implementation.
    pub reference: Box<dyn Reference>,
    find: fn(KernelOp, &KernelTarget, &MinifloatGrid) -> Option<KernelText>,
}

impl Subject {
    /// Its text, which must exist.
    #[must_use]
    pub fn kernel(&self, op: KernelOp, target: &KernelTarget) -> KernelText {
        (self.find)(op, target, &self.grid)
            .unwrap_or_else(|| panic!("{}: no text for {op:?} {target:?}", self.name))
    }
}

#[derive(Debug)]
struct AnyName;

impl MinifloatName for AnyName {
    const ID: &'static str = "TEST";
    const VERSION: &'static str = "1.0.0";
    const SUMMARY: &'static str = "a format under test";
    const CANONICAL: Domain = Domain::Fin;
    const DOMAINS: &'static [Domain] = &[Domain::Ieee, Domain::Fn, Domain::Fin];
}

fn reference<const E: u32, const M: u32>(domain: &str) -> (MinifloatGrid, Box<dyn Reference>) {
    type Plugin<const E: u32, const M: u32> = MinifloatFormat<AnyName, E, M>;
    let given = [("variant".to_string(), ConfigValue::Text(domain.into()))];
    let config = Config::resolve(&Plugin::<E, M>::descriptor().options, given).unwrap();
    let plugin = Plugin::<E, M>::new(&config).unwrap();
    let altgrad_plugin_api::FormatSpec::Minifloat(spec) = plugin.spec() else { unreachable!() };
    (MinifloatGrid::new(spec).unwrap(), Box::new(plugin))
}

/// A subject of the table module `$table`.
macro_rules! subject {
    ($table:ident, $exponent:literal, $significand:literal, $domain:literal) => {{
        let (grid, reference) = reference::<$exponent, $significand>($domain);
        let find = |op, target: &KernelTarget, grid: &MinifloatGrid| {
            let limits = $table::Limits {
                max_bits: grid.max_finite().to_bits(),
                max_code: grid.max_code().into(),
                nan_code: grid.nan_code().map(u32::from),
                inf_code: grid.has_inf().then(|| u32::from(grid.max_code()) + 1),
            };
            $table::kernel(op, target, &limits)
        };
        Subject { name: format!("{}:{}", stringify!($table), $domain), grid, reference, find }
    }};
}

/// E5M2 in its domains: checked in every way.
#[must_use]
pub fn e5m2() -> Vec<Subject> {
    vec![subject!(e5m2, 5, 2, "ieee"), subject!(e5m2, 5, 2, "fn"), subject!(e5m2, 5, 2, "fin")]
}

/// One of each other kind: linear by the generic rounding and by its own, NaN by one code, no significand, 16 bits.
#[must_use]
pub fn others() -> Vec<Subject> {
    vec![
        subject!(e0m7, 0, 7, "fin"),
        subject!(e1m6, 1, 6, "fin"),
        subject!(e4m3, 4, 3, "fn"),
        subject!(e7m0, 7, 0, "fin"),
        subject!(bf16, 8, 7, "ieee"),
    ]
}

//! The formats under test: all minifloats share `format-kit`'s kernel texts, and are compared with its CPU
//! implementation.

use altgrad_conformance::Instance;
use altgrad_format_kit::{MinifloatFormat, MinifloatGrid, MinifloatName};
use altgrad_plugin_api::{Domain, Format, FormatSpec, KernelOp, KernelTarget, KernelText};

/// A format in one domain.
#[derive(Debug)]
pub struct Subject {
    /// The name in a run file, such as `E5M2:fin`.
    pub name: String,
    /// Its values.
    pub grid: MinifloatGrid,
    /// The format, called as the host does.
    pub instance: Instance,
    /// The subject for the conformance suite.
    pub conformance: altgrad_conformance::Subject,
}

impl Subject {
    /// Its text, which must exist.
    #[must_use]
    pub fn kernel(&self, op: KernelOp, target: &KernelTarget) -> KernelText {
        let text = self.instance.kernel(op, target).unwrap();
        text.unwrap_or_else(|| panic!("{}: no text for {op:?} {target:?}", self.name))
    }
}

/// A format in each of its domains, the canonical one first.
fn domains<F: Format>() -> Vec<Subject> {
    let mut subjects: Vec<Subject> = Vec::new();
    // The bare name comes first, and the domain it means once more.
    for conformance in altgrad_conformance::Subject::all_of::<F>().unwrap() {
        let instance = conformance.instance().unwrap();
        let FormatSpec::Minifloat(spec) = instance.spec().unwrap() else { unreachable!() };
        if subjects.iter().all(|other| other.grid.spec() != spec) {
            let grid = MinifloatGrid::new(spec).unwrap();
            let name = conformance.name().to_string();
            subjects.push(Subject { name, grid, instance, conformance });
        }
    }
    subjects
}

/// The project's formats of up to 8 bits.
#[must_use]
pub fn all_of_8_bits() -> Vec<Vec<Subject>> {
    let mut all = all();
    all.retain(|domains| domains[0].grid.bits() <= 8);
    all
}

/// Formats with the domains of their crates.
macro_rules! formats {
    ($($name:ident($exponent:literal, $significand:literal) $domains:expr;)*) => {
        $(struct $name;

        impl MinifloatName for $name {
            const ID: &'static str = stringify!($name);
            const VERSION: &'static str = "1.0.0";
            const SUMMARY: &'static str = "a format under test";
            const CANONICAL: Domain = $domains[0];
            const DOMAINS: &'static [Domain] = &$domains;
        })*

        /// All formats in all their domains, the canonical one first.
        #[must_use]
        pub fn all() -> Vec<Vec<Subject>> {
            vec![$(domains::<MinifloatFormat<$name, $exponent, $significand>>()),*]
        }

        /// One of them, in all its domains.
        #[must_use]
        pub fn named(name: &str) -> Vec<Subject> {
            match name {
                $(stringify!($name) => domains::<MinifloatFormat<$name, $exponent, $significand>>(),)*
                _ => panic!("no format `{name}` is under test"),
            }
        }
    };
}

formats! {
    E0M3(0, 3) [Domain::FIN];
    E0M7(0, 7) [Domain::FIN];
    E1M6(1, 6) [Domain::FIN, Domain::IEEE, Domain::FN];
    E2M1(2, 1) [Domain::FIN, Domain::IEEE, Domain::FN];
    E2M3(2, 3) [Domain::FIN, Domain::IEEE, Domain::FN];
    E2M5(2, 5) [Domain::FIN, Domain::IEEE, Domain::FN];
    E3M2(3, 2) [Domain::FIN, Domain::IEEE, Domain::FN];
    E3M4(3, 4) [Domain::FIN, Domain::IEEE, Domain::FN];
    E4M3(4, 3) [Domain::FN, Domain::IEEE, Domain::FIN];
    E5M2(5, 2) [Domain::IEEE, Domain::FN, Domain::FIN];
    E6M1(6, 1) [Domain::FIN, Domain::IEEE, Domain::FN];
    E7M0(7, 0) [Domain::FIN, Domain::IEEE, Domain::FN];
    E5M6(5, 6) [Domain::IEEE, Domain::FN, Domain::FIN];
    E5M10(5, 10) [Domain::IEEE, Domain::FN, Domain::FIN];
    E8M7(8, 7) [Domain::IEEE];
}

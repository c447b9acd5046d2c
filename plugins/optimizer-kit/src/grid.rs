//! The grid of an optimizer for parameters without a grid of the host: the option `unquantized`.
//!
//! A parameter without a format (a bias, a norm's gain, an excluded layer) is updated by plain AdamW, or as if it were
//! stored in a named minifloat with scale 1. Decode tables have no names here.

use altgrad_plugin_api::{
    Config, Domain, FormatSpec, Grid, OptionSpec, PluginError, Scales, grid::minifloat,
};

/// The rule of a parameter without a grid, in words.
pub const NO_GRID: &str = "AdamW: no grid";

/// The option's name.
const NAME: &str = "unquantized";

/// The update of a parameter without a grid.
#[derive(Debug, Clone, PartialEq)]
pub enum Unquantized {
    /// Plain AdamW.
    AdamW,
    /// The values of this format, unscaled.
    As(FormatSpec),
}

impl Unquantized {
    /// Declares the option.
    pub const OPTION: OptionSpec = OptionSpec::text(NAME, "adamw").help(
        "Parameters without a format: adamw, or a minifloat whose values they are taken for, unscaled (E4M3, E5M2:fin)",
    );

    /// Reads the option.
    ///
    /// # Errors
    /// The text is neither `adamw` nor the name of a minifloat.
    pub fn new(config: &Config) -> Result<Self, PluginError> {
        match config.text(NAME)? {
            "adamw" => Ok(Self::AdamW),
            text => named(text).map(Self::As),
        }
    }

    /// The grid of a parameter: the host's, or the one that replaces it.
    #[must_use]
    pub fn grid<'a>(&'a self, given: Option<Grid<'a>>) -> Option<Grid<'a>> {
        given.or(match self {
            Self::AdamW => None,
            Self::As(spec) => Some(Grid { spec, scales: Scales::ONE }),
        })
    }
}

/// The minifloat `E<bits>M<bits>`, followed by `:ieee`, `:fn` or `:fin` unless its canonical domain is meant.
fn named(text: &str) -> Result<FormatSpec, PluginError> {
    let unknown = || {
        PluginError::config(format!("`{NAME}`: `{text}` is neither adamw nor a minifloat"))
            .with_hint("write adamw, or a name such as E4M3, E5M2 or E3M4:ieee")
    };
    let (bits, domain) = text.split_once(':').map_or((text, None), |(bits, domain)| (bits, Some(domain)));
    let (e, m) = bits.strip_prefix('E').and_then(|bits| bits.split_once('M')).ok_or_else(unknown)?;
    let (e, m) = (e.parse().map_err(|_| unknown())?, m.parse().map_err(|_| unknown())?);
    let domain = match domain {
        None => canonical(e, m),
        Some("ieee") => Domain::IEEE,
        Some("fn") => Domain::FN,
        Some("fin") => Domain::FIN,
        Some(_) => return Err(unknown()),
    };
    minifloat(e, m, domain).map(FormatSpec::Minifloat)
}

/// The domain of a bare name, as the shipped formats have it: OCP's two, IEEE 754's half, bfloat16 and E5M6, and all
/// codes finite for the rest.
fn canonical(e: u32, m: u32) -> Domain {
    match (e, m) {
        (4, 3) => Domain::FN,
        (5, 2 | 6 | 10) | (8, 7) => Domain::IEEE,
        _ => Domain::FIN,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use altgrad_plugin_api::{ConfigValue, ValueGrid};

    use super::*;

    fn read(text: &str) -> Result<Unquantized, PluginError> {
        let given = [(NAME.to_string(), ConfigValue::Text(text.into()))];
        Unquantized::new(&Config::resolve(&[Unquantized::OPTION], given).unwrap())
    }

    #[test]
    fn names_mean_what_the_table_of_formats_says() {
        // Largest values: docs/numerics.md, section 1.3, and IEEE 754's.
        for (name, max) in [
            ("E1M6", 3.96875),
            ("E4M3", 448.0),
            ("E4M3:ieee", 240.0),
            ("E4M3:fin", 480.0),
            ("E5M2", 57344.0),
            ("E5M6", 65024.0),
            ("E5M10", 65504.0),
        ] {
            let Ok(Unquantized::As(spec)) = read(name) else { panic!("{name}") };
            assert_eq!(ValueGrid::new(&spec).unwrap().max_finite(), max, "{name}");
        }
    }

    #[test]
    fn other_texts_are_refused() {
        for text in ["", "AdamW", "M3E4", "E4", "E4M", "E4M3:inf", "e4m3", "E9M9", "E0M7:ieee", "E-1M2"] {
            assert!(read(text).is_err(), "{text}");
        }
        assert_eq!(
            read("int8").unwrap_err().message,
            "`unquantized`: `int8` is neither adamw nor a minifloat"
        );
    }

    #[test]
    fn the_hosts_grid_comes_first() {
        let spec = named("E3M4").unwrap();
        let given = Some(Grid { spec: &spec, scales: Scales::whole(&[2.0, 0.5]) });
        let (plain, other) = (read("adamw").unwrap(), read("E4M3").unwrap());
        assert!(plain.grid(None).is_none());
        assert_eq!(plain.grid(given).unwrap().scales.single(), Some([2.0, 0.5]));
        assert_eq!(other.grid(given).unwrap().spec, &spec);
        assert_eq!(other.grid(None).unwrap().scales, Scales::ONE);
    }
}

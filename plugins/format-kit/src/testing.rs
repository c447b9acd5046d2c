//! Helpers for tests of a format: codes and values of single numbers.

use altgrad_plugin_api::{Config, ConfigValue, Format, PluginError, QuantParams, Scales};

/// The format in a variant; empty for the bare name.
///
/// # Errors
/// As the host's check of options, or the format's own.
pub fn format<F: Format>(variant: &str) -> Result<F, PluginError> {
    let given = (!variant.is_empty()).then(|| ("variant".to_string(), ConfigValue::Text(variant.into())));
    let config = Config::resolve(&F::DESCRIPTOR.options, given)
        .map_err(|fault| PluginError::config(format!("`{}` {}", fault.key, fault.message)))?;
    F::new(&config)
}

/// The code of a number, rounded to the nearest.
///
/// # Errors
/// The format has no code for it.
pub fn code<F: Format>(x: f32) -> Result<u16, PluginError> {
    let mut code = [0];
    format::<F>("")?.encode(&[x], &mut code, &QuantParams::IDENTITY)?;
    Ok(code[0])
}

/// The values of codes.
///
/// # Errors
/// A number is no code of the format.
pub fn values<F: Format>(codes: &[u16]) -> Result<Vec<f32>, PluginError> {
    let mut values = vec![0.0; codes.len()];
    format::<F>("")?.decode(codes, &mut values, &Scales::ONE)?;
    Ok(values)
}

/// Compares the codes of numbers with those expected.
///
/// # Panics
/// A code differs, or the format has none.
pub fn assert_codes<F: Format>(rows: &[(f32, u16)]) {
    for (x, expected) in rows {
        assert_eq!(code::<F>(*x), Ok(*expected), "{x:e}");
    }
}

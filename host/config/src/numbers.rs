//! Numbers: the program and its plugins compute in f32, and one that does not fit is refused as it is written, not as
//! what it would become.

use altgrad_base::diagnostic::Diagnostic;
use toml::{Table, Value};

use super::source::{Source, join};

/// Refuses a table in which a number would become infinite, or 0 without being it. Options of plugins are numbers too.
pub(super) fn check(table: &Table, source: &Source) -> Result<(), Diagnostic> {
    let Some((key, number)) = table.iter().find_map(|(name, value)| lost(value, join("", name))) else {
        return Ok(());
    };
    const FIT: &str = "must fit 32 bits: 0, or a magnitude from 1.4e-45 to 3.4e38";
    Err(Diagnostic::config(format!("`{key}` {FIT}, found {number:?}")).at(source.locate(&key)))
}

/// The first number of a value that f32 loses, with its dotted key.
fn lost(value: &Value, key: String) -> Option<(String, f64)> {
    match value {
        Value::Float(wide) => {
            let narrow = *wide as f32;
            let is_lost = (narrow.is_infinite() && wide.is_finite()) || (narrow == 0.0 && *wide != 0.0);
            is_lost.then_some((key, *wide))
        }
        Value::Array(values) => {
            values.iter().enumerate().find_map(|(index, value)| lost(value, join(&key, &index.to_string())))
        }
        Value::Table(table) => table.iter().find_map(|(name, value)| lost(value, join(&key, name))),
        _ => None,
    }
}

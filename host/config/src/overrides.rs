//! `--set dotted.key=value`: values of the run file replaced on the command line.
//!
//! Puts the value into the parsed tree and its place into [`Source`]. The value
//! is TOML; text that is not, such as `E3M4:ieee` or `bins:data/owt`, is taken as
//! a string. Whether the key exists and the type fits is found with the file's own.

use altgrad_base::diagnostic::Diagnostic;
use toml::de::DeValue;
use toml::{Table, Value};

use super::explain::found;
use super::source::{
    PATTERNS, Place, Source, join, one_line, override_place, plain_value, too_long, too_many_brackets,
};
const HINT: &str = "an override is a dotted key and a TOML value, such as --set train.lr=1e-4";

/// Applies `overrides` in order, so that the last one for a key wins.
pub(super) fn apply(table: &mut Table, source: &mut Source, overrides: &[String]) -> Result<(), Diagnostic> {
    for (index, raw) in overrides.iter().enumerate() {
        source.overrides.push(raw.clone());
        apply_one(table, source, raw, index).map_err(|error| error.at(override_place(raw)).hint(HINT))?;
    }
    Ok(())
}

fn apply_one(table: &mut Table, source: &mut Source, raw: &str, index: usize) -> Result<(), Diagnostic> {
    let (key, text) =
        raw.split_once('=').ok_or_else(|| Diagnostic::config("an override without `=` sets nothing"))?;
    let path: Vec<&str> = key.split('.').map(str::trim).collect();
    // `join` quotes segments that are no bare TOML keys, including an empty one.
    if path.iter().any(|segment| join("", segment) != *segment) {
        return Err(Diagnostic::config(format!("{key:?} is not a dotted key")));
    }
    let dotted = path.join(".");
    if let Some(message) = too_long(&dotted) {
        return Err(Diagnostic::config(message));
    }
    let mut below = Vec::new();
    let value = parse_value(text.trim(), &dotted, &mut below)?;

    let (first, below_first) =
        path.split_first().ok_or_else(|| Diagnostic::config("an override without a key sets nothing"))?;
    // Each step needs the next segment to tell a new table from a new array.
    let next = |depth: usize| path.get(depth).copied().unwrap_or_default();
    let mut reached = (*first).to_owned();
    let mut node = table.entry(reached.clone()).or_insert_with(|| empty_for(next(1)));
    for (depth, segment) in below_first.iter().enumerate() {
        source.places.entry(reached.clone()).or_insert(Place::Override(index));
        node = child(node, &reached, segment, || empty_for(next(depth + 2)))?;
        reached = join(&reached, segment);
    }
    *node = value;

    // Values below the key are removed with its old value.
    let inside = format!("{dotted}.");
    source.places.retain(|place, _| *place != dotted && !place.starts_with(&inside));
    source.places.extend([dotted].into_iter().chain(below).map(|key| (key, Place::Override(index))));
    Ok(())
}

/// The slot `segment` of `node`, made with `new` if a table lacks it or it is one past an array's end.
fn child<'a>(
    node: &'a mut Value,
    reached: &str,
    segment: &str,
    new: impl FnOnce() -> Value,
) -> Result<&'a mut Value, Diagnostic> {
    match node {
        Value::Table(table) => Ok(table.entry(segment).or_insert_with(new)),
        Value::Array(elements) => {
            let len = elements.len();
            let slot = segment.parse::<usize>().ok().filter(|index| *index <= len).ok_or_else(|| {
                Diagnostic::config(format!("`{reached}` is an array of {len} and has no element `{segment}`"))
                    .hint("elements count from 0; one past the last appends")
            })?;
            if slot == len {
                elements.push(new());
            }
            // Always present: `slot < len` or just pushed.
            elements
                .get_mut(slot)
                .ok_or_else(|| Diagnostic::config(format!("`{reached}` has no `{segment}`")))
        }
        other => {
            let message = format!("`{reached}` is {} and has no key `{segment}`", found(other));
            Err(Diagnostic::config(message))
        }
    }
}

/// The empty value for a missing `x` in `x.segment`.
fn empty_for(segment: &str) -> Value {
    if segment.parse::<usize>().is_ok() { Value::Array(Vec::new()) } else { Value::Table(Table::new()) }
}

/// `text` as TOML, or as a string if it is not TOML.
fn parse_value(text: &str, dotted: &str, below: &mut Vec<String>) -> Result<Value, Diagnostic> {
    if text.is_empty() {
        return Err(Diagnostic::config(format!("`{dotted}` is given no value"))
            .hint("for an empty string write --set 'key=\"\"'"));
    }
    if let Some(message) = too_many_brackets(text) {
        return Err(Diagnostic::config(message).hint(PATTERNS));
    }
    match DeValue::parse(text) {
        Ok(parsed) => plain_value(parsed.get_ref(), dotted, 0, &mut |key, _, _| below.push(key))
            .map_err(|fault| Diagnostic::config(fault.message)),
        // A text that begins like TOML is refused if it is invalid TOML.
        Err(error) if text.starts_with(['"', '\'', '[', '{']) => {
            let message = format!("the value of `{dotted}` is not valid TOML: {}", one_line(error.message()));
            Err(Diagnostic::config(message))
        }
        Err(_) => Ok(Value::String(text.to_owned())),
    }
}

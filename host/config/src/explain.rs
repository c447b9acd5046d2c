//! serde's errors in the run file's terms.
//!
//! serde knows the dotted path and the expected type; the parsed tree has the value, and [`Source`]
//! its position. An error of unknown wording is passed on with its key and position rather than
//! lost. Ranges are checked in `validate`.

use altgrad_base::diagnostic::{Diagnostic, closest};
use serde_path_to_error::{Error, Segment};
use toml::{Table, Value};

use super::foreign;
use super::source::{Place, Source, join, one_line};

/// Former names of keys, and their names now.
const RENAMED: [(&str, &str); 3] = [
    ("observe.sites", "observe.roles"),
    ("quant.scaling.granularity", "quant.block"),
    ("quant.scaling.block", "quant.block"),
];

/// The diagnostic for an error of reading `table` as a run file.
pub(super) fn explain(error: &Error<toml::de::Error>, table: &Table, source: &Source) -> Diagnostic {
    let path: Vec<String> = error.path().iter().filter_map(segment).collect();
    let key = path.iter().fold(String::new(), |parent, segment| join(&parent, segment));
    let message = error.inner().message();
    let value = lookup(table, &path);

    // A key is unknown: the path ends with it, the message lists the known ones.
    if let Some((_, known)) = message.strip_prefix("unknown field `").and_then(|rest| rest.split_once("`, "))
    {
        return unknown_key(&path, &quoted(known)).at(source.locate_key(&key));
    }
    if let Some(missing) = message.strip_prefix("missing field `").and_then(|rest| rest.strip_suffix('`')) {
        let message = format!("`{key}` has no `{missing}`");
        return Diagnostic::config(message).at(source.locate(&key)).hint(format!("add {missing} = \"...\""));
    }
    // One of our own choices: "must be `a` or `b`, found "c"".
    if let Some(choices) = message.strip_prefix("must be ").and_then(|rest| rest.split_once(", found \"")) {
        let given = value.and_then(Value::as_str).unwrap_or_default();
        let error = Diagnostic::config(format!("`{key}` {message}")).at(source.locate(&key));
        return match closest(given, quoted(choices.0)) {
            Some(near) => error.hint(format!("did you mean `{}`?", example(near))),
            None => error,
        };
    }
    let found = value.map_or_else(|| "nothing".to_owned(), found);
    // Another of our own messages: "must be a number or "dynamic"".
    if message.starts_with("must ") {
        return Diagnostic::config(format!("`{key}` {message}, found {found}")).at(source.locate(&key));
    }
    if let Some((_, expected)) =
        message.strip_prefix("invalid ").and_then(|rest| rest.split_once(", expected "))
    {
        let message = format!("`{key}` must be {}, found {found}", expectation(expected));
        let error = Diagnostic::config(message).at(source.locate(&key));
        return match type_hint(&key, expected, value, source) {
            Some(hint) => error.hint(hint),
            None => error,
        };
    }
    Diagnostic::config(format!("`{key}`: {}", one_line(message))).at(source.locate(&key))
}

fn segment(segment: &Segment) -> Option<String> {
    match segment {
        Segment::Seq { index } => Some(index.to_string()),
        Segment::Map { key } => Some(key.clone()),
        Segment::Enum { .. } | Segment::Unknown => None,
    }
}

fn unknown_key(path: &[String], known: &[&str]) -> Diagnostic {
    let (given, parents) = path.split_last().map_or(("", path), |(last, rest)| (last.as_str(), rest));
    let parent = parents.iter().fold(String::new(), |parent, segment| join(&parent, segment));
    let key = join(&parent, given);
    let renamed = RENAMED.iter().find(|(former, _)| *former == key);
    let near = match (renamed, rounding_by_layer(parents, given)) {
        (Some((_, name)), _) => Some(format!("its name is `{name}` now; ")),
        (None, Some(name)) => Some(format!("a rule by layer has `{name}`; ")),
        (None, None) => foreign::advice(given)
            .or_else(|| closest(given, known.iter().copied()).map(|name| format!("did you mean `{name}`? "))),
    };
    let listed = match parents.len() {
        0 => format!("known sections: {}", known.join(", ")),
        1 => format!("known keys in [{parent}]: {}", known.join(", ")),
        _ => format!("known keys in `{parent}`: {}", known.join(", ")),
    };
    Diagnostic::config(format!("unknown key `{key}`")).hint(format!("{}{listed}", near.unwrap_or_default()))
}

/// The key of a rule by layer that does what `grad_rounding` and its like do in `[quant]`.
fn rounding_by_layer(parents: &[String], given: &str) -> Option<String> {
    let is_rule = matches!(parents, [quant, layer, _] if quant == "quant" && layer == "layer");
    let role = given.strip_suffix("_rounding").filter(|_| is_rule)?;
    ["weight", "activation", "grad"].contains(&role).then(|| format!("cast.{role}.rounding"))
}

/// The backticked words of a serde message.
fn quoted(text: &str) -> Vec<&str> {
    text.split('`').skip(1).step_by(2).collect()
}

/// A choice as it can be written.
fn example(choice: &str) -> &str {
    if choice == "cuda:N" { "cuda:0" } else { choice }
}

/// serde's name of a Rust type, as the user thinks of it.
fn expectation(expected: &str) -> &str {
    match expected {
        "f32" | "f64" => "a number",
        "u32" | "u64" | "usize" => "an integer, 0 or more",
        "a boolean" => "true or false",
        "a sequence" => "an array",
        other => other,
    }
}

fn type_hint(key: &str, expected: &str, value: Option<&Value>, source: &Source) -> Option<String> {
    match (expected, value) {
        ("a sequence", Some(Value::Table(_))) => Some(format!("write [[{key}]] instead of [{key}]")),
        ("a table", Some(Value::Array(_))) => Some(format!("write [{key}] instead of [[{key}]]")),
        // `--set run.name=17` reads as a number; the shell's quotes do not reach us.
        ("a string", Some(Value::Integer(_) | Value::Float(_) | Value::Boolean(_)))
            if matches!(source.places.get(key), Some(Place::Override(_))) =>
        {
            Some(format!("to set text that reads as a number or flag: --set '{key}=\"...\"'"))
        }
        _ => None,
    }
}

fn lookup<'a>(table: &'a Table, path: &[String]) -> Option<&'a Value> {
    let (first, rest) = path.split_first()?;
    rest.iter().try_fold(table.get(first)?, |value, segment| match value {
        Value::Table(table) => table.get(segment),
        Value::Array(elements) => elements.get(segment.parse::<usize>().ok()?),
        _ => None,
    })
}

/// A value on one line: `"fast"`.
pub(super) fn found(value: &Value) -> String {
    /// Longer strings are cut: an error is no place for a document.
    const MOST_CHARACTERS: usize = 60;
    match value {
        Value::String(text) if text.chars().count() > MOST_CHARACTERS => {
            let start: String = text.chars().take(MOST_CHARACTERS).collect();
            format!("{start:?}...")
        }
        Value::String(text) => format!("{text:?}"),
        Value::Integer(number) => number.to_string(),
        Value::Float(number) => format!("{number:?}"),
        Value::Boolean(flag) => flag.to_string(),
        Value::Datetime(moment) => moment.to_string(),
        Value::Array(_) => "an array".to_owned(),
        Value::Table(_) => "a table".to_owned(),
    }
}

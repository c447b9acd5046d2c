//! The run file's reference, made from its types: a page of Markdown, and a JSON Schema for editors.
//!
//! Meanings are the types' own comments, defaults the values of `Default`, choices the accepted names. Ranges that only
//! `validate` knows are not included: its errors name them.

use std::fmt::Write as _;

use schemars::{Schema, SchemaGenerator, generate::SchemaSettings};
use serde_json::Value;

use super::RunConfig;

/// The keys that most run files set, at the head of the page.
const COMMON: [&str; 25] = [
    "run.name",
    "run.seed",
    "run.device",
    "data.dataset",
    "data.tokenizer",
    "data.block_size",
    "data.batch_size",
    "model.preset",
    "train.max_steps",
    "train.lr",
    "train.warmup_steps",
    "train.precision",
    "optimizer.name",
    "quant.recipe",
    "quant.weight",
    "quant.activation",
    "quant.grad",
    "quant.grad_rounding",
    "quant.block",
    "quant.source",
    "quant.master_weights",
    "quant.exclude",
    "quant.skip_last",
    "shadow.every",
    "checkpoint.every",
];

/// The JSON Schema of a run file.
#[must_use]
pub fn schema() -> Value {
    generated(SchemaSettings::draft2020_12().for_deserialize())
}

/// The schema of a file with every key; it lists keys in the order of their declaration.
fn complete() -> Value {
    generated(SchemaSettings::draft2020_12().for_serialize())
}

fn generated(mut settings: SchemaSettings) -> Value {
    settings.inline_subschemas = true;
    let schema: Schema = SchemaGenerator::new(settings).into_root_schema_for::<RunConfig>();
    schema.to_value()
}

/// The page: a section per table of the run file, a row per key.
#[must_use]
pub fn markdown() -> String {
    let (schema, complete) = (schema(), complete());
    let mut page = String::from(
        "# Run file\n\n\
         <!-- Made from the types by `cargo xtask docs`: do not edit. -->\n\n\
         One TOML file describes a run. This page lists every key of the host. `[optimizer]` and `[[sink]]` also take the\n\
         [options of their plugins](plugin-options.md).\n\n\
         Every key has a default. Unknown keys are refused with a suggestion. The run folder has the resolved file, with every default, as\n\
         `config.toml`. On the command line `--set train.lr=1e-4` overrides a key. `altgrad-host reference schema` prints this page as a JSON\n\
         Schema, for editors. Numbers are f32: one that is infinite as f32, or 0 without being it, is refused.\n\n\
         **Paths.** A relative path in a run file starts at the run file's folder, one in a matrix file at the matrix file's, and one on the\n\
         command line, `--set` included, at the working directory. This holds for `data.dataset`, `model.init`, `run.out`, `plugins.dir`,\n\
         `plugins.load`, `plugins.formats` and `quant.recipe`. Without `run.out`, runs are in `runs` in the working directory. Paths of sinks start\n\
         at the run folder.\n\n\
         ## Common keys\n\n\
         | key | default | meaning |\n|---|---|---|\n",
    );
    for path in COMMON {
        if let Some(key) = path.split('.').try_fold(&schema, |table, key| table["properties"].get(key)) {
            let meaning = description(key).replace('|', "\\|");
            let sentence = meaning.split_inclusive(". ").next().unwrap_or_default().trim_end();
            let _ = writeln!(page, "| `{path}` | {} | {sentence} |", default(key));
        }
    }
    let mut listed = Vec::new();
    for (key, section) in properties(&schema, &complete) {
        table(&mut page, key, section, &mut listed);
    }
    page
}

/// A schema, and the same where everything is written.
type Pair<'a> = (&'a Value, &'a Value);

/// The keys of a table in the order of their declaration.
fn properties<'a>(schema: &'a Value, complete: &'a Value) -> Vec<(&'a str, Pair<'a>)> {
    let Some(keys) = schema["properties"].as_object() else { return Vec::new() };
    let declared: Vec<&str> =
        complete["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    // Keys that may be left out when writing are not listed there and come last.
    let place = |key: &str| declared.iter().position(|name| *name == key).unwrap_or(declared.len());
    let mut sorted: Vec<(&str, Pair<'_>)> = keys
        .iter()
        .map(|(key, schema)| (key.as_str(), (schema, &complete["properties"][key.as_str()])))
        .collect();
    sorted.sort_by_key(|(key, _)| place(key));
    sorted
}

/// One table: its comment, its keys, then the tables in it. `listed` has the keys and the path of each table in
/// another.
fn table(page: &mut String, path: &str, (schema, complete): Pair<'_>, listed: &mut Vec<(Value, String)>) {
    let repeated = elements(schema);
    let heading = if repeated.is_some() { format!("[[{path}]]") } else { format!("[{path}]") };
    let _ = write!(page, "\n## `{heading}`\n\n{}\n", description(schema));
    // The keys of an array of tables are those of its elements.
    let (schema, complete) = (repeated.unwrap_or(schema), elements(complete).unwrap_or(complete));
    let (tables, keys): (Vec<_>, Vec<_>) =
        properties(schema, complete).into_iter().partition(|(_, (schema, _))| is_table(schema));
    if !keys.is_empty() {
        page.push_str("\n| key | value | default | meaning |\n|---|---|---|---|\n");
    }
    // Choices are explained once in a table.
    let mut explained = Vec::new();
    for (key, (schema, _)) in &keys {
        let choices = choices(schema);
        let mut meaning = description(schema);
        if !choices.is_empty() && !explained.contains(&choices) {
            meaning = format!("{meaning} {choices}");
            explained.push(choices);
        }
        let meaning = meaning.replace('|', "\\|");
        let _ = writeln!(page, "| `{key}` | {} | {} | {meaning} |", value(schema), default(schema));
    }
    for (key, (about, entry)) in keys.iter().filter_map(|(key, (schema, _))| Some((key, entry(schema)?))) {
        let _ = write!(page, "\n### Tables of `{path}.{key}`\n\n{about}\n");
        page.push_str("\n| key | value | default | meaning |\n|---|---|---|---|\n");
        for (key, (schema, _)) in properties(entry, entry) {
            let meaning = format!("{} {}", description(schema), choices(schema)).replace('|', "\\|");
            let _ = writeln!(
                page,
                "| `{key}` | {} | {} | {} |",
                value(schema),
                default(schema),
                meaning.trim_end()
            );
        }
    }
    let keys_of = |schema: &Value| schema["properties"].clone();
    for (key, (schema, complete)) in tables {
        let below = format!("{path}.{key}");
        // Tables with the same keys are listed by their meaning only.
        match listed.iter().find(|(keys, _)| elements(schema).is_none() && *keys == keys_of(schema)) {
            Some((_, first)) => {
                let _ = write!(
                    page,
                    "\n## `[{below}]`\n\n{} The keys are those of `[{first}]`.\n",
                    description(schema)
                );
            }
            None => {
                table(page, &below, (schema, complete), listed);
                listed.push((keys_of(schema), below));
            }
        }
    }
}

/// The tables of an array of tables.
fn elements(schema: &Value) -> Option<&Value> {
    schema.get("items").filter(|items| items.get("properties").is_some())
}

fn is_table(schema: &Value) -> bool {
    schema.get("properties").is_some() || elements(schema).is_some()
}

/// A comment on one line.
fn description(schema: &Value) -> String {
    let text = schema["description"].as_str().unwrap_or_default();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The table that may stand for an element of an array, or for a value of a table of free keys, with the element's
/// comment.
fn entry(schema: &Value) -> Option<(String, &Value)> {
    let element = schema.get("items").or_else(|| schema.get("additionalProperties"))?;
    let mut alternatives = element["anyOf"].as_array()?.iter();
    let table = alternatives.find(|alternative| alternative.get("properties").is_some())?;
    Some((description(element), table))
}

/// The choices with their comments.
fn choices(schema: &Value) -> String {
    // A key that may be left out has them one level down.
    let optional = schema["anyOf"].as_array().into_iter().flatten();
    let choices = std::iter::once(schema).chain(optional).filter_map(|schema| schema["oneOf"].as_array());
    let explained =
        choices.flatten().map(|choice| format!("{}: {}", code(&choice["const"]), description(choice)));
    explained.collect::<Vec<_>>().join(" ")
}

/// The type or choices of a value.
fn value(schema: &Value) -> String {
    for (kind, joint) in [("oneOf", ", "), ("anyOf", " or ")] {
        if let Some(choices) = schema[kind].as_array() {
            let choices = choices.iter().filter(|choice| choice["type"] != "null");
            return choices.map(value).collect::<Vec<_>>().join(joint);
        }
    }
    if let Some(constant) = schema.get("const") {
        return code(constant);
    }
    let kinds = match &schema["type"] {
        Value::Array(kinds) => kinds.iter().filter(|kind| *kind != "null").collect(),
        kind => vec![kind],
    };
    let name = |kind: &&Value| match kind.as_str() {
        Some("string") => "string".to_owned(),
        Some("integer") => "integer".to_owned(),
        Some("boolean") => "true, false".to_owned(),
        Some("array") => format!("array of {}", value(&schema["items"])),
        Some("object") => "table".to_owned(),
        _ => "number".to_owned(),
    };
    kinds.iter().map(name).collect::<Vec<_>>().join(" or ")
}

/// The default as TOML writes it; `-` where a missing key is not the same as any value.
fn default(schema: &Value) -> String {
    match &schema["default"] {
        Value::Null => "-".into(),
        Value::String(text) if text.is_empty() => "-".into(),
        value => code(value),
    }
}

fn code(value: &Value) -> String {
    format!("`{value}`")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_the_common_keys_and_the_tables_of_entries() {
        let page = markdown();
        let common = page.split("## Common keys").nth(1).and_then(|rest| rest.split("\n## ").next());
        let rows = common.unwrap_or_default().lines().filter(|line| line.starts_with("| `")).count();
        assert_eq!(rows, COMMON.len(), "{common:?}");
        for part in [
            "### Tables of `optimizer.states`",
            "| `min_size` |",
            "### Tables of `plugins.load`",
            "| `sha256` |",
        ] {
            assert!(page.contains(part), "{part}");
        }
    }
}

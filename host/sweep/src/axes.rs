//! `[axes]`, `[set]` and `[[exclude]]` of a matrix file: the varied keys, with their places.

use altgrad_base::diagnostic::{Diagnostic, closest};
use altgrad_config::{Source, join};
use toml::{Table, Value};

use super::rates::TuneSection;
/// Values of the longest axis, and axes of a matrix: far above any practical number of runs.
const MOST_VALUES: usize = 1000;
const MOST_AXES: usize = 32;
/// The name of an entry whose keys change together.
const LABEL: &str = "label";
/// The key of an entry that replaces `[tune]`'s key and values.
const TUNE: &str = "tune";

/// A key of the run file and its value.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Assignment {
    pub key: String,
    pub value: Value,
    /// Its dotted key in the matrix file, for places.
    pub at: String,
}

/// Something that varies.
#[derive(Debug)]
pub(super) struct Axis {
    /// A dotted key, or the name of a list of entries.
    pub name: String,
    pub points: Vec<Point>,
}

impl Axis {
    /// True if an entry sets a tuned key.
    pub fn is_tuned(&self) -> bool {
        self.points.iter().any(|point| point.tune.is_some())
    }
}

/// One value of an axis.
#[derive(Debug, Clone)]
pub(super) struct Point {
    /// The value of a key, or an entry's label.
    pub value: Value,
    pub sets: Vec<Assignment>,
    /// An entry's own key and values to tune.
    pub tune: Option<TuneSection>,
}

/// An excluded combination: each named axis has one of the values.
#[derive(Debug)]
pub(super) struct Exclusion {
    pub conditions: Vec<(String, Vec<Value>)>,
    /// Its dotted key in the matrix file.
    pub at: String,
}

/// True if a character is kept in folder names.
pub(super) fn is_plain(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || "._+-".contains(letter)
}

/// Every value below a table, by its dotted key in the run file, in the file's order. A key may be written with its
/// dots in quotes.
pub(super) fn leaves(table: &Table, at: &str, source: &Source) -> Vec<Assignment> {
    fn walk(table: &Table, key: &str, at: &str, found: &mut Vec<Assignment>) {
        for (name, value) in table {
            let key = if key.is_empty() { name.clone() } else { format!("{key}.{name}") };
            let at = join(at, name);
            match value {
                Value::Table(table) => walk(table, &key, &at, found),
                value => found.push(Assignment { key, value: value.clone(), at }),
            }
        }
    }
    let mut found = Vec::new();
    walk(table, "", at, &mut found);
    // A list of [[entries]] begins at its first entry.
    found.sort_by_key(|leaf| {
        [source.offset(&leaf.at), source.offset(&join(&leaf.at, "0"))].into_iter().flatten().max()
    });
    found
}

pub(super) fn axes(table: &Table, source: &Source) -> Result<Vec<Axis>, Diagnostic> {
    let leaves = leaves(table, "axes", source);
    if leaves.len() > MOST_AXES {
        return Err(Diagnostic::config(format!("the matrix has more than {MOST_AXES} axes"))
            .at(source.locate("axes"))
            .hint("write constant keys in [set]"));
    }
    leaves.into_iter().map(|leaf| axis(leaf, source)).collect()
}

fn axis(leaf: Assignment, source: &Source) -> Result<Axis, Diagnostic> {
    let Assignment { key: name, value, at } = leaf;
    let refused =
        |message: String, hint: &str| Err(Diagnostic::config(message).at(source.locate(&at)).hint(hint));
    let Value::Array(values) = value else {
        return refused(
            format!("the axis `{name}` must be an array of values"),
            "write constant keys in [set]",
        );
    };
    if values.len() > MOST_VALUES {
        return refused(format!("the axis `{name}` has more than {MOST_VALUES} values"), "split the sweep");
    }
    if values.is_empty() {
        return refused(format!("the axis `{name}` has no values"), "give it some or remove it");
    }
    let grouped = !name.contains('.');
    if grouped && !values.iter().all(Value::is_table) {
        let hint =
            "write a key as [axes] train.lr = [...], and keys that vary together as [[axes.NAME]] entries";
        return refused(format!("`{name}` is not of the form section.key"), hint);
    }
    let points = values.into_iter().enumerate().map(|(index, value)| {
        let at = join(&at, &index.to_string());
        match value {
            Value::Table(entry) if grouped => entry_point(entry, &at, source),
            value => {
                let sets = vec![Assignment { key: name.clone(), value: value.clone(), at }];
                Ok(Point { value, sets, tune: None })
            }
        }
    });
    let points: Vec<Point> = points.collect::<Result<_, _>>()?;
    for (index, point) in points.iter().enumerate() {
        if points[..index].iter().any(|earlier| earlier.value == point.value) {
            let message = format!("the axis `{name}` holds {} twice", point.value);
            return Err(Diagnostic::config(message)
                .at(source.locate(&join(&at, &index.to_string())))
                .hint("remove one of the two equal values"));
        }
    }
    Ok(Axis { name, points })
}

/// An entry of keys that change together.
fn entry_point(mut entry: Table, at: &str, source: &Source) -> Result<Point, Diagnostic> {
    let place = |key: &str| source.locate(key);
    let label = match entry.remove(LABEL) {
        Some(Value::String(label)) if !label.is_empty() && label.chars().all(is_plain) => label,
        Some(_) => {
            let message = format!("`{}` must be letters, digits, `.`, `_`, `+` or `-`", join(at, LABEL));
            return Err(Diagnostic::config(message)
                .at(place(&join(at, LABEL)))
                .hint("it becomes a part of the names of runs, such as \"adamw\""));
        }
        None => {
            return Err(Diagnostic::config(format!("`{at}` has no `{LABEL}`"))
                .at(place(at))
                .hint("add label = \"...\": it becomes a part of the names of runs"));
        }
    };
    let tune = entry.remove(TUNE).map(|tune| entry_tune(tune, at, source)).transpose()?;
    let sets = leaves(&entry, at, source);
    match sets.iter().find(|set| !set.key.contains('.')) {
        Some(bare) => Err(Diagnostic::config(format!("`{}` is not of the form section.key", bare.key))
            .at(place(&bare.at))
            .hint("write keys of the run file with their section, such as train.lr = 1e-3")),
        None => Ok(Point { value: Value::String(label), sets, tune }),
    }
}

/// The tuning of an entry: a key and values, in range.
fn entry_tune(tune: Value, at: &str, source: &Source) -> Result<TuneSection, Diagnostic> {
    let at = join(at, TUNE);
    let tune: TuneSection = tune.try_into().map_err(|error: toml::de::Error| {
        Diagnostic::config(format!("`{at}`: {}", error.message().replace('\n', " ")))
            .at(source.locate(&at))
            .hint("an entry's tune has key, and values or from, to and points")
    })?;
    if tune.seed.is_some() || !tune.rungs.is_empty() {
        return Err(Diagnostic::config(format!("`{at}` gives a seed or rungs, which are all entries' own"))
            .at(source.locate(&at))
            .hint("write them in [tune]"));
    }
    match tune.check(false) {
        Ok(()) => Ok(tune),
        Err((_, error)) => Err(error.at(source.locate(&at))),
    }
}

pub(super) fn exclusions(
    entries: &[Table],
    axes: &[Axis],
    source: &Source,
) -> Result<Vec<Exclusion>, Diagnostic> {
    let exclusion = |(index, entry): (usize, &Table)| {
        let at = format!("exclude.{index}");
        let conditions = leaves(entry, &at, source).into_iter().map(|leaf| condition(leaf, axes, source));
        Ok(Exclusion { conditions: conditions.collect::<Result<_, _>>()?, at })
    };
    entries.iter().enumerate().map(exclusion).collect()
}

fn condition(leaf: Assignment, axes: &[Axis], source: &Source) -> Result<(String, Vec<Value>), Diagnostic> {
    let Assignment { key, value, at } = leaf;
    let Some(axis) = axes.iter().find(|axis| axis.name == key) else {
        let names: Vec<&str> = axes.iter().map(|axis| axis.name.as_str()).collect();
        let near = closest(&key, names.iter().copied()).map(|near| format!("did you mean `{near}`? "));
        return Err(Diagnostic::config(format!("`{key}` in [[exclude]] is not an axis of the matrix"))
            .at(source.locate(&at))
            .hint(format!("{}axes: {}", near.unwrap_or_default(), names.join(", "))));
    };
    let values = match value {
        // Several values: any of them. An axis of arrays takes an array as one value.
        Value::Array(values) if !axis.points.iter().any(|point| point.value.is_array()) => values,
        value => vec![value],
    };
    let missing = values.iter().find(|value| !axis.points.iter().any(|point| point.value == **value));
    match missing {
        None => Ok((key, values)),
        Some(value) => {
            let known: Vec<String> = axis.points.iter().map(|point| point.value.to_string()).collect();
            Err(Diagnostic::config(format!("the axis `{key}` has no value {value}"))
                .at(source.locate(&at))
                .hint(format!("its values: {}", known.join(", "))))
        }
    }
}

//! The keys in which two run files differ.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use toml::{Table, Value};

/// The text for a missing value.
const NOTHING: &str = "not set";

/// A difference from the earlier run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Difference {
    /// The key of the run file, or the name of another property.
    pub key: String,
    /// The old value.
    pub was: String,
    /// The new value.
    pub is: String,
}

impl Difference {
    /// A key whose value has changed; `None` where it is not set.
    #[must_use]
    pub fn of_key(key: &str, was: Option<&Value>, is: Option<&Value>) -> Self {
        let said = |value: Option<&Value>| value.map_or(NOTHING.to_string(), shown);
        Self { key: key.to_string(), was: said(was), is: said(is) }
    }
}

/// `` `train.lr` is 0.1, was 0.01``.
impl std::fmt::Display for Difference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "`{}` is {}, was {}", self.key, self.is, self.was)
    }
}

/// A value on one line; a number in as few digits as it needs.
#[must_use]
pub fn shown(value: &Value) -> String {
    match value {
        Value::Float(number) => format!("{number:?}"),
        other => other.to_string(),
    }
}

/// The keys in which two resolved run files differ.
#[must_use]
pub fn differences(was: &Table, is: &Table) -> Vec<Difference> {
    let (was, is) = (dotted_values(was), dotted_values(is));
    let keys: BTreeSet<&String> = was.keys().chain(is.keys()).collect();
    let differ = keys.into_iter().filter(|key| was.get(*key) != is.get(*key));
    differ.map(|key| Difference::of_key(key, was.get(key), is.get(key))).collect()
}

/// Every value of a run file by its dotted key.
#[must_use]
pub fn dotted_values(table: &Table) -> BTreeMap<String, Value> {
    fn add(key: String, value: &Value, found: &mut BTreeMap<String, Value>) {
        let below = |name: &str| if key.is_empty() { name.to_string() } else { format!("{key}.{name}") };
        match value {
            Value::Table(table) => table.iter().for_each(|(name, value)| add(below(name), value, found)),
            Value::Array(values) if values.iter().any(Value::is_table) => {
                values
                    .iter()
                    .enumerate()
                    .for_each(|(index, value)| add(below(&index.to_string()), value, found));
            }
            value => drop(found.insert(key, value.clone())),
        }
    }
    let mut found = BTreeMap::new();
    table.iter().for_each(|(name, value)| add(name.clone(), value, &mut found));
    found
}

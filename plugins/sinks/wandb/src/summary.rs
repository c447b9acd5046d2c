//! The summary of a run: the last value of everything, as the server shows it in lists of runs.

use std::collections::BTreeMap;

use crate::json::fields;

/// Key of the summary's own fields.
const OWN: &str = "\"_wandb\"";

/// Last values, keys in quotes and values as written.
#[derive(Debug, Default)]
pub(crate) struct Summary {
    values: BTreeMap<String, String>,
}

impl Summary {
    /// Takes a row, the closing values, or a whole summary.
    pub(crate) fn take(&mut self, object: &str) {
        for (key, value) in fields(object).filter(|(key, _)| *key != OWN) {
            match self.values.get_mut(key) {
                Some(old) => value.clone_into(old),
                None => drop(self.values.insert(key.to_string(), value.to_string())),
            }
        }
    }

    /// Keys and values.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.values.iter().map(|(key, value)| (key.as_str(), value.as_str()))
    }

    /// Seconds the run took, by its last row.
    pub(crate) fn runtime(&self) -> f64 {
        self.values.get("\"_runtime\"").and_then(|value| value.parse().ok()).unwrap_or(0.0)
    }

    /// The whole as an object.
    pub(crate) fn text(&self) -> String {
        let mut text = format!("{{{OWN}:{{\"runtime\":{}}}", self.runtime() as u64);
        for (key, value) in &self.values {
            text.push(',');
            text.push_str(key);
            text.push(':');
            text.push_str(value);
        }
        text.push('}');
        text
    }
}

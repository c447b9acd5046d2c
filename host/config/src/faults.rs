//! All faults of a run file at once.
//!
//! The readers of a run file stop at the first fault. After each one the key at fault is left out, as if it were not
//! written, and the file is read again. An element of a list is left out with the later ones, which would move. What
//! follows only from leaving a key out is not reported.

use std::path::Path;

use altgrad_base::diagnostic::Diagnostic;
use toml::{Table, Value};

use super::{hints, load, schema::RunConfig, source::Source};

/// Faults that are reported at once.
const MOST: usize = 32;

/// Keys that determine the meaning of the other keys of their table. Without them the table cannot be checked.
const DISCRIMINATORS: [&str; 10] =
    ["amax", "block", "dataset", "format", "granularity", "name", "preset", "rule", "schedule", "type"];

/// Reads the run file at `path` with the `--set` `overrides`, and gives it to `accept`.
///
/// # Errors
/// Every fault of the file, and every fault that `accept` finds at a key of it, in the order in which they are found. A
/// fault at no key ends the search.
pub fn accept_or_list<T>(
    path: &Path,
    overrides: &[String],
    mut accept: impl FnMut(RunConfig, &Source) -> Result<T, Diagnostic>,
) -> Result<T, Vec<Diagnostic>> {
    let mut found = Faults::default();
    loop {
        let read = load::load_parsed(path, overrides, |table, source| found.leave_out(table, source));
        let (fault, source) = match read {
            Ok((config, source)) => match accept(config, &source) {
                Ok(accepted) if found.reported.is_empty() => return Ok(accepted),
                Ok(_) => return Err(found.reported),
                Err(fault) => (fault, Some(source)),
            },
            Err((fault, source)) => (fault, source.map(|source| *source)),
        };
        if !found.take_in(hints::with_hint(fault), source.as_ref()) || found.reported.len() == MOST {
            return Err(found.reported);
        }
    }
}

/// The faults found so far, and the keys that were left out after them.
#[derive(Default)]
struct Faults {
    reported: Vec<Diagnostic>,
    left_out: Vec<String>,
}

impl Faults {
    /// Takes a fault; returns whether there may be others.
    fn take_in(&mut self, fault: Diagnostic, source: Option<&Source>) -> bool {
        let place = fault.place.clone().unwrap_or_default();
        let is_named = |key: &str| named(&fault.message).any(|name| name == key);
        let key = source.and_then(|source| source.key_at(&place, is_named)).map(|key| meant(&key).to_owned());
        // A rule about several keys has the place of another key once its own is left out.
        let names = |left_out: &str| named(&fault.message).any(|name| is_within(name, left_out));
        let follows = self.left_out.iter().any(|left_out| {
            names(left_out)
                || key.as_ref().map_or(place.ends_with("(default)"), |key| is_within(left_out, key))
        });
        if !follows {
            self.reported.push(fault);
        }
        let Some(key) = key.filter(|key| !self.left_out.contains(key)) else { return false };
        self.left_out.push(key);
        true
    }

    /// Takes the keys that are left out from the table and from the places of the source.
    fn leave_out(&self, table: &mut Table, source: &mut Source) {
        for key in &self.left_out {
            source.places.retain(|written, _| !is_within(written, key) && !is_after(written, key));
            remove(table, key);
        }
    }
}

/// Removes a dotted key, or an element of a list and those after it.
fn remove(table: &mut Table, key: &str) -> Option<()> {
    let Some((parents, last)) = key.rsplit_once('.') else {
        table.remove(key);
        return Some(());
    };
    let mut parents = parents.split('.');
    let section = table.get_mut(parents.next()?)?;
    let parent = parents.try_fold(section, |value, part| match value {
        Value::Table(table) => table.get_mut(part),
        Value::Array(elements) => elements.get_mut(part.parse::<usize>().ok()?),
        _ => None,
    })?;
    match parent {
        Value::Table(table) => drop(table.remove(last)),
        Value::Array(elements) => elements.truncate(last.parse().ok()?),
        _ => {}
    }
    Some(())
}

/// The names that a message has in backticks.
fn named(message: &str) -> impl Iterator<Item = &str> {
    message.split('`').skip(1).step_by(2)
}

/// True if a dotted key is `parent` or in it.
fn is_within(key: &str, parent: &str) -> bool {
    key.strip_prefix(parent).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// True if a dotted key is in a later element of the list that `element` is in.
fn is_after(key: &str, element: &str) -> bool {
    let later = || {
        let (list, index) = element.rsplit_once('.')?;
        let other = key.strip_prefix(list)?.strip_prefix('.')?.split('.').next()?;
        Some(other.parse::<usize>().ok()? > index.parse::<usize>().ok()?)
    };
    later().unwrap_or(false)
}

/// The key that is left out after a fault at `key`: its table, if the key determines the table's meaning.
fn meant(key: &str) -> &str {
    match key.rsplit_once('.') {
        Some((table, last)) if DISCRIMINATORS.contains(&last) => table,
        _ => key,
    }
}

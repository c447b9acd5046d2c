//! Follows the hints of refusals as a user would: a hint that names a key with a value, a key to remove, or a name that
//! was meant is applied to the run file, which is then read again. A hint is a dead end if this leads to a refusal of a
//! kind that was there before.

use std::collections::BTreeSet;

use toml::{Table, Value};

/// Refusals in a row that no user would follow.
const MOST: usize = 6;

/// One change of a run file.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// A dotted key gets a value.
    Set(String, Value),
    /// A dotted key is removed.
    Remove(String),
    /// A key gets another name.
    Rename(String, String),
}

/// What a reader of a run file says to refuse it: message and hint.
pub type Refused = (String, Option<String>);

/// Counts over followed hints.
#[derive(Debug, Default)]
pub struct Followed {
    /// Refusals of the files that were given.
    pub refusals: usize,
    /// Those with a hint.
    pub hints: usize,
    /// Those with a hint that a machine can follow.
    pub followed: usize,
    /// Hints that lead back to a refusal of a kind that was there before.
    pub dead_ends: Vec<String>,
}

impl Followed {
    /// Follows the hints of `file`, as `read` refuses it.
    pub fn follow(&mut self, file: &str, read: &mut dyn FnMut(&str) -> Option<Refused>) {
        let Some((message, hint)) = read(file) else { return };
        self.refusals += 1;
        let Some(hint) = hint else { return };
        self.hints += 1;
        let ways = ways(&message, &hint);
        let Ok(table) = file.trim_start_matches('\u{feff}').parse::<Table>() else { return };
        self.followed += usize::from(!ways.is_empty());
        for way in ways {
            let mut trail = vec![format!("{message} (hint: {hint})")];
            let mut kinds = BTreeSet::from([kind(&message)]);
            self.walk(table.clone(), &way, (&mut trail, &mut kinds), read);
        }
    }

    fn walk(
        &mut self,
        mut table: Table,
        way: &[Change],
        (trail, kinds): (&mut Vec<String>, &mut BTreeSet<String>),
        read: &mut dyn FnMut(&str) -> Option<Refused>,
    ) {
        way.iter().for_each(|change| apply(&mut table, change));
        let Some((message, hint)) = read(&table.to_string()) else { return };
        trail.push(format!("{way:?}\n    {message} (hint: {})", hint.as_deref().unwrap_or("none")));
        let is_new = kinds.insert(kind(&message));
        if !is_new || trail.len() > MOST {
            self.dead_ends.push(trail.join("\n  "));
        } else if let Some(hint) = hint {
            for way in ways(&message, &hint) {
                self.walk(table.clone(), &way, (&mut trail.clone(), &mut kinds.clone()), read);
            }
        }
    }
}

/// A message without the values it quotes and its numbers.
fn kind(message: &str) -> String {
    let without_quotes: String = message.split('"').step_by(2).collect();
    without_quotes.chars().filter(|letter| !letter.is_ascii_digit()).collect()
}

/// The alternatives of a hint that a machine can follow, each with its changes.
#[must_use]
pub fn ways(message: &str, hint: &str) -> Vec<Vec<Change>> {
    let about = ticked(message).into_iter().find(|name| is_key(name)).unwrap_or_default();
    let clauses = hint.split("; ").flat_map(|part| part.split(" or ")).flat_map(|part| part.split(", "));
    let changes = |clause: &str| -> Vec<Change> {
        let meant = ["did you mean `", "its name is `", "a rule by layer has `"];
        let meant = meant.iter().find_map(|start| clause.strip_prefix(start)?.split('`').next());
        if let Some(meant) = meant {
            return meant_by(message, meant).into_iter().collect();
        }
        let removed = ["remove `", "leave `", "without `"]
            .iter()
            .find_map(|verb| clause.split_once(verb))
            .map(|(_, rest)| rest);
        let removed = removed.and_then(|rest| rest.split('`').next()).map(|key| whole(key, about));
        let removed = removed.or_else(|| clause.contains("remove the key").then(|| about.to_owned()));
        let removed = removed.filter(|key| is_key(key)).map(Change::Remove);
        removed.into_iter().chain(settings(clause, about)).collect()
    };
    clauses.map(changes).filter(|changes| !changes.is_empty()).collect()
}

/// The change that "did you mean" asks for.
fn meant_by(message: &str, meant: &str) -> Option<Change> {
    let names = ticked(message);
    if message.starts_with("unknown key ") {
        // A key in quotes is not followed.
        let key = names.first().filter(|name| !name.contains('"'))?;
        return Some(Change::Rename((*key).to_owned(), meant.to_owned()));
    }
    let key = match names.as_slice() {
        _ if message.starts_with("there is no recipe") => "quant.recipe",
        _ if message.starts_with("unknown optimizer ") => "optimizer.name",
        _ if message.starts_with("unknown sink ") => "sink.0.name",
        [.., last] if message.contains(" at `") => *last,
        [first, ..] => *first,
        [] => return None,
    };
    is_key(key).then(|| Change::Set(key.to_owned(), Value::String(meant.to_owned())))
}

/// The texts in backticks.
fn ticked(text: &str) -> Vec<&str> {
    text.split('`').skip(1).step_by(2).collect()
}

fn is_key(text: &str) -> bool {
    !text.is_empty()
        && text.contains('.')
        && text.split('.').all(|part| {
            !part.is_empty() && part.chars().all(|letter| letter.is_alphanumeric() || letter == '_')
        })
}

/// A key of a hint, which may be named without the table it has in common with the message's.
fn whole(key: &str, about: &str) -> String {
    match (is_key(key), about.rsplit_once('.')) {
        // An element of a list is the table itself.
        (false, Some((_, last))) if last.parse::<usize>().is_ok() => format!("{about}.{key}"),
        (false, Some((table, _))) => format!("{table}.{key}"),
        _ => key.to_owned(),
    }
}

/// The settings `key = value` of a clause.
fn settings(clause: &str, about: &str) -> Vec<Change> {
    let mut found = Vec::new();
    for (at, _) in clause.match_indices(" = ") {
        let key = clause[..at].rsplit([' ', '(', '{', '`']).find(|word| !word.is_empty()).unwrap_or_default();
        let rest = &clause[at + 3..];
        let end = match rest.chars().next() {
            Some('"') => rest[1..].find('"').map(|end| end + 2),
            Some('[') => rest.find(']').map(|end| end + 1),
            Some('{') => rest.find('}').map(|end| end + 1),
            _ => rest.find([' ', ',', ';', '`', ')']).or(Some(rest.len())),
        };
        let value = end.and_then(|end| format!("value = {}", &rest[..end]).parse::<Table>().ok());
        let value = value.and_then(|mut table| table.remove("value"));
        let is_example = |value: &Value| value.as_str().is_some_and(|text| text.contains("..."));
        if let Some(value) = value.filter(|value| !is_example(value) && !key.is_empty()) {
            found.push(Change::Set(whole(key, about), value));
        }
    }
    found
}

fn apply(table: &mut Table, change: &Change) {
    match change {
        Change::Set(key, value) => {
            if let Some(slot) = slot(table, key) {
                *slot = value.clone();
            }
        }
        Change::Remove(key) => drop(remove(table, key)),
        Change::Rename(key, name) => {
            if let Some(value) = remove(table, key) {
                let table_of = key.rsplit_once('.').map_or("", |(parents, _)| parents);
                let own = name.strip_prefix(table_of).and_then(|name| name.strip_prefix('.')).unwrap_or(name);
                let renamed = if table_of.is_empty() { own.to_owned() } else { format!("{table_of}.{own}") };
                if let Some(slot) = slot(table, &renamed) {
                    *slot = value;
                }
            }
        }
    }
}

/// The place of a dotted key, made if there is none.
fn slot<'t>(table: &'t mut Table, key: &str) -> Option<&'t mut Value> {
    let mut parts = key.split('.').peekable();
    let mut node = table.entry(parts.next()?).or_insert_with(|| Value::Table(Table::new()));
    for part in parts {
        node = match node {
            Value::Array(list) => list.get_mut(part.parse::<usize>().ok()?)?,
            Value::Table(inner) => inner.entry(part).or_insert_with(|| Value::Table(Table::new())),
            _ => return None,
        };
    }
    Some(node)
}

fn remove(table: &mut Table, key: &str) -> Option<Value> {
    let Some((parents, last)) = key.rsplit_once('.') else { return table.remove(key) };
    match slot(table, parents)? {
        Value::Table(inner) => inner.remove(last),
        Value::Array(list) => {
            let index = last.parse::<usize>().ok().filter(|index| *index < list.len())?;
            Some(list.remove(index))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_are_read_as_changes() {
        let set = |key: &str, value: &str| Change::Set(key.into(), value.into());
        let message = "`quant.scaling.amax` = \"delayed\" needs one scale for the tensor";
        assert_eq!(
            ways(message, "set amax = \"dynamic\", or remove `amax`"),
            [vec![set("quant.scaling.amax", "dynamic")], vec![Change::Remove("quant.scaling.amax".into())]]
        );
        assert_eq!(
            ways("unknown key `train.lrr`", "did you mean `lr`? known keys in [train]: max_steps, lr"),
            [vec![Change::Rename("train.lrr".into(), "lr".into())]]
        );
        assert_eq!(
            ways("unknown format `E4M4` at `quant.weight`", "did you mean `E4M3`?"),
            [vec![set("quant.weight", "E4M3")]]
        );
        let lr = [vec![Change::Remove("train.lr".into())]];
        assert_eq!(
            ways("`train.lr` must be positive, found -1", "leave `train.lr` out for its default, 0.001"),
            lr
        );
        assert!(ways("the corpus is empty", "use a larger one").is_empty());
    }

    #[test]
    fn a_hint_that_leads_back_is_a_dead_end() {
        let mut reader = |text: &str| {
            let quoted = |value: &str| format!("`a.key` must not be \"{value}\"");
            let refused = |value: &str, hint: &str| (quoted(value), Some(format!("set key = \"{hint}\"")));
            if text.contains("\"x\"") {
                Some(refused("x", "y"))
            } else if text.contains("\"y\"") {
                Some(refused("y", "x"))
            } else {
                None
            }
        };
        let mut found = Followed::default();
        found.follow("[a]\nkey = \"x\"", &mut reader);
        assert_eq!((found.refusals, found.hints, found.followed, found.dead_ends.len()), (1, 1, 1, 1));
    }
}

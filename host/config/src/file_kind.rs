//! Run files and matrix files that are given for each other, told apart by keys of their top level: one error, instead
//! of one for each key that the other file has.

use altgrad_base::diagnostic::Diagnostic;
use toml::Table;

use super::source::Source;

/// Keys that only a matrix file has.
const OF_MATRIX: [&str; 2] = ["base", "axes"];
/// Tables that only a run file has.
const OF_RUN: [&str; 3] = ["data", "model", "train"];

/// Refuses a matrix file where a run file is expected.
pub(super) fn refuse_matrix(table: &Table, source: &Source) -> Result<(), Diagnostic> {
    let Some(key) = first_of(&OF_MATRIX, table) else { return Ok(()) };
    Err(Diagnostic::config("this is a matrix file, not a run file")
        .at(source.locate_key(key))
        .hint(format!("`altgrad-host sweep {} --check` checks it", source.path().display())))
}

/// Refuses a run file where a matrix file is expected.
pub(super) fn refuse_run_file(table: &Table, source: &Source) -> Result<(), Diagnostic> {
    let key = first_of(&OF_RUN, table).filter(|_| first_of(&OF_MATRIX, table).is_none());
    let Some(key) = key else { return Ok(()) };
    Err(Diagnostic::config("this is a run file, not a matrix file").at(source.locate_key(key)).hint(format!(
        "`altgrad-host check {}` checks it; a matrix file names it as `base`",
        source.path().display()
    )))
}

fn first_of<'a>(keys: &[&'a str], table: &Table) -> Option<&'a str> {
    keys.iter().find(|key| table.contains_key(**key)).copied()
}

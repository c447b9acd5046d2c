//! The text of a file, and the types of its keys.

use std::io;
use std::path::Path;

use altgrad_base::diagnostic::{Diagnostic, closest};
use serde::de::DeserializeOwned;
use toml::Table;

use super::explain;
use super::source::{Source, position};

/// The text of a file; `what` names it in messages.
pub(super) fn read_text(path: &Path, what: &str) -> Result<String, Diagnostic> {
    let bytes = altgrad_base::files::read(path).map_err(|error| unreadable(path, what, &error))?;
    decode(path, what, bytes)
}

/// The values of a table, by their types.
pub(super) fn values<T: DeserializeOwned>(table: Table, source: &Source) -> Result<T, Diagnostic> {
    serde_path_to_error::deserialize(toml::Value::Table(table.clone()))
        .map_err(|error| explain::explain(&error, &table, source))
}

/// Refuses bytes that are not UTF-8.
pub(super) fn decode(path: &Path, what: &str, bytes: Vec<u8>) -> Result<String, Diagnostic> {
    String::from_utf8(bytes).map_err(|error| {
        let valid = error.utf8_error().valid_up_to();
        let text = String::from_utf8_lossy(error.as_bytes());
        Diagnostic::config(format!("cannot read the {what}: it is not UTF-8 text"))
            .at(position(path, &text, valid))
            .hint(format!("a {what} is TOML, saved as UTF-8"))
    })
}

fn unreadable(path: &Path, what: &str, error: &io::Error) -> Diagnostic {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let beside = run_files_beside(path);
    let hint = match closest(name, beside.iter().map(String::as_str)) {
        Some(near) if near != name => format!("did you mean `{}`?", path.with_file_name(near).display()),
        _ if what == "run file" => "give the path of a TOML run file, such as configs/exp.toml".to_owned(),
        _ => format!("give the path of a {what}, which is TOML"),
    };
    Diagnostic::config(format!("cannot read the {what}: {error}")).at(path.display()).hint(hint)
}

/// Names of the TOML files in the folder of `path`, sorted; none if it cannot be listed.
fn run_files_beside(path: &Path) -> Vec<String> {
    let folder = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut names: Vec<String> = std::fs::read_dir(folder)
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| name.ends_with(".toml"))
        .collect();
    names.sort();
    names
}

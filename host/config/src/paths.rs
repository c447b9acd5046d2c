//! Relative paths of a run file: one in a file starts at the file's folder, one of `--set` at the working directory.
//!
//! Earlier versions let `data.dataset`, `model.init` and `run.out` start at the working directory, and paths of `--set`
//! at the run file. If something exists there, a warning names both places; the earlier one is used if nothing exists
//! at the other.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf, absolute},
    sync::{Mutex, PoisonError},
};

use altgrad_base::diagnostic::Diagnostic;
use toml::{Table, Value};

use super::{
    choices::DatasetChoice,
    schema::{RunConfig, RunSection},
    source::{Place, Source},
};

/// Paths of a run file that used to start at the working directory.
const OF_DIRECTORY: [&str; 3] = ["data.dataset", "model.init", "run.out"];

/// The warnings of this process: a run file is read several times.
static SAID: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

/// Makes the paths of a file with its overrides start at the working directory.
pub(super) fn start_at_working_directory(table: &mut Table, source: &Source) -> Result<(), Diagnostic> {
    let folder = source.path().parent().unwrap_or(Path::new(""));
    for (key, value) in table.iter_mut() {
        visit(key, value, &mut |key, path| {
            let (here, there) = match source.places.get(key) {
                Some(Place::File { .. }) => (folder.join(&*path), PathBuf::from(&*path)),
                Some(Place::Override(_)) => (PathBuf::from(&*path), folder.join(&*path)),
                Some(Place::Recipe { .. } | Place::Option(_)) | None => return Ok(()),
            };
            let is_of_file = matches!(source.places.get(key), Some(Place::File { .. }));
            let moved = is_of_file == OF_DIRECTORY.contains(&key);
            let chosen = if moved { chosen(key, here, there) } else { here };
            let is_of_plugin = key.starts_with("plugins.");
            let placed = |fault: Diagnostic| fault.at(source.locate(key));
            *path = if is_of_plugin { whole(key, &chosen) } else { text(key, chosen) }.map_err(placed)?;
            Ok(())
        })?;
    }
    Ok(())
}

/// The value that a key has in a file in `folder`, for the working directory.
#[must_use]
pub fn from_folder(folder: &Path, key: &str, value: &Value) -> Value {
    let (section, names) = key.split_once('.').unwrap_or((key, ""));
    let names: Vec<&str> = names.split('.').filter(|name| !name.is_empty()).collect();
    let mut nested = names
        .iter()
        .rev()
        .fold(value.clone(), |inner, name| Value::Table(Table::from_iter([((*name).to_owned(), inner)])));
    let moved = visit(section, &mut nested, &mut |_, path| {
        *path = text(key, folder.join(&*path))?;
        Ok(())
    });
    let found = names.iter().try_fold(&nested, |table, name| table.get(name));
    found.filter(|_| moved.is_ok()).unwrap_or(value).clone()
}

impl RunConfig {
    /// The resolved run file: every default written out, and paths absolute, so that the file may be moved and renamed:
    /// loading it describes the same run. Paths of plugins are absolute already.
    ///
    /// # Errors
    /// A path cannot be made absolute, or a value does not fit TOML. Those of a loaded run file fit; a seed above 2^63
    /// does not.
    pub fn to_toml(&self) -> Result<String, Diagnostic> {
        let mut config = self.clone();
        make_absolute(&mut config)?;
        toml::to_string_pretty(&config)
            .map_err(|error| Diagnostic::config(format!("cannot write the resolved run file: {error}")))
    }
}

/// Makes the paths of a resolved run file absolute.
pub(super) fn make_absolute(config: &mut RunConfig) -> Result<(), Diagnostic> {
    if let DatasetChoice::Bins(path) | DatasetChoice::Text(path) = &mut config.data.dataset {
        *path = whole("data.dataset", path)?.into();
    }
    if let Some(init) = config.model.init.as_mut().filter(|init| !init.is_empty()) {
        *init = whole("model.init", Path::new(init))?;
    }
    if config.run.out != RunSection::default().out {
        config.run.out = whole("run.out", Path::new(&config.run.out))?;
    }
    Ok(())
}

/// An absolute path.
fn whole(key: &str, path: &Path) -> Result<String, Diagnostic> {
    let cannot = |error| {
        Diagnostic::config(format!("`{key}` cannot be made absolute: {error}"))
            .hint("start from a folder that exists")
    };
    text(key, absolute(path).map_err(cannot)?)
}

fn text(key: &str, path: PathBuf) -> Result<String, Diagnostic> {
    path.into_os_string().into_string().map_err(|_| {
        Diagnostic::config(format!("`{key}` lies in a folder whose path is not Unicode"))
            .hint("move the file into another folder")
    })
}

/// `here`, unless only the place that earlier versions used exists; a warning if that one exists.
fn chosen(key: &str, here: PathBuf, earlier: PathBuf) -> PathBuf {
    let real = |path: &Path| fs::canonicalize(path).ok();
    let (Some(other), own) = (real(&earlier), real(&here)) else { return here };
    if own.as_ref() == Some(&other) {
        return here;
    }
    let (here_shown, earlier_shown) = (here.display(), earlier.display());
    let (text, path) = match own {
        Some(_) => (
            format!("`{key}` is {here_shown}; earlier versions took {earlier_shown}, which exists too"),
            here.clone(),
        ),
        None => (
            format!(
                "`{key}` is {earlier_shown} as in earlier versions, because {here_shown} does not exist: paths of a run file start at its folder, those of `--set` at the working directory"
            ),
            earlier.clone(),
        ),
    };
    warn_once(text);
    path
}

/// Warns, unless this process has warned of the same.
pub(super) fn warn_once(text: String) {
    if SAID.lock().unwrap_or_else(PoisonError::into_inner).insert(text.clone()) {
        tracing::warn!("{text}");
    }
}

/// Calls `found` with each relative path of a section, its key and the path without what precedes it.
fn visit(
    section: &str,
    value: &mut Value,
    found: &mut dyn FnMut(&str, &mut String) -> Result<(), Diagnostic>,
) -> Result<(), Diagnostic> {
    let Some(table) = value.as_table_mut() else { return Ok(()) };
    let mut at = |key: &str, text: Option<&mut Value>| -> Result<(), Diagnostic> {
        let Some(Value::String(text)) = text else { return Ok(()) };
        let prefix = match key {
            "data.dataset" => ["bins:", "text:"].into_iter().find(|prefix| text.starts_with(prefix)),
            _ if key.ends_with(".recipe") => text.ends_with(".toml").then_some(""),
            _ if key.starts_with("plugins.load") => text.contains(std::path::is_separator).then_some(""),
            _ => Some(""),
        };
        let Some(prefix) = prefix else { return Ok(()) };
        let mut path = text[prefix.len()..].to_owned();
        // An empty one would become a folder; it is refused later.
        if path.is_empty() || Path::new(&path).is_absolute() {
            return Ok(());
        }
        found(key, &mut path)?;
        *text = format!("{prefix}{path}");
        Ok(())
    };
    match section {
        "run" => at("run.out", table.get_mut("out")),
        "data" => at("data.dataset", table.get_mut("dataset")),
        "model" => at("model.init", table.get_mut("init")),
        "plugins" => {
            at("plugins.dir", table.get_mut("dir"))?;
            let load = table.get_mut("load").and_then(Value::as_array_mut);
            for (index, plugin) in load.into_iter().flatten().enumerate() {
                let key = format!("plugins.load.{index}");
                match plugin {
                    Value::Table(pinned) => at(&format!("{key}.path"), pinned.get_mut("path"))?,
                    name => at(&key, Some(name))?,
                }
            }
            let formats = table.get_mut("formats").and_then(Value::as_array_mut);
            for (index, file) in formats.into_iter().flatten().enumerate() {
                at(&format!("plugins.formats.{index}"), Some(file))?;
            }
            Ok(())
        }
        "quant" => {
            at("quant.recipe", table.get_mut("recipe"))?;
            let schedule = table.get_mut("schedule").and_then(Value::as_array_mut);
            for (index, entry) in schedule.into_iter().flatten().enumerate() {
                let recipe = entry.as_table_mut().and_then(|entry| entry.get_mut("recipe"));
                at(&format!("quant.schedule.{index}.recipe"), recipe)?;
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::load::load_text;

    fn dataset(run_file: &Path, written: &str, set: &[&str]) -> String {
        let text = format!("[data]\ndataset = {written:?}");
        let set: Vec<String> = set.iter().map(ToString::to_string).collect();
        load_text(run_file, text, &set).unwrap().0.data.dataset.to_string()
    }

    #[test]
    fn paths_of_a_file_start_at_its_folder_and_those_of_overrides_do_not() {
        let file = Path::new("nowhere/exp.toml");
        assert_eq!(dataset(file, "text:a.txt", &[]), "text:nowhere/a.txt");
        assert_eq!(dataset(file, "bins:/a", &[]), "bins:/a");
        assert_eq!(dataset(file, "text:a.txt", &["data.dataset=text:b.txt"]), "text:b.txt");
        assert_eq!(dataset(Path::new("exp.toml"), "text:a.txt", &[]), "text:a.txt");
        let text = "[run]\nout = 'r'\n[model]\ninit = 'w'\n[plugins]\ndir = 'p'\nload = ['e5m2', 'x/y.so']";
        let (config, _) = load_text(file, text.to_owned(), &[]).unwrap();
        let load = config.plugins.load.unwrap_or_default();
        assert_eq!([config.run.out, config.model.init.unwrap()], ["nowhere/r", "nowhere/w"]);
        let folder = absolute("nowhere").unwrap();
        let libraries = [config.plugins.dir.unwrap(), load[1].target().into()];
        assert_eq!(libraries.map(PathBuf::from), [folder.join("p"), folder.join("x/y.so")]);
        assert_eq!(load[0].target(), "e5m2");
    }

    /// The working directory of tests is the crate's folder, which has a `Cargo.toml` and a folder `src`.
    #[test]
    fn the_place_of_earlier_versions_is_used_where_it_alone_exists() {
        let root = tempfile::tempdir().unwrap();
        let file = root.path().join("exp.toml");
        assert_eq!(dataset(&file, "text:Cargo.toml", &[]), "text:Cargo.toml");
        fs::write(root.path().join("Cargo.toml"), "").unwrap();
        assert_eq!(
            dataset(&file, "text:Cargo.toml", &[]),
            format!("text:{}/Cargo.toml", root.path().display())
        );
        fs::write(root.path().join("own.toml"), "[quant]\nweight = 'E4M3'").unwrap();
        let (config, _) = load_text(&file, String::new(), &["quant.recipe=own.toml".into()]).unwrap();
        assert_eq!(config.quant.weight.as_deref(), Some("E4M3"));
        let said = SAID.lock().unwrap().iter().cloned().collect::<String>();
        let both = |key: &str, of_file: &str, here: &str| {
            let path = root.path().join(of_file);
            said.contains(&format!("`{key}`"))
                && said.contains(&path.display().to_string())
                && said.contains(here)
        };
        assert!(
            both("data.dataset", "Cargo.toml", " Cargo.toml")
                && both("quant.recipe", "own.toml", " own.toml"),
            "{said}"
        );
    }

    #[test]
    fn values_of_a_matrix_start_at_its_folder() {
        let moved = |key: &str, value: &str| from_folder(Path::new("m"), key, &value.into());
        assert_eq!(moved("data.dataset", "bins:d"), "bins:m/d".into());
        assert_eq!(moved("model.init", "w"), "m/w".into());
        assert_eq!(moved("quant.recipe", "own.toml"), "m/own.toml".into());
        assert_eq!(moved("quant.recipe", "mxfp8"), "mxfp8".into());
        assert_eq!(moved("quant.weight", "E4M3"), "E4M3".into());
    }
}

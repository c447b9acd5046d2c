//! From a path and overrides to a checked [`RunConfig`], in order: read, parse,
//! override, translate names of other tools, check numbers and types, resolve, check ranges.
//!
//! Reads nothing but the run file and its recipe; the modules that open a dataset, plugin folder or initial checkpoint
//! check that it exists. Messages come from `explain` (keys and types) and `validate` (ranges).

use std::path::Path;

use altgrad_base::diagnostic::Diagnostic;
use serde::de::DeserializeOwned;
use toml::Table;

use super::schema::RunConfig;
use super::source::Source;
use super::{
    cast_schedule, casts_in_use, defaults, file_kind, foreign, hints, numbers, observe, overrides, parse,
    paths, recipe, validate, without_effect,
};

/// Loads the run file at `path` with the `--set` `overrides` (`dotted.key=value`) on top.
///
/// The result is resolved (every default concrete, relative paths from the working directory) and in range.
pub fn load(path: &Path, overrides: &[String]) -> Result<(RunConfig, Source), Diagnostic> {
    load_parsed(path, overrides, |_, _| ()).map_err(|(fault, _)| hints::with_hint(fault))
}

/// [`load`], where `edit` may change the file's table, and its places in the source, before it is interpreted. An error
/// has the source if the file could be parsed.
pub(super) fn load_parsed(
    path: &Path,
    overrides: &[String],
    edit: impl FnOnce(&mut Table, &mut Source),
) -> Result<(RunConfig, Source), Refusal> {
    let text = parse::read_text(path, "run file").map_err(|fault| (fault, None))?;
    read_parsed(path, text, overrides, edit)
}

/// A fault, and the source if the file could be parsed.
pub(super) type Refusal = (Diagnostic, Option<Box<Source>>);

/// Keys of `[alerts]` for a recorded run, given as `--set` with or without `alerts.`: checked as those of a run file.
///
/// # Errors
/// A setting is no key and value, or its key or value is wrong.
pub fn alert_settings(set: &[String]) -> Result<Table, Diagnostic> {
    const SECTION: &str = "alerts.";
    let settings = set.iter().map(|raw| format!("{SECTION}{}", raw.strip_prefix(SECTION).unwrap_or(raw)));
    let settings: Vec<String> = settings.collect();
    let (mut table, mut source) = Source::parse(Path::new("--set"), String::new())?;
    let check = |table: &Table, source: &Source| {
        let config: RunConfig = parse::values(table.clone(), source)?;
        validate::validate_keys(&config, source, |key| key.starts_with(SECTION))
    };
    overrides::apply(&mut table, &mut source, &settings)
        .and_then(|()| check(&table, &source))
        .map_err(hints::with_hint)?;
    let section = table.remove("alerts").and_then(|section| section.try_into().ok());
    Ok(section.unwrap_or_default())
}

/// A sweep's matrix file: keys, types and places are reported as for run files. `what` names it in messages.
pub fn read_as<T: DeserializeOwned>(path: &Path, what: &str) -> Result<(T, Source), Diagnostic> {
    let (table, source) = Source::parse(path, parse::read_text(path, what)?)?;
    file_kind::refuse_run_file(&table, &source)?;
    Ok((parse::values(table, &source)?, source))
}

/// [`load`] for a text that is in no file; `path` gives the default name, the folder of relative paths, and the places
/// in messages.
pub fn load_str(path: &Path, text: &str) -> Result<(RunConfig, Source), Diagnostic> {
    read_parsed(path, text.to_owned(), &[], |_, _| ()).map_err(|(fault, _)| hints::with_hint(fault))
}

/// [`load`] for a run file already read, without hints about defaults.
#[cfg(test)]
pub(super) fn load_text(
    path: &Path,
    text: String,
    overrides: &[String],
) -> Result<(RunConfig, Source), Diagnostic> {
    read_parsed(path, text, overrides, |_, _| ()).map_err(|(fault, _)| fault)
}

fn read_parsed(
    path: &Path,
    text: String,
    overrides: &[String],
    edit: impl FnOnce(&mut Table, &mut Source),
) -> Result<(RunConfig, Source), Refusal> {
    let unplaced = |fault: Diagnostic| (fault, None);
    let (mut table, mut source) = Source::parse(path, text).map_err(unplaced)?;
    file_kind::refuse_matrix(&table, &source).map_err(unplaced)?;
    overrides::apply(&mut table, &mut source, overrides).map_err(unplaced)?;
    foreign::translate(&mut table, &mut source).map_err(unplaced)?.into_iter().for_each(paths::warn_once);
    paths::start_at_working_directory(&mut table, &source).map_err(unplaced)?;
    recipe::apply(&mut table, &mut source).map_err(unplaced)?;
    edit(&mut table, &mut source);
    match checked(table, &source) {
        Ok(config) => Ok((config, source)),
        Err(fault) => Err((fault, Some(Box::new(source)))),
    }
}

/// The run file of a table: its types, defaults and ranges.
fn checked(mut table: Table, source: &Source) -> Result<RunConfig, Diagnostic> {
    let whole = table.clone();
    let schedule = cast_schedule::take(&mut table);
    numbers::check(&whole, source)?;
    let mut config: RunConfig = parse::values(table.clone(), source)?;
    defaults::resolve(&mut config, source);
    validate::validate(&config, source)?;
    casts_in_use::check(&config.quant, source)?;
    without_effect::refuse(&whole, &config, source)?;
    observe::check(&config.observe, source)?;
    if let Some(entries) = schedule {
        config.quant.schedule = cast_schedule::phases(entries, &table, &config, source)?;
    }
    Ok(config)
}

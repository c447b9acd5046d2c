//! From a path and overrides to a checked [`RunConfig`], in order: read, parse,
//! override, check types, resolve, check ranges.
//!
//! Reads nothing but the run file; the modules that open a dataset, plugin folder or initial checkpoint check that it exists.
//! Messages come from `explain` (keys and types) and `validate` (ranges).

use std::io;
use std::path::{Path, PathBuf};

use altgrad_base::diagnostic::{Diagnostic, closest};
use serde::de::DeserializeOwned;
use toml::Table;

use super::choices::{Preset, ScheduleChoice, StoredScaleChoice};
use super::plugin_ref::PluginRef;
use super::schema::{PluginsSection, RunConfig};
use super::source::{Source, position};
use super::{
    cast_schedule, casts_in_use, explain, file_kind, hints, observe, overrides, recipe, validate,
    without_effect,
};
/// Loads the run file at `path` with the `--set` `overrides` (`dotted.key=value`) on top.
///
/// The result is resolved (every default concrete, plugin paths absolute) and in range.
pub fn load(path: &Path, overrides: &[String]) -> Result<(RunConfig, Source), Diagnostic> {
    load_parsed(path, overrides, |_, _| ()).map_err(|(fault, _)| hints::with_hint(fault))
}

/// [`load`], where `edit` may change the file's table, and its places in the source, before it is interpreted. An error has the
/// source if the file could be parsed.
pub(super) fn load_parsed(
    path: &Path,
    overrides: &[String],
    edit: impl FnOnce(&mut Table, &mut Source),
) -> Result<(RunConfig, Source), Refusal> {
    let text = read_text(path, "run file").map_err(|fault| (fault, None))?;
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
        let config = read(table.clone(), source)?;
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
    let (table, source) = Source::parse(path, read_text(path, what)?)?;
    file_kind::refuse_run_file(&table, &source)?;
    let value = serde_path_to_error::deserialize(toml::Value::Table(table.clone()))
        .map_err(|error| explain::explain(&error, &table, &source))?;
    Ok((value, source))
}

fn read_text(path: &Path, what: &str) -> Result<String, Diagnostic> {
    let bytes = altgrad_base::files::read(path).map_err(|error| unreadable(path, what, &error))?;
    decode(path, what, bytes)
}

/// [`load`] for a text that is in no file; `path` gives the default name, the folder of relative paths, and the places in messages.
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
    let mut config = read(table.clone(), source)?;
    resolve(&mut config, source)?;
    validate::validate(&config, source)?;
    casts_in_use::check(&config.quant, source)?;
    without_effect::refuse(&whole, &config, source)?;
    observe::check(&config.observe, source)?;
    if let Some(entries) = schedule {
        config.quant.schedule = cast_schedule::phases(entries, &table, &config, source)?;
    }
    Ok(config)
}

/// The types of a run file's table.
pub(super) fn read(table: Table, source: &Source) -> Result<RunConfig, Diagnostic> {
    serde_path_to_error::deserialize(toml::Value::Table(table.clone()))
        .map_err(|error| explain::explain(&error, &table, source))
}

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

/// Fills in the defaults that depend on other keys, and makes plugin paths independent of the file.
pub(super) fn resolve(config: &mut RunConfig, source: &Source) -> Result<(), Diagnostic> {
    if !source.is_written("run.name") {
        // A stem that is not Unicode stays empty, which `validate` refuses.
        config.run.name =
            source.path().file_stem().and_then(|stem| stem.to_str()).unwrap_or_default().to_owned();
    }

    let model = &mut config.model;
    let (n_layer, n_head, n_embd) = model.preset.unwrap_or(Preset::GptTiny).shape();
    for (key, field, preset) in [
        ("model.n_layer", &mut model.n_layer, n_layer),
        ("model.n_head", &mut model.n_head, n_head),
        ("model.n_embd", &mut model.n_embd, n_embd),
    ] {
        if !source.is_written(key) {
            *field = preset;
        }
    }

    let train = &mut config.train;
    match train.schedule {
        ScheduleChoice::Cosine => {
            train.decay_steps.get_or_insert(train.max_steps);
        }
        ScheduleChoice::Trapezoidal => {
            let room = train.max_steps.saturating_sub(train.warmup_steps);
            train.cooldown_steps.get_or_insert((train.max_steps / 5).min(room));
        }
        ScheduleChoice::Constant => {}
    }

    let quant = &mut config.quant;
    if quant.has_stored_scales() {
        let margin = match quant.stored_scale.rule {
            StoredScaleChoice::Fixed => 2,
            StoredScaleChoice::PowerOfTwo => 0,
            StoredScaleChoice::Dynamic => 1,
        };
        quant.stored_scale.margin.get_or_insert(margin);
    }

    resolve_plugins(&mut config.plugins, source)
}

fn resolve_plugins(plugins: &mut PluginsSection, source: &Source) -> Result<(), Diagnostic> {
    // An empty path would become the run file's folder; `validate` refuses it instead.
    if let Some(dir) = plugins.dir.as_mut().filter(|dir| !dir.is_empty()) {
        *dir = beside_run_file(dir, "plugins.dir", source)?;
    }
    for (index, plugin) in plugins.load.iter_mut().flatten().enumerate() {
        let is_path = plugin.is_path();
        let (target, key) = match plugin {
            PluginRef::Name(target) => (target, format!("plugins.load.{index}")),
            PluginRef::Pinned(pinned) => {
                pinned.sha256 = pinned.sha256.take().map(|hash| hash.to_ascii_lowercase());
                (&mut pinned.path, format!("plugins.load.{index}.path"))
            }
        };
        if is_path {
            *target = beside_run_file(target, &key, source)?;
        }
    }
    Ok(())
}

/// `written`, relative to the run file's folder, as an absolute path.
fn beside_run_file(written: &str, key: &str, source: &Source) -> Result<String, Diagnostic> {
    let joined = source.path().parent().unwrap_or(Path::new("")).join(written);
    std::path::absolute(joined)
        .map(PathBuf::into_os_string)
        .map_err(|error| format!("`{key}` cannot be made absolute: {error}"))
        .and_then(|path| {
            path.into_string().map_err(|_| format!("`{key}` lies in a folder whose path is not Unicode"))
        })
        .map_err(|message| Diagnostic::config(message).at(source.locate(key)))
}

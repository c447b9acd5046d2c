//! Defaults that depend on other keys, and plugin paths independent of the working directory.

use std::path::{Path, PathBuf};

use altgrad_base::diagnostic::Diagnostic;

use super::choices::{Preset, ScheduleChoice, StoredScaleChoice};
use super::plugin_ref::PluginRef;
use super::schema::{PluginsSection, RunConfig};
use super::source::Source;

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

//! Defaults that depend on other keys.

use super::choices::{Preset, ScheduleChoice, StoredScaleChoice};
use super::plugin_ref::PluginRef;
use super::schema::RunConfig;
use super::source::Source;

/// Fills in the defaults that depend on other keys.
pub(super) fn resolve(config: &mut RunConfig, source: &Source) {
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

    for plugin in config.plugins.load.iter_mut().flatten() {
        if let PluginRef::Pinned(pinned) = plugin {
            pinned.sha256 = pinned.sha256.take().map(|hash| hash.to_ascii_lowercase());
        }
    }
}

//! Keys without an effect beside other keys: almost always a misunderstanding, so they are refused.
//!
//! A key with its default value is not refused, because resolved files have every key. Nor is a key of a file, or of
//! its recipe, beside overrides, which may remove the key it belongs to.

use altgrad_base::diagnostic::Diagnostic;
use toml::{Table, Value};

use super::{
    choices::ScheduleChoice,
    depth::BlockCount,
    scaling::ScalingSection,
    schema::{RunConfig, TrainSection},
    source::{Place, Source},
};

/// A key, whether it has no effect, the reason, and the hint.
type Rule = (&'static str, bool, String, &'static str);

/// Refuses the first key of the run file that has no effect. `table` is the file with its overrides and its recipe.
pub(super) fn refuse(table: &Table, config: &RunConfig, source: &Source) -> Result<(), Diagnostic> {
    let is_own = |key: &str| match source.places.get(key) {
        Some(Place::Override(_)) => true,
        Some(Place::File { .. }) => source.overrides().is_empty(),
        Some(Place::Recipe { .. } | Place::Option(_)) | None => false,
    };
    let mut rules = [window(table, config), grad_rounding(table), min_lr(config)]
        .into_iter()
        .chain(blocks(config))
        .filter(|(key, is_idle, ..)| *is_idle && is_own(key));
    rules.next().map_or(Ok(()), |(key, _, why, hint)| {
        Err(Diagnostic::config(format!("`{key}` has no effect: {why}")).at(source.locate_key(key)).hint(hint))
    })
}

/// True if any key of the table, at any depth, is such.
fn any(table: &Table, is_such: &dyn Fn(&str, &Value) -> bool) -> bool {
    table.iter().any(|(key, value)| is_such(key, value) || in_value(value, is_such))
}

fn in_value(value: &Value, is_such: &dyn Fn(&str, &Value) -> bool) -> bool {
    match value {
        Value::Table(table) => any(table, is_such),
        Value::Array(list) => list.iter().any(|value| in_value(value, is_such)),
        _ => false,
    }
}

fn window(table: &Table, config: &RunConfig) -> Rule {
    let is_default = config.quant.scaling.window == ScalingSection::default().window;
    let is_delayed = any(table, &|key, value| key == "amax" && value.as_str() == Some("delayed"));
    let why = "no scale is made from the amax of past steps".to_owned();
    ("quant.scaling.window", !is_default && !is_delayed, why, "set amax = \"delayed\", or remove `window`")
}

fn grad_rounding(table: &Table) -> Rule {
    const FIRST: [&str; 3] = ["grad", "grad_wgrad", "weight_grad"];
    let is_format = |value: &Value| match value {
        Value::String(format) => format != "none",
        Value::Table(cast) => cast.contains_key("format"),
        _ => false,
    };
    // A written default has no meaning.
    let is_nearest =
        |key: &str, value: &Value| key == "grad_rounding" && value.as_str() == Some("nearest-even");
    let has_format =
        any(table, &is_nearest) || any(table, &|key, value| FIRST.contains(&key) && is_format(value));
    let why = "no gradient has a format".to_owned();
    ("quant.grad_rounding", !has_format, why, "set `quant.grad` to a format, or remove `grad_rounding`")
}

fn min_lr(config: &RunConfig) -> Rule {
    let train = &config.train;
    let is_constant =
        train.schedule == ScheduleChoice::Constant && train.min_lr != TrainSection::default().min_lr;
    let why = "the schedule is constant".to_owned();
    ("train.min_lr", is_constant, why, "choose another schedule, or remove `min_lr`")
}

fn blocks(config: &RunConfig) -> [Rule; 2] {
    let blocks = config.model.n_layer;
    let counts =
        [("quant.skip_first", &config.quant.skip_first), ("quant.skip_last", &config.quant.skip_last)];
    counts.map(|(key, count)| {
        let why = format!("it exceeds `model.n_layer`, which is {blocks}");
        (
            key,
            matches!(count, BlockCount::Blocks(count) if *count > blocks),
            why,
            "give a number of blocks or a share of them",
        )
    })
}

//! `[[quant.schedule]]`: each entry is laid over `[quant]`, and the whole is read as if it were a run file's, so that
//! it is resolved and refused by the same code.

use altgrad_base::diagnostic::{Diagnostic, closest};
use altgrad_metrics::{AlertKind, Due, alert};
use toml::{Table, Value};

use super::{
    CastPhase, CastTrigger, QuantSection, RunConfig, Threshold, casts_in_use, defaults, explain, parse,
    quant, recipe,
    source::{Source, join},
    validate,
};

const KEY: &str = "quant.schedule";
/// The key of the precision in a run file.
const PRECISION: &str = "train.precision";

/// Takes the entries out of a run file's table.
pub(super) fn take(table: &mut Table) -> Option<Value> {
    table.get_mut("quant")?.as_table_mut()?.remove("schedule")
}

/// The phases of the entries. `table` is the run file without them, `config` its values.
///
/// # Errors
/// An entry is refused, with its position.
pub(super) fn phases(
    entries: Value,
    table: &Table,
    config: &RunConfig,
    source: &Source,
) -> Result<Vec<CastPhase>, Diagnostic> {
    let refused = |message: String| Diagnostic::config(message).at(source.locate(KEY));
    let Value::Array(entries) = entries else {
        return Err(refused(format!("`{KEY}` must be an array of tables")).hint("write [[quant.schedule]]"));
    };
    let mut phases: Vec<CastPhase> = Vec::new();
    // Casts are compared without the name of their recipe.
    let mut config = config.clone();
    config.quant.from_recipe = None;
    for (index, entry) in entries.into_iter().enumerate() {
        let key = format!("{KEY}.{index}");
        let Value::Table(entry) = entry else {
            return Err(refused(format!("`{key}` must be a table")).hint("write [[quant.schedule]]"));
        };
        let entry = Entry { key, table: entry, source };
        phases.push(entry.phase(&phases, table, &config)?);
    }
    Ok(phases)
}

/// An entry of the schedule.
struct Entry<'a> {
    /// `quant.schedule.0`.
    key: String,
    table: Table,
    source: &'a Source,
}

impl Entry<'_> {
    fn refused(&self, key: &str, message: String, hint: &str) -> Diagnostic {
        let places = [join(&self.key, key), self.key.clone()];
        let places: Vec<&str> = places.iter().map(String::as_str).collect();
        Diagnostic::config(message).at(self.source.locate_first(&places)).hint(hint)
    }

    /// The phase, after those `before`.
    fn phase(
        mut self,
        before: &[CastPhase],
        table: &Table,
        config: &RunConfig,
    ) -> Result<CastPhase, Diagnostic> {
        let trigger = self.trigger(before, config)?;
        if self.table.contains_key("schedule") {
            let message = format!("unknown key `{}.schedule`", self.key);
            return Err(self.refused(
                "schedule",
                message,
                "an entry has no schedule of its own: write another entry",
            ));
        }
        let none = self.none()?;
        let precision = self.table.remove("precision");
        let read = self.read(table, none, precision)?;
        let phase = CastPhase { trigger, precision: read.train.precision, quant: read.quant };
        self.check_weights(&config.quant, &phase.quant)?;
        self.check_effect(before, &phase, config)?;
        Ok(phase)
    }

    /// True if the entry begins without casts rather than with those of `[quant]`.
    fn none(&mut self) -> Result<bool, Diagnostic> {
        let key = join(&self.key, "none");
        match self.table.remove("none") {
            None => Ok(false),
            Some(Value::Boolean(true)) if self.table.contains_key("recipe") => {
                let message = format!("`{key}` and `{}.recipe` exclude each other", self.key);
                Err(self.refused("none", message, "remove one of them"))
            }
            Some(Value::Boolean(true)) => Ok(true),
            Some(other) => {
                let message = format!("`{key}` must be true, found {}", explain::found(&other));
                Err(self.refused("none", message, "without `none`, the entry overrides keys of [quant]"))
            }
        }
    }

    fn trigger(&mut self, before: &[CastPhase], config: &RunConfig) -> Result<CastTrigger, Diagnostic> {
        match (self.table.remove("at"), self.table.remove("on")) {
            (Some(at), None) => self.step(&at, before, config.train.max_steps).map(CastTrigger::At),
            (None, Some(on)) => self.alert(&on, before, config).map(CastTrigger::On),
            _ => {
                let message = format!("`{}` needs either `at` or `on`", self.key);
                let hint = "at = 400, at = \"80%\" (of train.max_steps), or on = \"kurtosis\"";
                Err(self.refused("on", message, hint))
            }
        }
    }

    fn step(&self, at: &Value, before: &[CastPhase], max_steps: u64) -> Result<u64, Diagnostic> {
        let key = join(&self.key, "at");
        let step = match at {
            Value::Integer(step) => u64::try_from(*step).ok(),
            Value::String(text) => share(text, max_steps),
            _ => None,
        };
        let Some(step) = step else {
            let message = format!(
                "`{key}` must be a step, or a percentage of `train.max_steps`, found {}",
                explain::found(at)
            );
            return Err(self.refused("at", message, "write at = 400, or at = \"80%\""));
        };
        if step == 0 || step >= max_steps {
            let message =
                format!("`{key}` must be from step 1 to {}, found {step}", max_steps.saturating_sub(1));
            let hint = match (step, at) {
                (0, _) => "set casts that apply from the first step in [quant]",
                (_, Value::String(_)) => {
                    "shares are rounded up to whole steps: choose a smaller share, or more steps"
                }
                _ => "a run ends before train.max_steps; a share such as \"80%\" follows its length",
            };
            return Err(self.refused("at", message, hint));
        }
        let steps = before.iter().enumerate().rev();
        let last = steps.filter_map(|(index, phase)| match phase.trigger {
            CastTrigger::At(step) => Some((index, step)),
            CastTrigger::On(_) => None,
        });
        match last.max_by_key(|(_, step)| *step).filter(|(_, last)| *last >= step) {
            Some((index, last)) => {
                let message =
                    format!("`{key}` is step {step}, and `{KEY}.{index}` comes before it with step {last}");
                Err(self.refused("at", message, "sort the entries by step, with one entry per step"))
            }
            None => Ok(step),
        }
    }

    fn alert(&self, on: &Value, before: &[CastPhase], config: &RunConfig) -> Result<AlertKind, Diagnostic> {
        let key = join(&self.key, "on");
        let name = on.as_str().unwrap_or_default();
        let Some(kind) = quant::alert(name) else {
            let names: Vec<&str> = AlertKind::ALL.iter().map(|kind| kind.name()).collect();
            let hint = match closest(name, names.iter().copied()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("alerts are {}", names.join(", ")),
            };
            return Err(self.refused("on", format!("`{key}` names no alert: {}", explain::found(on)), &hint));
        };
        if let Some(index) = before.iter().position(|phase| phase.trigger == CastTrigger::On(kind)) {
            let message = format!("the alert `{name}` already triggers `{KEY}.{index}`");
            return Err(self.refused(
                "on",
                message,
                "an alert triggers one entry: name another alert, or remove this entry",
            ));
        }
        if let Some(why) = never_fires(kind, config) {
            let message = format!("`{key}`: the alert `{name}` never fires in this run");
            return Err(self.refused("on", message, &why));
        }
        Ok(kind)
    }

    /// The run file as it would be with the entry's casts for its own.
    fn read(&self, table: &Table, none: bool, precision: Option<Value>) -> Result<RunConfig, Diagnostic> {
        let mut source = self.source_of_casts();
        let read =
            self.whole(table, none, precision, &mut source).and_then(|whole| parse::values(whole, &source));
        let is_own = |key: &str| (key == PRECISION || key.starts_with("quant.")) && source.is_written(key);
        let checked = read.and_then(|mut config| {
            defaults::resolve(&mut config, &source);
            validate::validate_keys(&config, &source, is_own)?;
            casts_in_use::check(&config.quant, &source)?;
            Ok(config)
        });
        checked
            .map_err(|error| Diagnostic { message: format!("in `{}`: {}", self.key, error.message), ..error })
    }

    /// The run file's table with the entry's casts in place of `[quant]`. `source` learns of their recipe.
    fn whole(
        &self,
        table: &Table,
        none: bool,
        precision: Option<Value>,
        source: &mut Source,
    ) -> Result<Table, Diagnostic> {
        let names_recipe = self.table.contains_key("recipe");
        let mut whole = table.clone();
        let base = whole.insert("quant".into(), Value::Table(self.table.clone()));
        let general = train(&mut whole).and_then(|train| train.remove("precision"));
        let own = precision.map(|own| ("precision".to_owned(), own));
        train(&mut whole).into_iter().for_each(|train| train.extend(own.clone()));
        recipe::apply(&mut whole, source)?;
        // The schedule of the recipe, if it has one.
        drop(take(&mut whole));
        if let (Some(train), Some(general)) = (train(&mut whole), general) {
            train.entry("precision").or_insert(general);
        }
        if let (Some(Value::Table(base)), Some(Value::Table(own)), false) =
            (base, whole.get_mut("quant"), none || names_recipe)
        {
            recipe::lay_under(own, base, source);
        }
        // The run's is in [quant].
        if let Some(Value::Table(own)) = whole.get_mut("quant") {
            own.remove("from_recipe");
        }
        Ok(whole)
    }

    /// The source of the casts' keys, under their names in `[quant]`. Those of `[quant]` itself are checked already.
    fn source_of_casts(&self) -> Source {
        let mut source = self.source.clone();
        source.places.retain(|key, _| key != "quant" && !key.starts_with("quant.") && key != PRECISION);
        let inside = format!("{}.", self.key);
        for (key, place) in &self.source.places {
            let Some(below) = key.strip_prefix(&inside) else { continue };
            let key = if below == "precision" { PRECISION.to_owned() } else { format!("quant.{below}") };
            source.places.insert(key, place.clone());
        }
        source
    }

    /// Weights without master weights lie on the grids of their formats, so no entry changes how they are stored.
    fn check_weights(&self, base: &QuantSection, own: &QuantSection) -> Result<(), Diagnostic> {
        let is_same = base.stores_weights() == own.stores_weights()
            && (!base.stores_weights() || base.stored_scale == own.stored_scale);
        if is_same {
            return Ok(());
        }
        let message = format!(
            "`{}` changes how weights are stored, which cannot change during a run: without master weights they lie on the grids of their formats",
            self.key
        );
        let hint = "train with master_weights = \"fp32\", or let the entry keep master_weights, stored_scale and the weight's format";
        Err(self.refused("master_weights", message, hint))
    }

    /// Refuses casts that are in force already.
    fn check_effect(
        &self,
        before: &[CastPhase],
        phase: &CastPhase,
        config: &RunConfig,
    ) -> Result<(), Diagnostic> {
        let (mut alerts, mut in_force) = (false, (config.train.precision, &config.quant));
        for earlier in before {
            match earlier.trigger {
                CastTrigger::At(_) => in_force = (earlier.precision, &earlier.quant),
                CastTrigger::On(_) => alerts = true,
            }
        }
        // After an alert, going back is a change.
        if alerts || in_force != (phase.precision, &phase.quant) {
            return Ok(());
        }
        let message = format!("`{}` changes nothing: its casts are in force already", self.key);
        Err(self.refused("at", message, "say what it changes, none = true for no casts, or remove the entry"))
    }
}

/// The steps of a share such as `80%` or `32.2 %` of all, rounded up: in integers, because 32.2 % of 500 exceeds 161 in
/// f64.
fn share(text: &str, max_steps: u64) -> Option<u64> {
    /// Digits after the point at most.
    const DIGITS: usize = 9;
    let percent = text.strip_suffix('%')?.trim();
    let (whole, fraction) = percent.split_once('.').unwrap_or((percent, ""));
    let digits = format!("{whole}{fraction}");
    if fraction.len() > DIGITS || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let parts: u128 = digits.parse().ok()?;
    let all = 100 * 10u128.pow(fraction.len() as u32);
    let steps = parts.checked_mul(max_steps.into())?.div_ceil(all);
    (parts <= all).then(|| u64::try_from(steps).ok()).flatten()
}

/// The reason why an alert cannot fire in a run, if it cannot, as a hint.
fn never_fires(kind: AlertKind, config: &RunConfig) -> Option<String> {
    match kind {
        AlertKind::NanLoss | AlertKind::NanGrad => return None,
        AlertKind::Divergence => {
            let why = match (config.alerts.divergence_patience, config.train.eval_interval) {
                (0, _) => "set alerts.divergence_patience",
                (_, 0) => "there is no evaluation before the end: set train.eval_interval",
                _ => return None,
            };
            return Some(why.to_owned());
        }
        AlertKind::NoLearning => {
            return (config.alerts.no_learning_steps == 0).then(|| "set alerts.no_learning_steps".to_owned());
        }
        AlertKind::LossRise if config.alerts.threshold(kind) != Threshold::Off => return None,
        _ => {}
    }
    if config.alerts.threshold(kind) == Threshold::Off {
        return kind.threshold_key().map(|key| format!("set alerts.{key}"));
    }
    let metrics = alert::thresholds().into_iter().filter(|(_, alert)| alert.kind == kind);
    let measures = config.metrics;
    let unmeasured = |due: Due| match due {
        Due::Parameters if measures.every == 0 => Some("metrics.every"),
        Due::Attention if !measures.measures_attention() => Some("metrics.every and metrics.attention"),
        Due::Distributions if measures.histograms_every == 0 => Some("metrics.histograms_every"),
        Due::Kurtosis if !measures.measures_kurtosis() => Some("metrics.kurtosis_every"),
        Due::Ranks if measures.rank_every == 0 => Some("metrics.rank_every"),
        Due::ShadowSteps if config.shadow.every == 0 => Some("shadow.every"),
        _ => None,
    };
    // One measured metric is enough.
    let missing: Option<Vec<&str>> = metrics.map(|(definition, _)| unmeasured(definition.due)).collect();
    missing.map(|keys| format!("its metric is not measured: set {}", keys.join(" or ")))
}

/// `[train]` of a run file; `None` if something else has that name.
fn train(table: &mut Table) -> Option<&mut Table> {
    table.entry("train").or_insert_with(|| Value::Table(Table::new())).as_table_mut()
}

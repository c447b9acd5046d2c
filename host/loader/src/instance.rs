//! Instances of plugins: made from a run file's tables, called with plain slices.
//!
//! Every call's error becomes a [`Diagnostic`] that names the plugin, the call and the library.

use std::fmt;

use altgrad_base::diagnostic::{Diagnostic, Fault, closest};
use altgrad_plugin_api::{
    Alert, Config, ConfigValue, Conventions, Descriptor, ErrorKind, FormatSpec, OptionFault, ParamInfo,
    PluginError, PluginKind, QuantParams, QuantStats, RunInfo, RunOutcome, StateSpec, TensorView,
    TensorViewMut, ValueGrid,
    abi::{
        FormatObject, OptimizerObject, SinkObject,
        stable::std_types::{RResult, RSlice, RSliceMut, RVec},
    },
    format_config, format_id,
    sink::{Histogram, Metric},
};

use super::{
    Registry,
    calls::{self, Call, Marked},
};
use crate::{registry::Found, statistics, vet::Checked};

/// A run file's table for one plugin: its position, for messages, and its contents.
#[derive(Debug, Clone, Copy)]
pub struct OptionTable<'a> {
    /// Dotted key of the table: `optimizer`, `sink.0`.
    pub key: &'a str,
    /// The values, `name` left out.
    pub values: &'a toml::Table,
}

/// The name and origin of a plugin instance.
#[derive(Debug, Clone)]
pub struct Identity {
    /// Kind of the plugin.
    pub kind: PluginKind,
    /// The name the run file used.
    pub name: String,
    /// The plugin's own version.
    pub version: String,
    /// The library's absolute path.
    pub library: String,
    /// SHA-256 of the library's file, 64 hex digits.
    pub sha256: String,
    /// The result of the quick checks before it was used.
    pub checked: Checked,
}

impl Identity {
    fn new(found: &Found<'_>, name: &str) -> Self {
        Self {
            kind: found.descriptor.kind,
            name: name.to_string(),
            version: found.descriptor.version.to_string(),
            library: found.library.info.path.display().to_string(),
            sha256: found.library.info.sha256.clone(),
            checked: found.checked,
        }
    }

    /// The mark of its calls.
    fn mark(&self) -> calls::Plugin {
        calls::plugin(&self.name, &self.library)
    }

    /// Makes an instance.
    fn make<T>(&self, make: impl FnOnce() -> Result<T, PluginError>) -> Result<Marked<T>, PluginError> {
        let mark = self.mark();
        let made = {
            let _running = calls::enter(mark, Call::New);
            make()
        };
        made.map(|object| Marked::new(mark, object))
    }

    /// The diagnostic of a failed call.
    pub fn failure(&self, fault: Fault, error: &PluginError) -> Diagnostic {
        let diagnostic =
            Diagnostic::new(fault, format!("{} plugin `{}`: {}", self.kind, self.name, error.message))
                .at(&self.library);
        if error.hint.is_empty() { diagnostic } else { diagnostic.hint(error.hint.as_str()) }
    }

    /// The diagnostic of a failed call before the first step: a panic refuses the plugin.
    pub(super) fn start_failure<T>(&self, result: RResult<T, PluginError>) -> Result<T, Diagnostic> {
        result.into_result().map_err(|error| {
            let fault = if error.kind == ErrorKind::PANIC { Fault::Plugin } else { Fault::Run };
            self.failure(fault, &error)
        })
    }

    pub(super) fn run_failure<T>(&self, result: RResult<T, PluginError>) -> Result<T, Diagnostic> {
        result.into_result().map_err(|error| self.failure(Fault::Run, &error))
    }

    /// A refused constructor: an invalid option, set at `key` of the run file, is the user's error, any other error the
    /// plugin's.
    fn make_failure<T>(&self, result: Result<T, PluginError>, key: Option<&str>) -> Result<T, Diagnostic> {
        result.map_err(|error| match key.filter(|_| error.kind == ErrorKind::CONFIG) {
            Some(key) => self.failure(Fault::Config, &error).hint(format!("see `{key}` of the run file")),
            None => self.failure(Fault::Plugin, &error),
        })
    }
}

/// Checks a table against a plugin's options; an error includes the key, for its position.
///
/// # Errors
/// The first key that is unknown, of the wrong type or out of range.
pub fn resolve(descriptor: &Descriptor, table: OptionTable<'_>) -> Result<Config, (String, Diagnostic)> {
    let mut given = Vec::with_capacity(table.values.len());
    for (name, value) in table.values {
        let key = format!("{}.{name}", table.key);
        let value = config_value(value).ok_or_else(|| {
            let message = format!("`{key}` is of a type no plugin option has");
            (key, Diagnostic::config(message).hint("use a boolean, number, string or list of strings"))
        })?;
        given.push((name.clone(), value));
    }
    Config::resolve(&descriptor.options, given)
        .map_err(|fault| option_diagnostic(descriptor, table.key, fault))
}

fn option_diagnostic(descriptor: &Descriptor, table: &str, fault: OptionFault) -> (String, Diagnostic) {
    let key = format!("{table}.{}", fault.key);
    let names: Vec<&str> = descriptor.options.iter().map(|option| option.name.as_str()).collect();
    if !fault.unknown {
        let hint = format!("`plugins inspect` shows the options of {} `{}`", descriptor.kind, descriptor.id);
        return (key.clone(), Diagnostic::config(format!("`{key}` {}", fault.message)).hint(hint));
    }
    let known = format!("options of {} `{}`: {}", descriptor.kind, descriptor.id, names.join(", "));
    let hint = match closest(&fault.key, names.iter().copied()) {
        Some(name) => format!("did you mean `{name}`? {known}"),
        None if descriptor.kind == PluginKind::OPTIMIZER => {
            format!("{known}; options belong to one optimizer: set its name and its options together")
        }
        None => known,
    };
    (key.clone(), Diagnostic::config(format!("unknown key `{key}`")).hint(hint))
}

/// A TOML value as an option's value; `None` if no option has its type.
pub fn config_value(value: &toml::Value) -> Option<ConfigValue> {
    Some(match value {
        toml::Value::Boolean(value) => ConfigValue::Bool(*value),
        toml::Value::Integer(value) => ConfigValue::Integer(*value),
        toml::Value::Float(value) => ConfigValue::Float(*value),
        toml::Value::String(value) => ConfigValue::Text(value.as_str().into()),
        toml::Value::Array(values) => ConfigValue::TextList(
            values.iter().map(|value| value.as_str().map(Into::into)).collect::<Option<Vec<_>>>()?.into(),
        ),
        toml::Value::Datetime(_) | toml::Value::Table(_) => return None,
    })
}

/// A plugin's options as a table of the run file, defaults included.
#[must_use]
pub fn option_table(options: &Config) -> toml::Table {
    let entries = options.entries().iter();
    entries.map(|entry| (entry.name.to_string(), toml_value(&entry.value))).collect()
}

/// The options that are not the defaults.
fn chosen(descriptor: &Descriptor, options: &Config) -> toml::Table {
    let is_default = |name: &str, value: &toml::Value| {
        let declared = descriptor.options.iter().find(|option| option.name == name);
        declared.is_some_and(|option| toml_value(&option.default.into()) == *value)
    };
    option_table(options).into_iter().filter(|(name, value)| !is_default(name, value)).collect()
}

fn toml_value(value: &ConfigValue) -> toml::Value {
    match value {
        ConfigValue::Bool(value) => toml::Value::Boolean(*value),
        ConfigValue::Integer(value) => toml::Value::Integer(*value),
        ConfigValue::Float(value) => toml::Value::Float(*value),
        ConfigValue::Text(value) => toml::Value::String(value.to_string()),
        ConfigValue::TextList(values) => {
            toml::Value::Array(values.iter().map(|value| toml::Value::String(value.to_string())).collect())
        }
    }
}

/// The error of one key: the key, and the diagnostic.
pub type KeyedDiagnostic = (String, Diagnostic);

/// A number format that can be called.
pub struct FormatPlugin {
    /// Name and library.
    pub identity: Identity,
    /// The values of its codes.
    pub spec: FormatSpec,
    /// Its scaling target, and its thresholds of rounding to nearest; checked.
    pub conventions: Conventions,
    pub(super) object: Marked<FormatObject>,
}

/// Implemented by hand: the object that crosses has no `Debug`.
impl fmt::Debug for FormatPlugin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FormatPlugin").field("identity", &self.identity).field("spec", &self.spec).finish()
    }
}

impl FormatPlugin {
    /// Makes the format that a run file names at `key`: `NAME`, `NAME:VARIANT` or `NAME:KEY=VALUE,KEY=VALUE`.
    ///
    /// # Errors
    /// The name is unknown, an option is unknown or wrong, or the plugin refuses.
    pub fn make(registry: &Registry, key: &str, name: &str) -> Result<Self, KeyedDiagnostic> {
        let keyed = |diagnostic: Diagnostic| (key.to_string(), diagnostic);
        let name = altgrad_config::native_format(name);
        let id = format_id(name);
        let descriptor = registry.describe(PluginKind::FORMAT, id).map_err(|mut diagnostic| {
            diagnostic.message = format!("{} at `{key}`", diagnostic.message);
            keyed(diagnostic)
        })?;
        let config = format_config(&descriptor.options, name).map_err(
            |OptionFault { key: option, message, unknown }| {
                let why = match option.as_str() {
                    "variant" if unknown => "has no variants".to_string(),
                    _ if unknown => format!("has no option `{option}`"),
                    _ => format!("{option} {message}"),
                };
                let options: Vec<&str> =
                    descriptor.options.iter().map(|option| option.name.as_str()).collect();
                let hint = match options.iter().any(|name| *name != "variant") {
                    true => {
                        format!("write `{id}` for the default options; its options: {}", options.join(", "))
                    }
                    false => format!("write `{id}` for the default variant"),
                };
                keyed(Diagnostic::config(format!("format `{name}` at `{key}`: {id} {why}")).hint(hint))
            },
        )?;
        let found = registry.load(PluginKind::FORMAT, (id, name), &toml::Table::new()).map_err(keyed)?;
        let identity = Identity::new(&found, name);
        let made = identity.make(|| found.library.format_object(id, &config));
        // Without options a refusal is the plugin's fault.
        let object = identity.make_failure(made, (id != name).then_some(key)).map_err(keyed)?;
        let spec = object.call(Call::Spec, |object| object.spec().into_result());
        let spec = identity.make_failure(spec, None).map_err(keyed)?;
        let conventions = object.call(Call::Conventions, |object| object.conventions().into_result());
        let conventions = identity.make_failure(conventions, None).map_err(keyed)?;
        let checked = ValueGrid::new(&spec).and_then(|values| conventions.check(&values));
        checked.map_err(|error| keyed(identity.failure(Fault::Plugin, &error)))?;
        Ok(Self { identity, spec, conventions, object })
    }

    /// Rounds `src` to the grid, into `dst`; see [`altgrad_plugin_api::Format::fake_quant`].
    ///
    /// # Errors
    /// [`Fault::Run`]: the lengths differ, or the plugin failed.
    pub fn fake_quant(
        &self,
        src: &[f32],
        dst: &mut [f32],
        params: &QuantParams<'_>,
        histogram: &mut [u64],
    ) -> Result<QuantStats, Diagnostic> {
        let (src_shape, dst_shape) = ([src.len() as u64], [dst.len() as u64]);
        let views =
            TensorView::new(src, &src_shape).and_then(|src| Ok((src, TensorViewMut::new(dst, &dst_shape)?)));
        let (src, dst) = views.map_err(|error| self.identity.failure(Fault::Run, &error))?;
        let histogram = RSliceMut::from_mut_slice(histogram);
        let call = |object: &FormatObject| object.fake_quant(src, dst, params, histogram);
        let stats = self.identity.run_failure(self.object.call(Call::FakeQuant, call))?;
        match statistics::impossible(&stats, src_shape[0], params.scales.pairs.as_slice()) {
            None => Ok(stats),
            Some(what) => {
                let error =
                    PluginError::new(ErrorKind::VALUE, format!("its statistics are impossible: {what}"));
                Err(self.identity.failure(Fault::Run, &error).hint("`altgrad-host plugins check` says more"))
            }
        }
    }
}

/// An optimizer that can be called.
pub struct OptimizerPlugin {
    /// Name and library.
    pub identity: Identity,
    /// Its hyper-parameters, defaults filled in.
    pub config: Config,
    pub(super) object: Marked<OptimizerObject>,
}

impl OptimizerPlugin {
    /// Makes the optimizer `name` from its table.
    ///
    /// # Errors
    /// The name or an option is unknown or wrong, or the plugin refuses.
    pub fn make(registry: &Registry, name: &str, table: OptionTable<'_>) -> Result<Self, KeyedDiagnostic> {
        let keyed = |diagnostic| (format!("{}.name", table.key), diagnostic);
        let descriptor = registry.describe(PluginKind::OPTIMIZER, name).map_err(keyed)?;
        let config = resolve(descriptor, table)?;
        let chosen = chosen(descriptor, &config);
        let found = registry.load(PluginKind::OPTIMIZER, (name, name), &chosen).map_err(keyed)?;
        let identity = Identity::new(&found, name);
        let made = identity.make(|| found.library.optimizer_object(name, &config));
        let object = identity.make_failure(made, Some(table.key)).map_err(keyed)?;
        Ok(Self { identity, config, object })
    }

    /// The state buffers of a parameter.
    ///
    /// # Errors
    /// The plugin failed.
    pub fn states(&self, param: &ParamInfo<'_>) -> Result<Vec<StateSpec>, Diagnostic> {
        let states = self.object.call(Call::States, |object| object.states(param));
        Ok(self.identity.start_failure(states)?.into_vec())
    }
}

/// A sink that can be called, from its own thread.
pub struct SinkPlugin {
    /// Name and library.
    pub identity: Identity,
    /// Its options, defaults filled in.
    pub config: Config,
    object: Marked<SinkObject>,
}

impl SinkPlugin {
    /// Makes the sink `name` from its table.
    ///
    /// # Errors
    /// The name or an option is unknown or wrong, or the plugin refuses.
    pub fn make(registry: &Registry, name: &str, table: OptionTable<'_>) -> Result<Self, KeyedDiagnostic> {
        let keyed = |diagnostic| (format!("{}.name", table.key), diagnostic);
        let descriptor = registry.describe(PluginKind::SINK, name).map_err(keyed)?;
        let config = resolve(descriptor, table)?;
        let chosen = chosen(descriptor, &config);
        let found = registry.load(PluginKind::SINK, (name, name), &chosen).map_err(keyed)?;
        let identity = Identity::new(&found, name);
        let made = identity.make(|| found.library.sink_object(name, &config));
        let object = identity.make_failure(made, Some(table.key)).map_err(keyed)?;
        Ok(Self { identity, config, object })
    }

    /// Begins a run. Returns the sink's message if rows that `run.state` counts are missing.
    ///
    /// # Errors
    /// The plugin failed.
    pub fn open(&mut self, run: &RunInfo<'_>) -> Result<Option<String>, Diagnostic> {
        let mut open = |run| self.object.call_mut(Call::Open, |object| object.open(run));
        let (result, gap) = match open(run) {
            RResult::RErr(error) if error.kind == ErrorKind::GAP => {
                let unverified = RunInfo { state: RSlice::EMPTY, ..*run };
                (open(&unverified), Some(error.message.into_string()))
            }
            result => (result, None),
        };
        self.identity.start_failure(result).map(|()| gap)
    }

    /// Passes one row.
    ///
    /// # Errors
    /// The plugin failed.
    pub fn log(&mut self, step: u64, metrics: &[Metric<'_>]) -> Result<(), Diagnostic> {
        let result = self.object.call_mut(Call::Log, |object| object.log(step, RSlice::from_slice(metrics)));
        self.identity.run_failure(result)
    }

    /// Passes an event.
    ///
    /// # Errors
    /// The plugin failed.
    pub fn alert(&mut self, alert: &Alert<'_>) -> Result<(), Diagnostic> {
        let result = self.object.call_mut(Call::Alert, |object| object.alert(alert));
        self.identity.run_failure(result)
    }

    /// Passes a distribution.
    ///
    /// # Errors
    /// The plugin failed.
    pub fn histogram(&mut self, step: u64, histogram: &Histogram<'_>) -> Result<(), Diagnostic> {
        let result = self.object.call_mut(Call::Histogram, |object| object.histogram(step, histogram));
        self.identity.run_failure(result)
    }

    /// The state of the sink for a checkpoint.
    ///
    /// # Errors
    /// The plugin failed.
    pub fn state(&mut self) -> Result<Vec<u8>, Diagnostic> {
        let result = self.object.call_mut(Call::State, |object| object.state().map(RVec::into_vec));
        self.identity.run_failure(result)
    }

    /// Passes the closing values.
    ///
    /// # Errors
    /// The plugin failed.
    pub fn summary(&mut self, metrics: &[Metric<'_>]) -> Result<(), Diagnostic> {
        let result =
            self.object.call_mut(Call::Summary, |object| object.summary(RSlice::from_slice(metrics)));
        self.identity.run_failure(result)
    }

    /// Ends the run.
    ///
    /// # Errors
    /// The plugin failed.
    pub fn finish(&mut self, outcome: RunOutcome) -> Result<(), Diagnostic> {
        let result = self.object.call_mut(Call::Finish, |object| object.finish(outcome));
        self.identity.run_failure(result)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_of_another_optimizer_is_refused_with_a_remedy() {
        let values = toml::Table::from_iter([("beta1".to_string(), toml::Value::Float(0.9))]);
        let refused = |descriptor: Descriptor| {
            let (key, diagnostic) =
                resolve(&descriptor, OptionTable { key: "it", values: &values }).unwrap_err();
            assert_eq!(key, "it.beta1");
            diagnostic.hint.unwrap_or_default()
        };
        let optimizer = refused(Descriptor::optimizer("sgd", "1", "s"));
        assert!(
            optimizer.ends_with("; options belong to one optimizer: set its name and its options together")
        );
        assert_eq!(refused(Descriptor::sink("csv", "1", "s")), "options of sink `csv`: ");
    }

    #[test]
    fn a_refused_option_is_the_users_error_and_any_other_error_the_plugins() {
        let identity = Identity {
            kind: PluginKind::FORMAT,
            name: "INT2".into(),
            version: "1".into(),
            library: "int2.so".into(),
            sha256: String::new(),
            checked: Checked::Unchecked,
        };
        let fault =
            |error: PluginError, key| identity.make_failure(Err::<(), _>(error), key).map_err(|it| it.fault);
        let wrong = || PluginError::config("no such variant");
        assert_eq!(fault(wrong(), Some("quant.weight")), Err(Fault::Config));
        assert_eq!(fault(wrong(), None), Err(Fault::Plugin));
        assert_eq!(fault(PluginError::unsupported("no"), Some("quant.weight")), Err(Fault::Plugin));
    }
}

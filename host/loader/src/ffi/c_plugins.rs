//! The tables of optimizers and sinks in C (`plugin-api/include/altgrad_plugin.h`): read once into owned values, called
//! with slices. See also: [`c_table`](super::c_table), which reads the library's table and those of formats.

use std::{
    ffi::{CString, c_char, c_void},
    ptr,
};

use altgrad_plugin_api::{
    Config, ConfigValue, Descriptor, Metric, OptionSpec, ParamInfo, PluginError, PluginKind, RunInfo,
    StepScalars,
};

use super::c_memory::{CError, TableFault, array, called, counted, growing, text};

/// `altgrad_option`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(super) struct COption {
    pub(super) name: *const c_char,
    pub(super) help: *const c_char,
    pub(super) text: *const c_char,
    pub(super) number: f64,
    pub(super) least: f64,
    pub(super) most: f64,
    pub(super) kind: u64,
}

/// `altgrad_value`.
#[repr(C)]
#[derive(Debug)]
pub(super) struct CValue {
    pub(super) number: f64,
    pub(super) text: *const c_char,
}

/// `altgrad_param`.
#[repr(C)]
#[derive(Debug)]
pub(super) struct CParam {
    pub(super) name: *const c_char,
    pub(super) shape: *const u64,
    pub(super) rank: u64,
}

/// `altgrad_run`.
#[repr(C)]
#[derive(Debug)]
pub(super) struct CRun {
    pub(super) name: *const c_char,
    pub(super) folder: *const c_char,
    pub(super) config_toml: *const c_char,
    pub(super) resume_step: u64,
    pub(super) resumes: u64,
}

/// `altgrad_metric`.
#[repr(C)]
#[derive(Debug)]
pub(super) struct CMetric {
    pub(super) name: *const c_char,
    pub(super) value: f64,
    pub(super) timing: u64,
}

type CreateFn = unsafe extern "C" fn(*const CValue, *mut *mut c_void, *mut CError) -> i32;
type DestroyFn = unsafe extern "C" fn(*mut c_void);
type StepFn = unsafe extern "C" fn(
    *mut c_void,
    *const CParam,
    *mut f32,
    *const f32,
    *const *mut f32,
    u64,
    *const StepScalars,
    *mut CError,
) -> i32;
type OpenFn = unsafe extern "C" fn(*mut c_void, *const CRun, *mut CError) -> i32;
type LogFn = unsafe extern "C" fn(*mut c_void, u64, *const CMetric, u64, *mut CError) -> i32;
type SummaryFn = unsafe extern "C" fn(*mut c_void, *const CMetric, u64, *mut CError) -> i32;
type FinishFn = unsafe extern "C" fn(*mut c_void, u32, *mut CError) -> i32;

/// `altgrad_optimizer_v1`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(super) struct Optimizer {
    pub(super) struct_size: u32,
    pub(super) elementwise: u32,
    pub(super) id: *const c_char,
    pub(super) version: *const c_char,
    pub(super) summary: *const c_char,
    pub(super) options: *const COption,
    pub(super) option_count: u32,
    pub(super) state_count: u32,
    pub(super) states: *const *const c_char,
    pub(super) create: Option<CreateFn>,
    pub(super) destroy: Option<DestroyFn>,
    pub(super) step: Option<StepFn>,
}

/// `altgrad_sink_v1`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(super) struct Sink {
    pub(super) struct_size: u32,
    pub(super) option_count: u32,
    pub(super) id: *const c_char,
    pub(super) version: *const c_char,
    pub(super) summary: *const c_char,
    pub(super) options: *const COption,
    pub(super) create: Option<CreateFn>,
    pub(super) destroy: Option<DestroyFn>,
    pub(super) open: Option<OpenFn>,
    pub(super) log: Option<LogFn>,
    pub(super) summarize: Option<SummaryFn>,
    pub(super) finish: Option<FinishFn>,
}

/// An optimizer as a C library describes it.
#[derive(Debug, Clone, Copy)]
pub struct COptimizer {
    /// Name, version, options.
    pub descriptor: Descriptor,
    /// Names of its states, each with a number per element.
    pub states: &'static [&'static str],
    /// True if elements are updated alone.
    pub elementwise: bool,
    create: Option<CreateFn>,
    destroy: Option<DestroyFn>,
    step: StepFn,
}

/// A sink as a C library describes it.
#[derive(Debug, Clone, Copy)]
pub struct CSink {
    /// Name, version, options.
    pub descriptor: Descriptor,
    create: Option<CreateFn>,
    destroy: Option<DestroyFn>,
    open: OpenFn,
    log: LogFn,
    summarize: Option<SummaryFn>,
    finish: FinishFn,
}

/// An instance of a plugin in C.
#[derive(Debug)]
pub struct CInstance {
    pointer: *mut c_void,
    destroy: Option<DestroyFn>,
}

// SAFETY: the header demands of an optimizer that its functions are called on any thread, several at once, and of a
// sink on any thread; nothing here follows the pointer.
unsafe impl Send for CInstance {}
// SAFETY: as above.
unsafe impl Sync for CInstance {}

impl Drop for CInstance {
    fn drop(&mut self) {
        if let Some(destroy) = self.destroy {
            // SAFETY: the library's own instance, destroyed once and not used afterwards.
            unsafe { destroy(self.pointer) };
        }
    }
}

/// The declared options; they are never freed, as a library's are not.
pub(super) fn options(first: *const COption, count: u32) -> Result<&'static [OptionSpec], TableFault> {
    let all = array(first, counted(count, "options")?, "its options")?;
    let spec = |option: &COption| {
        let (name, help) = (text(option.name, "name")?, text(option.help, "help")?);
        let spec = match option.kind {
            1 if option.number.is_nan() => return Err(format!("the default of `{name}` is NaN")),
            1 => OptionSpec::float(name, option.number),
            2 => OptionSpec::integer(name, option.number as i64),
            3 => OptionSpec::bool(name, option.number != 0.0),
            4 => OptionSpec::text(name, text(option.text, "text")?),
            other => return Err(format!("option `{name}` is of type {other}, which there is not")),
        };
        let spec = if option.least < option.most { spec.range(option.least, option.most) } else { spec };
        Ok(spec.help(help))
    };
    let specs: Vec<OptionSpec> = all.iter().map(spec).collect::<Result<_, TableFault>>()?;
    Ok(specs.leak())
}

fn function<T>(function: Option<T>, name: &str) -> Result<T, TableFault> {
    function.ok_or_else(|| format!("it has no function `{name}`"))
}

impl COptimizer {
    pub(super) fn read(table: *const Optimizer) -> Result<Self, TableFault> {
        let (table, _) = growing(table, size_of::<Optimizer>(), "its table")?;
        let names = array(table.states, counted(table.state_count, "states")?, "its states")?;
        let names = names.iter().map(|&name| text(name, "state")).collect::<Result<Vec<_>, _>>()?;
        let [id, version, summary] = head([table.id, table.version, table.summary])?;
        let descriptor = Descriptor::new(PluginKind::OPTIMIZER, id, version, summary);
        Ok(Self {
            descriptor: descriptor.options(options(table.options, table.option_count)?),
            states: names.leak(),
            elementwise: table.elementwise != 0,
            create: table.create,
            destroy: table.destroy,
            step: function(table.step, "step")?,
        })
    }

    /// A new instance.
    ///
    /// # Errors
    /// The library's own.
    pub fn make(&self, config: &Config) -> Result<CInstance, PluginError> {
        made(self.create, self.destroy, &self.descriptor, config)
    }

    /// Updates elements of a parameter and of its states. Shapes: all `[n]`.
    ///
    /// # Errors
    /// The library's own, or lengths differ.
    pub fn step(
        &self,
        instance: &CInstance,
        info: &ParamInfo<'_>,
        (values, grad): (&mut [f32], &[f32]),
        states: &mut [&mut [f32]],
        scalars: &StepScalars,
    ) -> Result<(), PluginError> {
        let count = values.len();
        if grad.len() != count
            || states.len() != self.states.len()
            || states.iter().any(|state| state.len() != count)
        {
            return Err(PluginError::shape(format!(
                "step: parameter, gradient and states need {count} elements"
            )));
        }
        let name = c_text(&info.name);
        let param = CParam { name: name.as_ptr(), shape: info.shape.as_ptr(), rank: info.shape.len() as u64 };
        let states: Vec<*mut f32> = states.iter_mut().map(|state| state.as_mut_ptr()).collect();
        let (values, grad, states) = (values.as_mut_ptr(), grad.as_ptr(), states.as_ptr());
        called("step", |error| {
            // SAFETY: `count` elements are behind each pointer, those that may be written are borrowed mutably and do
            // not overlap, and all live until the call returns; the header forbids everything else.
            unsafe {
                (self.step)(
                    instance.pointer,
                    &raw const param,
                    values,
                    grad,
                    states,
                    count as u64,
                    scalars,
                    error,
                )
            }
        })
    }
}

impl CSink {
    pub(super) fn read(table: *const Sink) -> Result<Self, TableFault> {
        let (table, _) = growing(table, size_of::<Sink>(), "its table")?;
        let [id, version, summary] = head([table.id, table.version, table.summary])?;
        let descriptor = Descriptor::new(PluginKind::SINK, id, version, summary);
        Ok(Self {
            descriptor: descriptor.options(options(table.options, table.option_count)?),
            create: table.create,
            destroy: table.destroy,
            open: function(table.open, "open")?,
            log: function(table.log, "log")?,
            summarize: table.summarize,
            finish: function(table.finish, "finish")?,
        })
    }

    /// A new instance.
    ///
    /// # Errors
    /// The library's own.
    pub fn make(&self, config: &Config) -> Result<CInstance, PluginError> {
        made(self.create, self.destroy, &self.descriptor, config)
    }

    /// Begins a run.
    ///
    /// # Errors
    /// The library's own.
    pub fn open(&self, instance: &mut CInstance, run: &RunInfo<'_>) -> Result<(), PluginError> {
        let [name, folder, config_toml] = [run.name, run.folder, run.config_toml].map(|text| c_text(&text));
        let run = CRun {
            name: name.as_ptr(),
            folder: folder.as_ptr(),
            config_toml: config_toml.as_ptr(),
            resume_step: run.resume_step.unwrap_or(0),
            resumes: u64::from(run.resume_step.is_some()),
        };
        // SAFETY: the texts live until the call returns.
        called("open", |error| unsafe { (self.open)(instance.pointer, &raw const run, error) })
    }

    /// Writes one row.
    ///
    /// # Errors
    /// The library's own.
    pub fn log(
        &self,
        instance: &mut CInstance,
        step: u64,
        metrics: &[Metric<'_>],
    ) -> Result<(), PluginError> {
        with_metrics(metrics, |first, count| {
            // SAFETY: `count` metrics are there, with their names, until the call returns.
            called("log", |error| unsafe { (self.log)(instance.pointer, step, first, count, error) })
        })
    }

    /// Writes the closing values, if the sink does.
    ///
    /// # Errors
    /// The library's own.
    pub fn summarize(&self, instance: &mut CInstance, metrics: &[Metric<'_>]) -> Result<(), PluginError> {
        let Some(summarize) = self.summarize else { return Ok(()) };
        with_metrics(metrics, |first, count| {
            // SAFETY: as in `log`.
            called("summarize", |error| unsafe { summarize(instance.pointer, first, count, error) })
        })
    }

    /// Ends a run.
    ///
    /// # Errors
    /// The library's own.
    pub fn finish(&self, instance: &mut CInstance, outcome: u32) -> Result<(), PluginError> {
        // SAFETY: the library's own instance.
        called("finish", |error| unsafe { (self.finish)(instance.pointer, outcome, error) })
    }
}

fn head(texts: [*const c_char; 3]) -> Result<[&'static str; 3], TableFault> {
    let [id, version, summary] = texts;
    Ok([text(id, "id")?, text(version, "version")?, text(summary, "summary")?])
}

/// A new instance, from a value for each declared option in order.
///
/// # Errors
/// An option is missing or of another type; or the library's own.
fn made(
    create: Option<CreateFn>,
    destroy: Option<DestroyFn>,
    descriptor: &Descriptor,
    config: &Config,
) -> Result<CInstance, PluginError> {
    let mut pointer = ptr::null_mut();
    let Some(create) = create else { return Ok(CInstance { pointer, destroy: None }) };
    with_values(&descriptor.options, config, |values| {
        // SAFETY: a value of its type for each declared option is there, with its text, until the call returns.
        called("create", |error| unsafe { create(values, &raw mut pointer, error) })
    })??;
    Ok(CInstance { pointer, destroy })
}

/// Calls with a value for each option, in order.
///
/// # Errors
/// An option is missing or of another type.
pub(super) fn with_values<R>(
    options: &[OptionSpec],
    config: &Config,
    call: impl FnOnce(*const CValue) -> R,
) -> Result<R, PluginError> {
    let mut texts = Vec::new();
    let mut values = Vec::new();
    for option in options {
        let (name, mut text) = (option.name.as_str(), None);
        let number = match ConfigValue::from(option.default) {
            ConfigValue::Bool(_) => f64::from(u8::from(config.bool(name)?)),
            ConfigValue::Integer(_) => config.integer(name)? as f64,
            ConfigValue::Float(_) => config.float(name)?,
            ConfigValue::Text(_) | ConfigValue::TextList(_) => {
                text = Some(c_text(config.text(name)?));
                0.0
            }
        };
        values.push(CValue { number, text: text.as_ref().map_or(ptr::null(), |text| text.as_ptr()) });
        texts.extend(text);
    }
    Ok(call(values.as_ptr()))
}

/// Calls with a row in C.
fn with_metrics<R>(metrics: &[Metric<'_>], call: impl FnOnce(*const CMetric, u64) -> R) -> R {
    let names: Vec<CString> = metrics.iter().map(|metric| c_text(&metric.name.name)).collect();
    let row: Vec<CMetric> = metrics
        .iter()
        .zip(&names)
        .map(|(metric, name)| CMetric {
            name: name.as_ptr(),
            value: metric.value,
            timing: u64::from(metric.name.timing),
        })
        .collect();
    call(row.as_ptr(), row.len() as u64)
}

/// A text closed by a zero; what comes after a zero in it is left out.
fn c_text(text: &str) -> CString {
    let end = text.find('\0').unwrap_or(text.len());
    CString::new(&text[..end]).unwrap_or_default()
}

//! Formats on arrays: values, codes, and the values of codes.

use std::{path::PathBuf, sync::Arc};

use altgrad_base::diagnostic::Diagnostic;
use altgrad_casts::{Range, Scaling};
use altgrad_config::{PluginsSection, RoundingChoice};
use altgrad_loader::{FormatPlugin, Registry, rounding_mode};
use altgrad_plugin_api::{
    Blocks, Descriptor, FormatSpec, PluginKind, QuantParams, QuantStats, RandomKey, Scales, ValueGrid,
    format_id,
};
use pyo3::{exceptions::PyValueError, prelude::*, types::PyDict};

use crate::{
    errors::exception,
    ffi::{Source, Target},
    parts,
};

/// Plugin libraries: those of a folder, or those of a list.
#[pyclass(frozen)]
pub(crate) struct Plugins {
    registry: Registry,
}

#[pymethods]
impl Plugins {
    /// Describes the libraries; none of their code runs yet.
    #[new]
    #[pyo3(signature = (folder=None, load=None))]
    fn new(folder: Option<PathBuf>, load: Option<Vec<String>>) -> PyResult<Self> {
        let load = load.map(|paths| paths.into_iter().map(toml::Value::String).collect::<Vec<_>>());
        let mut table = toml::Table::new();
        table.extend(folder.map(|folder| ("dir".to_owned(), folder.display().to_string().into())));
        table.extend(load.map(|load| ("load".to_owned(), toml::Value::Array(load))));
        let section: PluginsSection =
            table.try_into().map_err(|error: toml::de::Error| PyValueError::new_err(error.to_string()))?;
        Registry::open(&section).map(|registry| Self { registry }).map_err(exception)
    }

    /// Kind and name of every plugin.
    fn names(&self) -> Vec<(String, String)> {
        let kinds = [PluginKind::FORMAT, PluginKind::OPTIMIZER, PluginKind::SINK];
        let of = |kind| self.registry.names(kind).map(move |name| (kind_name(kind), name.to_owned()));
        kinds.into_iter().flat_map(of).collect()
    }

    /// Variants of a format.
    fn variants(&self, name: &str) -> PyResult<Vec<String>> {
        self.registry.describe(PluginKind::FORMAT, name).map(variants).map_err(exception)
    }

    /// Makes a format; `name` may have a variant: `E3M4:ieee`.
    fn format(&self, py: Python<'_>, name: &str) -> PyResult<Format> {
        py.detach(|| {
            let name = altgrad_config::native_format(name);
            let plugin = FormatPlugin::make(&self.registry, "name", name).map_err(|(_, error)| error)?;
            let id = format_id(name);
            let summary = self.registry.describe(PluginKind::FORMAT, id)?.summary.to_string();
            let values = plugin.values()?;
            Ok(Format { plugin: Arc::new(plugin), values, summary })
        })
        .map_err(exception)
    }
}

fn kind_name(kind: PluginKind) -> String {
    kind.to_string()
}

fn variants(descriptor: &Descriptor) -> Vec<String> {
    let variant = descriptor.options.iter().find(|option| option.name == "variant");
    let choices = variant.into_iter().flat_map(|option| option.choices.iter());
    choices.filter(|choice| !choice.is_empty()).map(ToString::to_string).collect()
}

/// A number format.
#[pyclass(frozen)]
pub(crate) struct Format {
    pub(crate) plugin: Arc<FormatPlugin>,
    values: ValueGrid,
    summary: String,
}

/// Scales and blocks as Python passes them: the array is `slabs` matrices of `columns` columns, cut into blocks.
#[derive(FromPyObject)]
pub(crate) struct Blocking {
    #[pyo3(item)]
    slabs: usize,
    #[pyo3(item)]
    columns: u64,
    #[pyo3(item)]
    block_rows: u64,
    #[pyo3(item)]
    block_columns: u64,
}

/// Seed, step and tensor of stochastic rounding.
type Key = (u64, u64, u64);

/// Pairs of scales and their inverses.
fn pairs(scales: &[f32]) -> PyResult<Vec<[f32; 2]>> {
    let pair = |scale: &f32| {
        let inverse = 1.0 / scale;
        if *scale > 0.0 && scale.is_finite() && inverse.is_finite() {
            Ok([*scale, inverse])
        } else {
            Err(PyValueError::new_err(format!(
                "scales must be positive and finite, and so must their inverses; one is {scale}"
            )))
        }
    };
    scales.iter().map(pair).collect()
}

impl Blocking {
    /// The scales of each slab of `elements` elements.
    fn slabs<'a>(&self, pairs: &'a [[f32; 2]], elements: usize) -> PyResult<Vec<Scales<'a>>> {
        let blocks =
            Blocks { columns: self.columns, block_rows: self.block_rows, block_columns: self.block_columns };
        if elements == 0 {
            return Ok(vec![Scales::ONE]);
        }
        let slabs = self.slabs.max(1);
        let each = elements / slabs;
        let count = blocks.count(each as u64) as usize;
        if pairs.len() != count * slabs || !elements.is_multiple_of(slabs) {
            let message = format!("{} scales for {} blocks", pairs.len(), count * slabs);
            return Err(PyValueError::new_err(message));
        }
        Ok((0..slabs).map(|slab| Scales::new(&pairs[slab * count..(slab + 1) * count], blocks)).collect())
    }
}

/// A call's parameters: rounding and key.
fn params<'a>(rounding: &str, key: Key) -> PyResult<QuantParams<'a>> {
    let choice: RoundingChoice = rounding.parse().map_err(|_| {
        let known = RoundingChoice::NAMES.join(", ");
        PyValueError::new_err(format!("rounding `{rounding}` is none of {known}"))
    })?;
    let (seed, step, tensor) = key;
    if step >> 32 != 0 || tensor >> 32 != 0 {
        return Err(PyValueError::new_err("step and tensor of a key must be below 2^32"));
    }
    let key = RandomKey { seed, step, tensor, offset: 0 };
    Ok(QuantParams { rounding: rounding_mode(choice), key, ..QuantParams::IDENTITY })
}

/// Refuses results of another length.
fn check_lengths(source: usize, target: usize) -> PyResult<()> {
    if source == target {
        Ok(())
    } else {
        Err(PyValueError::new_err(format!("{target} results for {source} elements")))
    }
}

#[pymethods]
impl Format {
    /// The format's properties: a dictionary.
    fn info<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let (values, plugin) = (&self.values, &self.plugin);
        let info = PyDict::new(py);
        info.set_item("name", &plugin.identity.name)?;
        info.set_item("bits", values.codes().ilog2())?;
        info.set_item("largest", values.max_finite())?;
        info.set_item("smallest", values.min_positive())?;
        info.set_item("amax_target", plugin.conventions.target(values))?;
        info.set_item("summary", &self.summary)?;
        info.set_item("version", &plugin.identity.version)?;
        info.set_item("library", &plugin.identity.library)?;
        info.set_item("sha256", &plugin.identity.sha256)?;
        if let FormatSpec::Minifloat(float) = &plugin.spec {
            info.set_item("exponent_bits", float.exponent_bits)?;
            info.set_item("significand_bits", float.significand_bits)?;
            info.set_item("bias", float.bias)?;
            info.set_item("domain", float.domain.name())?;
        }
        Ok(info)
    }

    /// The value of every code, into an array of 2^bits f32.
    fn table(&self, py: Python<'_>, target: &Bound<'_, PyAny>) -> PyResult<()> {
        let none = Source::<f32>::new(target)?;
        let length = none.elements().len();
        drop(none);
        check_lengths(self.values.codes(), length)?;
        let decoded = py.detach(|| self.plugin.decode_all(&self.values)).map_err(exception)?;
        let empty = pyo3::types::PyBytes::new(py, &[]);
        let mut target = Target::<f32>::new(target, &Source::<u8>::new(&empty)?)?;
        target.elements().copy_from_slice(&decoded);
        Ok(())
    }

    /// The scales of blocks with these largest magnitudes.
    fn scales(&self, amax: &Bound<'_, PyAny>, target: &Bound<'_, PyAny>) -> PyResult<()> {
        let amax = Source::<f32>::new(amax)?;
        let mut target = Target::<f32>::new(target, &amax)?;
        let (amax, target) = (amax.elements(), target.elements());
        check_lengths(amax.len(), target.len())?;
        let range = Range::new(&self.values, &self.plugin.conventions);
        let mut pairs = vec![[1.0; 2]; amax.len()];
        Scaling::default().pairs(&range, amax, None, &mut pairs);
        target.iter_mut().zip(&pairs).for_each(|(scale, [encode, _])| *scale = *encode);
        Ok(())
    }

    /// Rounds f32 to values; returns the statistics.
    #[allow(clippy::too_many_arguments)]
    fn fake_quant<'py>(
        &self,
        py: Python<'py>,
        source: &Bound<'py, PyAny>,
        target: &Bound<'py, PyAny>,
        scales: &Bound<'py, PyAny>,
        blocking: Blocking,
        rounding: &str,
        key: Key,
    ) -> PyResult<Bound<'py, PyDict>> {
        let source = Source::<f32>::new(source)?;
        let mut target = Target::<f32>::new(target, &source)?;
        let params = params(rounding, key)?;
        let pairs = pairs(Source::<f32>::new(scales)?.elements())?;
        let (source, target) = (source.elements(), target.elements());
        check_lengths(source.len(), target.len())?;
        let slabs = blocking.slabs(&pairs, source.len())?;
        let stats = py.detach(|| {
            self.each_slab(source, target, &slabs, params, |source, target, params| {
                self.plugin.fake_quant(source, target, params, &mut [])
            })
        });
        let mut total = QuantStats::default();
        stats.map_err(exception)?.iter().for_each(|part| total.merge(part));
        statistics(py, &total, source.len())
    }

    /// Rounds f32 to codes: bytes for formats of at most 8 bits, else u16.
    #[allow(clippy::too_many_arguments)]
    fn encode(
        &self,
        py: Python<'_>,
        source: &Bound<'_, PyAny>,
        target: &Bound<'_, PyAny>,
        scales: &Bound<'_, PyAny>,
        blocking: Blocking,
        rounding: &str,
        key: Key,
    ) -> PyResult<()> {
        let source = Source::<f32>::new(source)?;
        let params = params(rounding, key)?;
        let pairs = pairs(Source::<f32>::new(scales)?.elements())?;
        let slabs = blocking.slabs(&pairs, source.elements().len())?;
        if self.values.codes() > 256 {
            let mut target = Target::<u16>::new(target, &source)?;
            let (source, target) = (source.elements(), target.elements());
            check_lengths(source.len(), target.len())?;
            let encode = |source: &[f32], target: &mut [u16], params: &QuantParams<'_>| {
                self.plugin.encode_into(source, target, params)
            };
            return py
                .detach(|| self.each_slab(source, target, &slabs, params, encode))
                .map(drop)
                .map_err(exception);
        }
        let mut target = Target::<u8>::new(target, &source)?;
        let (source, target) = (source.elements(), target.elements());
        check_lengths(source.len(), target.len())?;
        let encode = |source: &[f32], target: &mut [u8], params: &QuantParams<'_>| {
            // Codes of a few pages stay in the processor's cache.
            let mut codes = [0; 4096];
            for (index, (source, target)) in source.chunks(4096).zip(target.chunks_mut(4096)).enumerate() {
                let codes = &mut codes[..source.len()];
                self.plugin.encode_into(source, codes, &params.skip(index as u64 * 4096))?;
                target.iter_mut().zip(codes).for_each(|(byte, code)| *byte = *code as u8);
            }
            Ok(())
        };
        py.detach(|| self.each_slab(source, target, &slabs, params, encode)).map(drop).map_err(exception)
    }

    /// The values of codes: bytes for formats of at most 8 bits, else u16.
    fn decode(
        &self,
        py: Python<'_>,
        source: &Bound<'_, PyAny>,
        target: &Bound<'_, PyAny>,
        scales: &Bound<'_, PyAny>,
        blocking: Blocking,
    ) -> PyResult<()> {
        let pairs = pairs(Source::<f32>::new(scales)?.elements())?;
        if self.values.codes() > 256 {
            let source = Source::<u16>::new(source)?;
            let mut target = Target::<f32>::new(target, &source)?;
            return self.decoded(py, source.elements(), target.elements(), &pairs, &blocking);
        }
        let source = Source::<u8>::new(source)?;
        let mut target = Target::<f32>::new(target, &source)?;
        self.decoded(py, source.elements(), target.elements(), &pairs, &blocking)
    }
}

impl Format {
    /// Calls `work` on the parts of all slabs, with the parameters of each; results in order.
    fn each_slab<T: Send, R: Send>(
        &self,
        source: &[f32],
        target: &mut [T],
        slabs: &[Scales<'_>],
        params: QuantParams<'_>,
        work: impl Fn(&[f32], &mut [T], &QuantParams<'_>) -> Result<R, Diagnostic> + Sync,
    ) -> Result<Vec<R>, Diagnostic> {
        let each = (source.len() / slabs.len()).max(1);
        let mut results = Vec::new();
        let sources = source.chunks(each).zip(target.chunks_mut(each));
        for (slab, (source, target)) in sources.enumerate() {
            let key = RandomKey { offset: (slab * each) as u64, ..params.key };
            let params = QuantParams { scales: slabs[slab], key, rounding: params.rounding };
            results.extend(parts::map(source, target, |first, source, target| {
                work(source, target, &params.skip(first as u64))
            })?);
        }
        Ok(results)
    }

    fn decoded<T: Copy + Sync + Into<u16>>(
        &self,
        py: Python<'_>,
        source: &[T],
        target: &mut [f32],
        pairs: &[[f32; 2]],
        blocking: &Blocking,
    ) -> PyResult<()> {
        check_lengths(source.len(), target.len())?;
        let slabs = blocking.slabs(pairs, source.len())?;
        let each = (source.len() / slabs.len()).max(1);
        let done = py.detach(|| {
            for (slab, (source, target)) in source.chunks(each).zip(target.chunks_mut(each)).enumerate() {
                parts::map(source, target, |first, source, target| {
                    let codes: Vec<u16> = source.iter().map(|code| (*code).into()).collect();
                    self.plugin.decode(&codes, target, &slabs[slab].skip(first as u64))
                })?;
            }
            Ok(())
        });
        done.map_err(exception)
    }
}

pub(crate) fn statistics<'py>(
    py: Python<'py>,
    stats: &QuantStats,
    elements: usize,
) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("elements", elements)?;
    dict.set_item("amax", stats.amax)?;
    dict.set_item("overflow", stats.overflow)?;
    dict.set_item("underflow", stats.underflow)?;
    dict.set_item("nan", stats.nan)?;
    dict.set_item("nonzero", stats.nonzero)?;
    dict.set_item("sum_x2", stats.sum_x2)?;
    dict.set_item("sum_err2", stats.sum_err2)?;
    dict.set_item("sum_x_xhat", stats.sum_x_xhat)?;
    Ok(dict)
}

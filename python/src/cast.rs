//! Casts on matrices, and the casts of a run file's `[quant]`.

use std::{
    ffi::CString,
    path::{Path, PathBuf},
};

use altgrad_casts::{
    Axis, Block, BlockGrid, Centered, Hadamard, NonFinite, Operation, ScaleRounding, Scaling, Shape, Signs,
};
use altgrad_config::{
    AmaxChoice, RunConfig,
    cast::{CastSection, FirstScaleChoice, ResolvedCast, ZeroBlockChoice, read_cast},
};
use altgrad_metrics::Role;
use altgrad_plugin_api::{QuantParams, RandomKey};
use pyo3::{
    exceptions::{PyUserWarning, PyValueError},
    prelude::*,
    types::{PyBytes, PyDict},
};
use wildmatch::WildMatch;

use crate::{
    errors::{exception, refusal},
    ffi::{Source, Target},
    format::{Format, statistics},
    parts,
    round::{self, Keys},
};

/// A cast without its format's code.
#[pyclass(frozen)]
pub(crate) struct Cast {
    cast: altgrad_casts::Cast,
    format: String,
    history: Option<History>,
    /// True if tokens run along the contraction: that of the gradient of a weight.
    contracts_tokens: bool,
}

/// Scales from magnitudes of earlier steps: window, whether the first step's magnitude is kept for good, whether the
/// first step has scale 1, and whether the last scale is kept over steps of zeros. In Python a tuple.
type History = (usize, bool, bool, bool);

/// Seed, step and tensor of random bits.
type Key = (u64, u64, u64);

fn random((seed, step, tensor): Key) -> RandomKey {
    RandomKey { seed, step, tensor, offset: 0 }
}

fn bytes_of<'py>(py: Python<'py>, values: &[f32]) -> Bound<'py, PyBytes> {
    PyBytes::new(py, &values.iter().flat_map(|x| x.to_ne_bytes()).collect::<Vec<u8>>())
}

#[pymethods]
impl Cast {
    /// A cast from its text: a format, or keys as in TOML.
    #[new]
    fn new(py: Python<'_>, text: &str) -> PyResult<Self> {
        let (section, _, idle): (CastSection, _, _) = read_cast("the cast", text).map_err(exception)?;
        for key in idle {
            let message = CString::new(key.message)?;
            PyErr::warn(py, &py.get_type::<PyUserWarning>(), &message, 2)?;
        }
        Ok(Self { cast: section.cast(), format: section.format, history: None, contracts_tokens: false })
    }

    /// The format's name.
    #[getter]
    fn format(&self) -> &str {
        &self.format
    }

    /// Size and signs of the transform that comes before the rounding, if there is one. Two casts cancel in a product
    /// if these are equal.
    #[getter]
    fn transform(&self) -> Option<(usize, &'static str)> {
        let Hadamard { size, signs, .. } = self.cast.transform?;
        let signs = match signs {
            Signs::None => "none",
            Signs::Te => "te",
            Signs::Seed => "seed",
        };
        Some((size, signs))
    }

    /// True if values depend on random bits.
    #[getter]
    fn is_random(&self) -> bool {
        let has_random_signs = self.cast.transform.is_some_and(|transform| transform.signs == Signs::Seed);
        let rounding = self.cast.rounding;
        matches!(rounding, altgrad_casts::Rounding::Stochastic | altgrad_casts::Rounding::FewBits(_))
            || self.cast.scaling.round == ScaleRounding::Stochastic
            || has_random_signs
    }

    /// The use of magnitudes of earlier steps, if scales follow from them.
    #[getter]
    fn history(&self) -> Option<History> {
        self.history
    }

    /// The cast with scale 1 of the tensor. Blocks below it keep their scales, which are those of E4M3 without a scale
    /// of the tensor.
    fn unscaled(&self) -> Self {
        let (block, scaling) = if self.cast.scaling.tensor {
            // A magnitude that does not come from the tensor poisons nothing.
            let nonfinite = NonFinite::Skip;
            let dequantize = match self.cast.scaling.dequantize {
                Operation::Nested => Operation::Multiply,
                other => other,
            };
            let own = Scaling { tensor: false, outer: None, amax: None, ..self.cast.scaling };
            (self.cast.block, Scaling { nonfinite, dequantize, most: None, ..own })
        } else {
            (Block::None, Scaling::default())
        };
        let cast = altgrad_casts::Cast { block, scaling, ..self.cast };
        Self { cast, format: self.format.clone(), history: None, contracts_tokens: self.contracts_tokens }
    }

    /// Transforms the rows of a matrix, or inverts their transform.
    fn rotate(
        &self,
        py: Python<'_>,
        source: &Bound<'_, PyAny>,
        target: &Bound<'_, PyAny>,
        columns: usize,
        signs: Key,
        back: bool,
    ) -> PyResult<()> {
        let source = Source::<f32>::new(source)?;
        let mut target = Target::<f32>::new(target, &source)?;
        let (source, target) = (source.elements(), target.elements());
        let Some(transform) = self.cast.transform else {
            return Err(PyValueError::new_err("the cast has no transform"));
        };
        if source.len() != target.len() || !columns.is_multiple_of(transform.size) {
            let message = format!("{columns} columns are no whole number of groups of {}", transform.size);
            return Err(PyValueError::new_err(message));
        }
        py.detach(|| {
            target.copy_from_slice(source);
            if back {
                transform.rotate_back(target, &random(signs));
            } else {
                transform.rotate(target, &random(signs));
            }
        });
        Ok(())
    }

    /// Rounds the rows of a matrix of f32 in C order to values; returns the statistics, and the scale where there is
    /// only one. Keys and `amax` are those of `apply`.
    #[allow(clippy::too_many_arguments)]
    fn round<'py>(
        &self,
        py: Python<'py>,
        format: &Format,
        source: &Bound<'py, PyAny>,
        target: &Bound<'py, PyAny>,
        rows: usize,
        key: Key,
        signs: Key,
        amax: Option<f32>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let source = Source::<f32>::new(source)?;
        let mut target = Target::<f32>::new(target, &source)?;
        let (source, target) = (source.elements(), target.elements());
        let shape = shape(source, target, rows)?;
        let keys = Keys { rounding: random(key), signs: random(signs) };
        let (cast, plugin) = (self.at(amax, Axis::Rows), &format.plugin);
        let rounded = py.detach(|| round::round(&cast, plugin, source, target, shape, &keys))?;
        let dict = statistics(py, &rounded.stats, source.len())?;
        dict.set_item("scale", rounded.scale)?;
        Ok(dict)
    }

    /// What operations on another device need to compute the values of a matrix: rows and columns of a block, whether
    /// elements that are not finite poison theirs, whether scales divide elements and values, and the rounding. None
    /// for casts that need more.
    fn plan<'py>(
        &self,
        py: Python<'py>,
        rows: usize,
        columns: usize,
    ) -> PyResult<Option<Bound<'py, PyDict>>> {
        let Some((rounding, [quantize, dequantize])) = round::elementwise(&self.cast) else {
            return Ok(None);
        };
        let [high, wide] = BlockGrid::new(self.cast.block, Shape { rows, columns }, Axis::Rows).block;
        let plan = PyDict::new(py);
        plan.set_item("block", (high, wide))?;
        plan.set_item("poisons", self.cast.scaling.nonfinite == NonFinite::Poison)?;
        plan.set_item("divides", (quantize == Operation::Divide, dequantize == Operation::Divide))?;
        plan.set_item("rounding", rounding)?;
        Ok(Some(plan))
    }

    /// The encode and decode scale of blocks with these largest magnitudes, in two arrays. NaN stands for a block with
    /// an element that is not finite. Refused for scales that depend on more.
    fn scales(
        &self,
        format: &Format,
        magnitudes: &Bound<'_, PyAny>,
        encode: &Bound<'_, PyAny>,
        decode: &Bound<'_, PyAny>,
        amax: Option<f32>,
    ) -> PyResult<()> {
        let magnitudes = Source::<f32>::new(magnitudes)?;
        let mut encode = Target::<f32>::new(encode, &magnitudes)?;
        let mut decode = Target::<f32>::new(decode, &magnitudes)?;
        let pairs = round::scales(&self.at(amax, Axis::Rows), &format.plugin, magnitudes.elements())?;
        let targets = encode.elements().iter_mut().zip(decode.elements());
        targets.zip(pairs).for_each(|((encode, decode), pair)| [*encode, *decode] = pair);
        Ok(())
    }

    /// Applies the cast to a matrix of f32, in C order. `key` gives the bits of stochastic rounding, `signs` those of a
    /// transform. `amax` replaces the magnitudes of the matrix in its scale.
    ///
    /// Writes values, and returns scales and codes as bytes of f32 and u16, with the shape of the scales.
    #[allow(clippy::too_many_arguments)]
    fn apply<'py>(
        &self,
        py: Python<'py>,
        format: &Format,
        source: &Bound<'py, PyAny>,
        target: &Bound<'py, PyAny>,
        rows: usize,
        along_rows: bool,
        key: Key,
        signs: Key,
        amax: Option<f32>,
        with_scaled: bool,
    ) -> PyResult<Bound<'py, PyDict>> {
        let source = Source::<f32>::new(source)?;
        let mut target = Target::<f32>::new(target, &source)?;
        let (source, target) = (source.elements(), target.elements());
        let shape = shape(source, target, rows)?;
        let axis = if along_rows { Axis::Rows } else { Axis::Columns };
        let (key, signs) = (random(key), random(signs));
        let plugin = &format.plugin;
        let cast = self.at(amax, axis);
        let one = |source: &[f32], shape: Shape, axis: Axis, key: RandomKey| -> PyResult<_> {
            let grid = round::grid(plugin)?;
            let words = altgrad_casts::Cast::words_of_scales(&key);
            let prepared = cast
                .prepare_by(&grid, source, shape, axis, &signs, words)
                .map_err(|error| refusal(&error))?;
            let codes = cast.codes(&grid, prepared.scaled(), &key, |scaled, rounding| {
                let mut codes = vec![0; scaled.len()];
                let params = QuantParams { rounding, key, ..QuantParams::IDENTITY };
                parts::map(scaled, &mut codes, |first, scaled, codes| {
                    plugin.encode_into(scaled, codes, &params.skip(first as u64))
                })
                .map(|_| codes)
            });
            let scaled = with_scaled.then(|| prepared.scaled().to_vec());
            let codes = codes.map_err(exception)?;
            let applied = prepared.finish(&grid, codes).map_err(|error| refusal(&error))?;
            Ok((applied, scaled))
        };
        let (applied, scaled) = py.detach(|| -> PyResult<_> {
            let Some(along) = cast.center else { return one(source, shape, axis, key) };
            let Centered { residuals, mean } = Centered::new(source, shape, along);
            let of_mean = Shape { rows: 1, columns: mean.len() };
            let (mean, _) = one(&mean, of_mean, Axis::Rows, Centered::key_of_mean(&key))?;
            let (mut applied, scaled) = one(&residuals, shape, axis, key)?;
            Centered::add(&mut applied.values, &mean.values, shape, along);
            Ok((applied, scaled))
        })?;
        target.copy_from_slice(&applied.values);
        let dict = PyDict::new(py);
        if let Some(scaled) = scaled {
            dict.set_item("scaled", bytes_of(py, &scaled))?;
        }
        let [scale_rows, scale_columns] = applied.layout.counts();
        dict.set_item("scales", bytes_of(py, &applied.scales))?;
        let codes: Vec<u8> = applied.codes.iter().flat_map(|code| code.to_ne_bytes()).collect();
        dict.set_item("codes", PyBytes::new(py, &codes))?;
        dict.set_item("scale_shape", (scale_rows, scale_columns))?;
        let scale_codes = applied.scale_codes.as_deref();
        dict.set_item("scale_codes", scale_codes.map(|codes| PyBytes::new(py, codes)))?;
        dict.set_item("tensor_scale", applied.tensor_scale)?;
        let outer = applied.outer_scales.as_deref();
        dict.set_item("outer_scales", outer.map(|scales| bytes_of(py, scales)))?;
        let exponents = applied.microexponents.as_deref();
        dict.set_item("microexponents", exponents.map(|exponents| PyBytes::new(py, exponents)))?;
        dict.set_item("overflow", applied.overflow)?;
        dict.set_item("collapsed", applied.collapsed)?;
        let choices = applied.choices.as_deref();
        dict.set_item("choices", choices.map(|choices| PyBytes::new(py, choices)))?;
        Ok(dict)
    }
}

impl Cast {
    /// The cast of a matrix with this axis, with this magnitude in place of those of the matrix, if there is one.
    fn at(&self, amax: Option<f32>, axis: Axis) -> altgrad_casts::Cast {
        let mut cast = self.cast;
        if self.contracts_tokens && cast.center.is_some() {
            cast.center = Some(axis);
        }
        cast.scaling.amax = amax.or(cast.scaling.amax);
        cast
    }
}

/// The shape of a matrix, whose results have the same size.
fn shape(source: &[f32], target: &[f32], rows: usize) -> PyResult<Shape> {
    if source.len() != target.len() || rows == 0 || !source.len().is_multiple_of(rows) {
        return Err(PyValueError::new_err("the matrix has no rows, or results have another size"));
    }
    Ok(Shape { rows, columns: source.len() / rows })
}

/// The table `[quant]` of a run file, its recipe applied.
#[pyclass(frozen)]
pub(crate) struct Recipe {
    config: RunConfig,
}

#[pymethods]
impl Recipe {
    /// Reads a text as a run file. Its relative paths start at the working directory.
    #[new]
    fn new(text: &str) -> PyResult<Self> {
        let (config, _) = altgrad_config::load_str(Path::new("the recipe"), text).map_err(exception)?;
        Ok(Self { config })
    }

    /// Reads a run file.
    #[staticmethod]
    fn of_run_file(path: PathBuf) -> PyResult<Self> {
        let (config, _) = altgrad_config::load(&path, &[]).map_err(exception)?;
        Ok(Self { config })
    }

    /// A text that gives the same recipe in any directory.
    fn text(&self) -> PyResult<String> {
        self.config.to_toml().map_err(exception)
    }

    /// True if casts change during the run.
    fn has_schedule(&self) -> bool {
        !self.config.quant.schedule.is_empty()
    }

    /// Of this many blocks of a model, how many at the start and at the end stay unquantized.
    fn skipped(&self, blocks: usize) -> (usize, usize) {
        (self.config.quant.skip_first.of(blocks), self.config.quant.skip_last.of(blocks))
    }

    /// The cast of a use in the linear layer of this name: the cast, if it rounds; its source, `first` for a first use;
    /// the straight-through estimator.
    fn cast(&self, role: &str, layer: &str) -> PyResult<(Option<Cast>, &'static str, String)> {
        let found = Role::LINEAR.into_iter().find(|known| known.name() == role);
        let role = found.ok_or_else(|| PyValueError::new_err(format!("no use is called `{role}`")))?;
        let quant = &self.config.quant;
        let resolved = quant.cast(role, |rule| WildMatch::new(&rule.pattern).matches(layer));
        let source = if role.first_use().is_some() { resolved.source().name() } else { "first" };
        let ste = resolved.fields.ste.map(|ste| ste.name().to_owned()).unwrap_or_default();
        let is_excluded = quant.exclude.iter().any(|pattern| WildMatch::new(pattern).matches(layer));
        let format = resolved.format().map(str::to_owned).filter(|_| !is_excluded);
        let Some(format) = format else { return Ok((None, if is_excluded { "first" } else { source }, ste)) };
        let cast = resolved.cast();
        let history = history(&resolved).filter(|_| cast.block != Block::None);
        if history.is_some() && !has_one_magnitude(&cast) {
            return Err(PyValueError::new_err(format!(
                "`{}` needs one scale for the tensor: blocks take their scales from the current tensor\nhint: set amax = \"dynamic\"",
                resolved.key_of("scaling.amax")
            )));
        }
        let contracts_tokens = matches!(role, Role::ActivationWgrad | Role::GradWgrad);
        Ok((Some(Cast { cast, format, history, contracts_tokens }), source, ste))
    }
}

/// True if all scales follow from one magnitude of the tensor.
fn has_one_magnitude(cast: &altgrad_casts::Cast) -> bool {
    matches!(cast.block, Block::None | Block::Tensor) || cast.scaling.tensor
}

/// The magnitudes of earlier steps that scales follow from.
fn history(resolved: &ResolvedCast) -> Option<History> {
    let scaling = resolved.fields.scaling?;
    let is_static = match scaling.amax? {
        AmaxChoice::Delayed => false,
        AmaxChoice::Static if scaling.static_amax.is_none() => true,
        // The tensor at hand, or a given number.
        _ => return None,
    };
    let (first, keep) =
        (scaling.first == Some(FirstScaleChoice::One), scaling.zero == Some(ZeroBlockChoice::Keep));
    Some((scaling.window.unwrap_or(1), is_static, first && !is_static, keep && !is_static))
}

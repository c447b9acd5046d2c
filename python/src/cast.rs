//! Casts on matrices, and the casts of a run file's `[quant]`.

use std::path::PathBuf;

use altgrad_casts::{Axis, CastError, Grid, Shape};
use altgrad_config::{
    QuantSection,
    cast::{CastSection, read_cast},
};
use altgrad_metrics::Role;
use altgrad_plugin_api::{QuantParams, RandomKey};
use pyo3::{
    exceptions::PyValueError,
    prelude::*,
    types::{PyBytes, PyDict},
};
use wildmatch::WildMatch;

use crate::{
    errors::exception,
    ffi::{Source, Target},
    format::Format,
    parts,
};

/// A cast without its format's code.
#[pyclass(frozen)]
pub(crate) struct Cast {
    cast: altgrad_casts::Cast,
    format: String,
}

fn bytes_of<'py>(py: Python<'py>, values: &[f32]) -> Bound<'py, PyBytes> {
    PyBytes::new(py, &values.iter().flat_map(|x| x.to_ne_bytes()).collect::<Vec<u8>>())
}

fn refusal(error: &CastError) -> PyErr {
    PyValueError::new_err(format!("{error}\nhint: {}", error.hint()))
}

#[pymethods]
impl Cast {
    /// A cast from its text: a format, or keys as in TOML.
    #[new]
    fn new(text: &str) -> PyResult<Self> {
        let (section, _): (CastSection, _) = read_cast("the cast", text).map_err(exception)?;
        Ok(Self { cast: section.cast(), format: section.format })
    }

    /// The format's name.
    #[getter]
    fn format(&self) -> &str {
        &self.format
    }

    /// Whether a transform comes before the rounding.
    #[getter]
    fn transforms(&self) -> bool {
        self.cast.transform.is_some()
    }

    /// Applies the cast to a matrix of f32, in C order.
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
        key: (u64, u64, u64),
        with_scaled: bool,
    ) -> PyResult<Bound<'py, PyDict>> {
        let source = Source::<f32>::new(source)?;
        let mut target = Target::<f32>::new(target, &source)?;
        let (source, target) = (source.elements(), target.elements());
        if source.len() != target.len() || rows == 0 || !source.len().is_multiple_of(rows) {
            return Err(PyValueError::new_err("the matrix has no rows, or results have another size"));
        }
        let shape = Shape { rows, columns: source.len() / rows };
        let axis = if along_rows { Axis::Rows } else { Axis::Columns };
        let (seed, step, tensor) = key;
        let key = RandomKey { seed, step, tensor, offset: 0 };
        let plugin = &format.plugin;
        let (applied, scaled) = py.detach(|| -> PyResult<_> {
            let grid = Grid::new(&plugin.spec, &plugin.conventions)
                .map_err(|error| PyValueError::new_err(error.to_string()))?;
            self.cast.check(&grid).map_err(|error| refusal(&error))?;
            let prepared =
                self.cast.prepare(&grid, source, shape, axis, &key).map_err(|error| refusal(&error))?;
            let codes = self.cast.rounding.codes(&grid, prepared.scaled(), |scaled, rounding| {
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
        Ok(dict)
    }
}

/// The table `[quant]` of a run file, its recipe applied.
#[pyclass(frozen)]
pub(crate) struct Recipe {
    quant: QuantSection,
}

#[pymethods]
impl Recipe {
    /// Reads a run file.
    #[new]
    fn new(path: PathBuf) -> PyResult<Self> {
        let (config, _) = altgrad_config::load(&path, &[]).map_err(exception)?;
        Ok(Self { quant: config.quant })
    }

    /// The cast of a use in the linear layer of this name: the cast, if it rounds; its source, `first` for a first use; the
    /// straight-through estimator.
    fn cast(&self, role: &str, layer: &str) -> PyResult<(Option<Cast>, &'static str, String)> {
        let found = Role::LINEAR.into_iter().find(|known| known.name() == role);
        let role = found.ok_or_else(|| PyValueError::new_err(format!("no use is called `{role}`")))?;
        let resolved = self.quant.cast(role, |rule| WildMatch::new(&rule.pattern).matches(layer));
        let source = if role.first_use().is_some() { resolved.source().name() } else { "first" };
        let ste = resolved.fields.ste.map(|ste| ste.name().to_owned()).unwrap_or_default();
        let is_excluded = self.quant.exclude.iter().any(|pattern| WildMatch::new(pattern).matches(layer));
        let format = resolved.format().map(str::to_owned).filter(|_| !is_excluded);
        let Some(format) = format else { return Ok((None, if is_excluded { "first" } else { source }, ste)) };
        if resolved
            .fields
            .scaling
            .and_then(|scaling| scaling.amax)
            .is_some_and(|amax| amax.name() == "delayed")
        {
            return Err(PyValueError::new_err(format!(
                "`{}` has scales of earlier steps (amax delayed), which this package does not compute",
                resolved.key
            )));
        }
        Ok((Some(Cast { cast: resolved.cast(), format }), source, ste))
    }
}

//! Libraries in C (`plugin-api/include/altgrad_plugin.h`) as the types of the host: build info, descriptors, and
//! objects with the interface of Rust plugins.
//!
//! A C format has the values of its codes, and functions for its own operations; the host computes scaling, statistics
//! and histograms ([`format`](mod@format)). [`crate::ffi::c_table`] reads the tables.

mod format;
mod optimizer;
mod sink;

use std::{fmt, sync::Arc};

use crate::{
    ffi::{
        c_plugins::{COptimizer, CSink},
        c_table::{CFormat, CLibrary, CSpec},
    },
    version::{self, C_VERSION, Version},
};
use altgrad_plugin_api::{
    BuildInfo, Config, Descriptor, ErrorKind, FormatSpec, PluginError, RStr,
    abi::{
        FormatAbi_TO, FormatObject, OptimizerAbi_TO, OptimizerObject, SinkAbi_TO, SinkObject,
        stable::erased_types::TD_Opaque,
    },
};

/// The plugins of a C library, or the formats of a file.
#[derive(Clone)]
pub(super) struct CExports {
    formats: Vec<Arc<CFormat>>,
    optimizers: Vec<COptimizer>,
    sinks: Vec<CSink>,
}

/// Implemented by hand, for a short text.
impl fmt::Debug for CExports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.descriptors().iter().map(|descriptor| descriptor.id)).finish()
    }
}

/// The library's build information, as far as it gives any.
pub(super) fn build_info(library: &CLibrary) -> BuildInfo {
    let version = format!("{}{}", version::C, Version(library.version));
    BuildInfo {
        // Libraries are never unloaded, nor are their descriptions.
        api_version: RStr::from_str(version.leak()),
        rustc: library.compiler.into(),
        target: "".into(),
        cpu_features: library.cpu_features.into(),
    }
}

/// The build information of a file of formats, which has no code.
pub(super) const NO_BUILD: BuildInfo = BuildInfo {
    api_version: RStr::from_str("none, a file of formats"),
    rustc: RStr::from_str(""),
    target: RStr::from_str(""),
    cpu_features: RStr::from_str(""),
};

/// The version of the header that this host supports, for messages.
pub(super) fn version() -> String {
    format!("altgrad_plugin.h {}", Version(C_VERSION))
}

impl CExports {
    pub(super) fn new(library: CLibrary) -> Self {
        let CLibrary { formats, optimizers, sinks, .. } = library;
        Self { formats: formats.into_iter().map(Arc::new).collect(), optimizers, sinks }
    }

    pub(super) fn descriptors(&self) -> Vec<Descriptor> {
        let formats = self.formats.iter();
        let formats = formats.map(|format| {
            Descriptor::format(format.id, format.version, format.summary).options(format.options)
        });
        let optimizers = self.optimizers.iter().map(|optimizer| optimizer.descriptor);
        let all = formats.chain(optimizers).chain(self.sinks.iter().map(|sink| sink.descriptor));
        let mut all: Vec<Descriptor> = all.collect();
        all.sort_by_key(|descriptor| (descriptor.kind.0, descriptor.id));
        all
    }

    /// An instance of a format.
    ///
    /// # Errors
    /// The format does not exist, refuses the options, its `decode` failed, or its description is impossible.
    pub(super) fn format(&self, id: &str, config: &Config) -> Result<FormatObject, PluginError> {
        let format = self.formats.iter().find(|format| format.id == id);
        let format = format.ok_or_else(|| missing("format", id))?;
        let format = Arc::new(format.with_options(config)?);
        let spec = spec(&format)?;
        let instance = format::Instance::new(format, spec)?;
        Ok(FormatAbi_TO::from_value(instance, TD_Opaque))
    }

    /// An instance of an optimizer.
    ///
    /// # Errors
    /// The optimizer does not exist, or refuses the options.
    pub(super) fn optimizer(&self, id: &str, config: &Config) -> Result<OptimizerObject, PluginError> {
        let found = self.optimizers.iter().find(|optimizer| optimizer.descriptor.id == id);
        let optimizer = *found.ok_or_else(|| missing("optimizer", id))?;
        let instance = optimizer::Instance { instance: optimizer.make(config)?, optimizer };
        Ok(OptimizerAbi_TO::from_value(instance, TD_Opaque))
    }

    /// An instance of a sink.
    ///
    /// # Errors
    /// The sink does not exist, or refuses the options.
    pub(super) fn sink(&self, id: &str, config: &Config) -> Result<SinkObject, PluginError> {
        let found = self.sinks.iter().find(|sink| sink.descriptor.id == id);
        let sink = *found.ok_or_else(|| missing("sink", id))?;
        let instance = sink::Instance { instance: sink.make(config)?, sink };
        Ok(SinkAbi_TO::from_value(instance, TD_Opaque))
    }
}

fn missing(kind: &str, id: &str) -> PluginError {
    PluginError::new(ErrorKind::UNKNOWN_ID, format!("this library has no {kind} `{id}`"))
}

/// The values of the codes; without a list of values, every code is decoded.
fn spec(format: &CFormat) -> Result<FormatSpec, PluginError> {
    Ok(match &format.spec {
        CSpec::Minifloat(minifloat) => FormatSpec::Minifloat(*minifloat),
        CSpec::Table(_, Some(values)) => FormatSpec::Table(values.as_slice().into()),
        CSpec::Table(bits, None) => {
            let codes: Vec<u16> = (0..1u32 << bits).map(|code| code as u16).collect();
            let mut values = vec![0.0; codes.len()];
            let decoded = format.functions.decode(&codes, &mut values);
            decoded.unwrap_or_else(|| Err(PluginError::config("it has neither `values` nor `decode`")))?;
            FormatSpec::Table(values.into())
        }
    })
}

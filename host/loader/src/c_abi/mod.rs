//! Libraries in C (`plugin-api/include/altgrad_plugin.h`) as the types of the host: build info, descriptors, and format
//! objects with the interface of Rust formats.
//!
//! A C format has the values of its codes, and functions for its own operations; the host computes scaling, statistics
//! and histograms ([`format`](mod@format)). [`crate::ffi::c_table`] reads the tables.

mod format;

use std::{fmt, sync::Arc};

use crate::{
    ffi::c_table::{CFormat, CLibrary, CSpec},
    version::{self, C_VERSION, Version},
};
use altgrad_plugin_api::{
    BuildInfo, Descriptor, FormatSpec, PluginError, RStr,
    abi::{FormatAbi_TO, FormatObject, stable::erased_types::TD_Opaque},
};
use format::Instance;

/// The formats of a C library, or of a file.
#[derive(Clone)]
pub(super) struct CFormats(Vec<Arc<CFormat>>);

/// Implemented by hand, for a short text.
impl fmt::Debug for CFormats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|format| &format.id)).finish()
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

impl CFormats {
    pub(super) fn new(library: CLibrary) -> Self {
        Self(library.formats.into_iter().map(Arc::new).collect())
    }

    pub(super) fn descriptors(&self) -> Vec<Descriptor> {
        let descriptor =
            |format: &Arc<CFormat>| Descriptor::format(format.id, format.version, format.summary);
        let mut all: Vec<Descriptor> = self.0.iter().map(descriptor).collect();
        all.sort_by(|a, b| a.id.as_str().cmp(b.id.as_str()));
        all
    }

    /// An instance of a format.
    ///
    /// # Errors
    /// The format does not exist, its `decode` failed, or its description is impossible.
    pub(super) fn make(&self, id: &str) -> Result<FormatObject, PluginError> {
        let format = self.0.iter().find(|format| format.id == id);
        let format =
            format.ok_or_else(|| PluginError::config(format!("this library has no format `{id}`")))?;
        let instance = Instance::new(format.clone(), spec(format)?)?;
        Ok(FormatAbi_TO::from_value(instance, TD_Opaque))
    }
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

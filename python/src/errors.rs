//! Errors of the host's crates as exceptions.

use altgrad_base::diagnostic::{Diagnostic, Fault};
use altgrad_casts::CastError;
use pyo3::{create_exception, exceptions::PyException, exceptions::PyValueError, prelude::*};

create_exception!(altgrad, Error, PyException, "The base of the package's own exceptions.");
create_exception!(
    altgrad,
    PluginError,
    Error,
    "A plugin was refused, failed or panicked. The message is the plugin's, with its library."
);

/// `ValueError` for an invalid request of the caller, [`PluginError`] for a fault of a plugin.
pub(crate) fn exception(diagnostic: Diagnostic) -> PyErr {
    let text = diagnostic.to_string();
    let text = text.strip_prefix("error: ").unwrap_or(&text).to_owned();
    match diagnostic.fault {
        Fault::Config => PyValueError::new_err(text),
        Fault::Plugin | Fault::Run | Fault::Device | Fault::NotFinite => PluginError::new_err(text),
    }
}

/// `ValueError` for a cast that cannot be made, with a hint.
pub(crate) fn refusal(error: &CastError) -> PyErr {
    PyValueError::new_err(format!("{error}\nhint: {}", error.hint()))
}

//! The compiled half of the Python package `altgrad`: formats and casts on arrays, and comparisons of runs.
//!
//! `format` calls format plugins, `cast` applies casts and resolves those of recipes, `round` computes values alone,
//! `runs` reads run folders, `parts` divides work among threads, and `ffi` turns buffers into slices. Shapes, other
//! arrays and data frames are the concern of the Python half in `altgrad/`. This crate does not depend on the engine.

#![deny(unsafe_code)]

mod cast;
mod errors;
#[allow(unsafe_code)]
mod ffi;
mod format;
mod parts;
mod round;
mod runs;

use pyo3::prelude::*;

/// The module `altgrad._core`.
#[pymodule]
mod _core {
    #[pymodule_export]
    use crate::{
        cast::{Cast, Recipe},
        errors::{Error, PluginError},
        format::{Format, Plugins},
        parts::{set_threads, threads},
        runs::{compare_runs, find_runs, recipes},
    };
}

//! A small computation that shows that a GPU works: its memory, the compiler of kernels, and the driver.
//!
//! The tensor library reports a kernel that does not compile in its log only, and reads memory that was never written. Every failure
//! must therefore show in a value.

use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
};

use burn::backend::DispatchDevice;
use burn::tensor::{Device, Shape};
use burn_cubecl::CubeBackend;
use cubecl::prelude::*;

use crate::kernel_text::{download, upload};

const VALUES: [f32; 2] = [1.0, 2.0];
/// The square of each value, plus one.
const RESULTS: [f32; 2] = [2.0, 5.0];

/// Computes a few values on a GPU.
///
/// # Errors
/// What failed, in words.
pub(crate) fn check(device: &Device) -> Result<(), String> {
    // The library panics if it finds no compiler or no memory. Nothing is shared with it but the device.
    let found =
        catch_unwind(AssertUnwindSafe(|| compute(device))).unwrap_or_else(|panic| Err(text(&*panic)))?;
    if found == RESULTS { Ok(()) } else { Err(format!("a first kernel computed {found:?}, not {RESULTS:?}")) }
}

fn compute(device: &Device) -> Result<Vec<f32>, String> {
    let DispatchDevice::Cube(cube) = device.as_dispatch() else { return Err("it is no GPU".into()) };
    let flat = |values: [f32; 2]| upload::<CubeBackend>(cube, Shape::from([2]), values.to_vec());
    // A launch that fails leaves NaN.
    let (x, y) = (flat(VALUES), flat([f32::NAN; 2]));
    let out = y.clone().into_buffer_arg();
    probe::launch(&cube.client(), CubeCount::new_1d(1), CubeDim::new_1d(2), x.into_buffer_arg(), out);
    download::<CubeBackend>(y)
}

/// The first line of a panic's message.
fn text(panic: &(dyn Any + Send)) -> String {
    let message = panic.downcast_ref::<String>().map(String::as_str);
    let message = message.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("it panicked");
    message.lines().next().unwrap_or_default().to_string()
}

#[cube(launch)]
fn probe(x: &[f32], y: &mut [f32]) {
    if ABSOLUTE_POS < x.len() {
        y[ABSOLUTE_POS] = x[ABSOLUTE_POS] * x[ABSOLUTE_POS] + 1.0f32;
    }
}

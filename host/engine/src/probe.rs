//! A small computation that shows that a GPU works: its memory, the compiler of kernels and its headers, and the
//! driver.
//!
//! The tensor library reports a kernel that does not compile in its log only, and reads memory that was never written.
//! Every failure must therefore show in a value.

use burn::backend::{DispatchDevice, ops::FloatTensorOps as _};
use burn::tensor::{Device, Shape, TensorData};
use burn_cubecl::{CubeBackend, CubeDevice};
use cubecl::{cmma, prelude::*};
use half::bf16;

use crate::{
    device_faults::catch_panic,
    kernel_text::{download, upload},
};

const VALUES: [f32; 2] = [1.0, 2.0];
/// The square of each value, plus one.
const RESULTS: [f32; 2] = [2.0, 5.0];

/// Rows and columns of the matrices that tensor cores multiply.
const SIDE: usize = 16;
/// Threads that multiply them together.
const WARP: u32 = 32;

/// Computes a few values on a GPU, and where it multiplies bf16 fast also a bf16 product, which needs more headers.
///
/// # Errors
/// What failed, in words.
pub(crate) fn check(device: &Device, multiplies_bf16_fast: bool) -> Result<(), String> {
    let DispatchDevice::Cube(cube) = device.as_dispatch() else { return Err("it is no GPU".into()) };
    let found = catch_panic(|| compute(cube))?;
    if found != RESULTS {
        return Err(format!("a first kernel computed {found:?}, not {RESULTS:?}"));
    }
    if !multiplies_bf16_fast {
        return Ok(());
    }
    // Every element is the sum of SIDE products of ones.
    let (found, expected) = (catch_panic(|| multiply(cube))?, SIDE as f32);
    match found.iter().find(|value| **value != expected) {
        Some(value) => Err(format!("a first bf16 product computed {value}, not {expected}")),
        None => Ok(()),
    }
}

fn compute(cube: &CubeDevice) -> Result<Vec<f32>, String> {
    let flat = |values: [f32; 2]| upload::<CubeBackend>(cube, Shape::from([2]), values.to_vec());
    // A launch that fails leaves NaN.
    let (x, y) = (flat(VALUES), flat([f32::NAN; 2]));
    let out = y.clone().into_buffer_arg();
    probe::launch(
        &cube.client(),
        CubeCount::new_1d(1),
        CubeDim::new_1d(VALUES.len() as u32),
        x.into_buffer_arg(),
        out,
    );
    download::<CubeBackend>(y)
}

/// The product of a matrix of ones with its transpose.
fn multiply(cube: &CubeDevice) -> Result<Vec<f32>, String> {
    let shape = Shape::from([SIDE * SIDE]);
    let ones = TensorData::new(vec![bf16::ONE; SIDE * SIDE], shape.clone());
    let x = CubeBackend::float_from_data(ones, cube);
    let y = upload::<CubeBackend>(cube, shape, vec![f32::NAN; SIDE * SIDE]);
    let out = y.clone().into_buffer_arg();
    let (a, b) = (x.clone().into_buffer_arg(), x.into_buffer_arg());
    probe_product::launch(&cube.client(), CubeCount::new_1d(1), CubeDim::new_1d(WARP), a, b, out);
    download::<CubeBackend>(y)
}

#[cube(launch)]
fn probe(x: &[f32], y: &mut [f32]) {
    // A unit per value.
    y[ABSOLUTE_POS] = x[ABSOLUTE_POS] * x[ABSOLUTE_POS] + 1.0f32;
}

/// `y = x w^T`, by tensor cores.
#[cube(launch)]
fn probe_product(x: &[bf16], w: &[bf16], y: &mut [f32]) {
    let a = cmma::Matrix::<bf16>::from_slice(
        cmma::MatrixIdent::A,
        16usize,
        16usize,
        16usize,
        cmma::MatrixLayout::RowMajor,
        x,
        16,
    );
    let b = cmma::Matrix::<bf16>::from_slice(
        cmma::MatrixIdent::B,
        16usize,
        16usize,
        16usize,
        cmma::MatrixLayout::ColMajor,
        w,
        16,
    );
    let c = cmma::Matrix::<f32>::from_value(
        cmma::MatrixIdent::Accumulator,
        16usize,
        16usize,
        16usize,
        cmma::MatrixLayout::Undefined,
        0.0,
    );
    cmma::execute(&a, &b, &c, &c);
    cmma::store(y, &c, 16, cmma::MatrixLayout::RowMajor);
}

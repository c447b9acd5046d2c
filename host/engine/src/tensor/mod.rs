//! Tensor utilities: conversions to and from `f32` vectors, matrix products, and rounding to bf16.
//!
//! This is the lowest layer above the tensor library. It does not depend on the model, number formats or traces.

pub mod batch;
#[cfg(feature = "gpu")]
pub(crate) mod batch_kernel;
pub mod bf16;
pub(crate) mod cpu;
#[cfg(feature = "cuda")]
mod cublaslt;
mod flat;
#[cfg(feature = "gpu")]
pub(crate) mod flat_places;
pub(crate) mod fp32;
#[cfg(feature = "gpu")]
pub(crate) mod gather_kernel;
pub(crate) mod matmul;
#[cfg(feature = "gpu")]
pub mod parts_kernel;
#[cfg(any(feature = "gpu", test))]
mod product_shape;
#[cfg(any(feature = "gpu", test))]
pub(crate) mod product_strategy;
#[cfg(test)]
pub(crate) mod testing;
mod transpose;

pub use flat::{flat, read_f32, untracked};
pub(crate) use transpose::contiguous;

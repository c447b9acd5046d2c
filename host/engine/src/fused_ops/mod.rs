//! Differentiable operations with hand-written forward and backward passes.
//!
//! Each replaces a chain of tensor operations with fewer passes over memory, no temporaries, and loops for the widest
//! registers of the machine (`loops`). All threads work on parts of fixed size, so that results do not depend on the
//! number of threads. An operation saves values for its backward pass if they are expensive to compute again. GPUs have
//! kernels for some of them (`device`) and use the chain for the others. The chain is beside the operation as
//! `reference`; tests compare all three.

pub mod attention;
#[cfg(feature = "gpu")]
pub mod device;
#[cfg(feature = "gpu")]
pub mod dropout_kernel;
mod function;
pub mod gelu;
#[cfg(feature = "gpu")]
mod gelu_kernel;
pub mod lm_head;
mod loops;
pub mod loss;
#[cfg(feature = "gpu")]
mod loss_kernel;
mod math;
pub mod norm;
#[cfg(feature = "gpu")]
mod norm_kernel;
mod pool;
pub mod qk_norm;
pub mod rms_norm;
pub mod rotary;
pub mod scale;
#[cfg(feature = "gpu")]
pub mod scale_kernel;
pub mod swiglu;
#[cfg(test)]
#[allow(clippy::expect_used)]
mod testing;
pub mod z_loss;

pub use function::{CpuFunction, CpuOps, is_available};
pub use pool::in_pool;

//! Differentiable operations with hand-written forward and backward passes on the CPU.
//!
//! Each replaces a chain of tensor operations: fewer passes over memory, no temporaries, loops for the widest registers of the
//! machine (`loops`). All threads work on parts of fixed size, so that results do not depend on the number of threads. An
//! operation saves for its backward pass what is expensive to compute again. On another device the chain itself is used. The
//! chain is beside the operation as `reference`, and tests compare the two.

pub mod attention;
mod function;
pub mod gelu;
pub mod lm_head;
mod loops;
pub mod loss;
mod math;
pub mod norm;
mod pool;
pub mod qk_norm;
pub mod rms_norm;
pub mod rotary;
pub mod scale;
pub mod swiglu;
#[cfg(test)]
#[allow(clippy::expect_used)]
mod testing;
pub mod z_loss;

pub use function::{CpuFunction, CpuOps, is_available};
pub use pool::in_pool;

//! Quantization: where a number format touches the training.
//!
//! [`WeightQuant`] says which weights are rounded to which grid; [`op`] is the rounding as a differentiable tensor
//! operation with a straight-through gradient, on whatever device the tensor lives. Scales are 1 here:
//! values are rounded as they are.

pub mod op;
mod weights;

pub use op::{Quantizer, Seen};
pub use weights::WeightQuant;

//! Quantization: where a number format touches the training.
//!
//! [`WeightQuant`] says which weights are rounded to which grid; [`op`] is the rounding as a differentiable tensor
//! operation with a straight-through gradient, on whatever device the tensor lives: [`DeviceFormat`] is a plugin's
//! format there, by its kernels on a GPU and by its function on the CPU. What rounding saw stays on the device until
//! [`seen::read`]. Scales are 1 here: values are rounded as they are.

mod format;
#[cfg(feature = "gpu")]
mod kernels;
pub mod op;
pub mod seen;
mod weights;

pub use format::{DeviceFormat, RoundingCall};
pub use seen::{Seen, Unread};
pub use weights::WeightQuant;

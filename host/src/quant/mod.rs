//! Quantization: where a number format touches the training.
//!
//! A [`Site`] is a place where values are rounded: the weight, the input or the output's gradient of a linear layer.
//! [`Quant`] is all of them and computes the layers. [`op`] is rounding as a differentiable tensor operation, on
//! whatever device the tensor lives: [`DeviceFormat`] is a plugin's format there, by its kernels on a GPU and by its
//! function on the CPU. [`product`] is the matrix product that follows. What rounding saw stays on the device until the
//! step reads everything back.

mod carry;
mod format;
mod gather;
pub mod keep;
#[cfg(feature = "gpu")]
mod kernels;
mod linear;
pub mod multiply;
pub mod op;
pub mod product;
pub mod scale;
#[cfg(feature = "gpu")]
mod scale_kernel;
pub mod seen;
mod site;
pub mod watch;

pub use carry::{Carried, Carry, History, Settled};
pub use format::DeviceFormat;
pub use linear::{MasterWeights, Precision, Quant, SiteId};
pub use op::{Call, Ste};
pub use scale::{ScaleRule, ScaleSource};
pub use seen::{Seen, Unread};
pub use site::{Role, Scaling, Site};
pub use watch::{Distribution, Watch};

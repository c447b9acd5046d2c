//! Quantization: the rounding of linear layers to number formats.
//!
//! A [`TensorQuantizer`] rounds a tensor of a linear layer, its site: the weight, the input, or the gradient of the
//! output. [`QuantPlan`] lists all sites of a run file and does not change, [`QuantState`] is their state between
//! steps, and a [`Quantizer`] has both. [`QuantPass`] computes the layers of some passes. [`cast`](cast()) is scaling
//! and rounding as a differentiable tensor operation on every device, [`fake_quant`](fake_quant()) the rounding in it.
//! [`DeviceFormat`] is the format of a plugin on a device: its kernels on a GPU, its function on the CPU. [`product`]
//! is the matrix product that follows. Statistics of the rounding stay on the device until the step reads all its
//! results back.

#[cfg(feature = "gpu")]
mod arithmetic_kernel;
mod arrangement;
#[cfg(feature = "gpu")]
mod block_scale_kernel;
mod cast;
#[cfg(feature = "gpu")]
mod choice_kernel;
#[cfg(any(feature = "gpu", test))]
pub mod code_table;
mod cpu;
#[cfg(feature = "gpu")]
mod derivation;
#[cfg(feature = "gpu")]
mod deviation_kernel;
#[cfg(feature = "gpu")]
mod exact;
pub mod fake_quant;
mod format;
#[cfg(feature = "gpu")]
mod format_kernels;
#[cfg(feature = "gpu")]
mod gpu;
mod gradient_cast;
pub mod histogram;
#[cfg(feature = "gpu")]
pub mod histogram_kernel;
mod limited;
mod matrix_cast;
pub mod observe;
mod open_format;
pub mod operand;
#[cfg(feature = "gpu")]
mod own_rounding_kernel;
mod params;
mod pass;
mod pass_stats;
mod plan;
mod power_sums;
#[cfg(feature = "gpu")]
mod prepared_weights;
pub mod product;
#[cfg(feature = "gpu")]
pub mod product_kernel;
pub mod product_ops;
pub mod product_tensors;
#[cfg(feature = "gpu")]
mod rotation_kernel;
mod saved_state;
pub mod saved_tensors;
pub mod scale;
#[cfg(feature = "gpu")]
pub mod scale_kernel;
mod scale_loss;
mod stat_words;
mod state;
pub mod stats;
#[cfg(feature = "gpu")]
mod table_kernel;
#[cfg(feature = "gpu")]
mod tally;
mod tensor_quantizer;
mod value_casts;
mod weight_scales;
#[cfg(feature = "gpu")]
mod weights_kernel;
#[cfg(feature = "gpu")]
pub mod weights_op;
#[cfg(feature = "gpu")]
mod wide;
mod zeroed_mass;

pub use arrangement::Arrangement;
pub use cast::{CastParams, Rotation, cast};
pub use fake_quant::{FakeQuantOutput, fake_quant};
pub use format::{DeviceFormat, grid};
pub use histogram::{HistogramCollector, SiteHistogram};
pub use limited::AddendLayout;
pub use params::{Arithmetic, FakeQuantParams, SiteId};
pub use pass::{CastObservers, QuantPass};
pub use pass_stats::PassStats;
pub use plan::QuantPlan;
pub use power_sums::PowerSums;
pub use product::GradientStats;
pub use saved_state::{AmaxHistory, SavedQuantState, SavedWeightStats};
pub use scale::{ScaleRule, ScaleSource};
pub use scale_loss::ScaleLoss;
pub use state::{QuantState, Quantizer, RequestedRounding};
pub use stats::{CountedBy, PendingStats, QuantStats};
pub use tensor_quantizer::{
    DelayedStart, History, LayerId, Role, ScaleChange, Scaling, TensorQuantizer, UseSource,
};
pub use value_casts::ValueCasts;
pub use weight_scales::{WeightGrid, end_of_range, target_on_grid};
pub use zeroed_mass::ZeroedMass;

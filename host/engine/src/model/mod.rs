//! The model: nanoGPT's GPT, as a table of named parameters and a forward pass over them.
//!
//! [`layout`] lists the parameters and their initial distributions, [`params`] holds their values, [`gpt`] is
//! the forward pass and the loss over the inputs in [`forward`], [`weights`] reads and writes safetensors. Linear
//! layers read their weight through [`crate::quant`]; that is the only place where a number format affects the model.

pub mod dropout;
pub mod forward;
pub mod gpt;
pub mod layout;
pub mod mlp;
pub mod model_batch;
pub mod norms;
pub mod params;
pub mod positions;
pub mod weights;
pub mod widths;

pub use dropout::Dropout;
pub use forward::Forward;
pub use gpt::Gpt;
pub use layout::{GptShape, Layout, ParamSpec, Parts};
pub use model_batch::{BatchTensors, ModelBatch};
pub use params::{Params, initial_values};

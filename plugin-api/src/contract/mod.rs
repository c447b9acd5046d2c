//! The traits that a plugin implements.

mod format;
mod optimizer;
mod sink;

pub use format::Format;
pub use optimizer::{Optimizer, Step};
pub use sink::Sink;

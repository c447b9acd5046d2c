//! The training state, and the passes that compute losses and gradients from it.
//!
//! [`TrainState`] is the mutable state, which a checkpoint holds; [`TrainModel`] is the immutable model.

mod cast_schedule;
mod loss_scale;
mod mean_loss;
mod train_model;
mod train_state;

pub use cast_schedule::{CastSchedule, WaitingCasts};
pub use loss_scale::{DynamicLossScale, LossScaler};
pub use mean_loss::{MeanLoss, mean_loss};
pub use train_model::{Gradients, Shown, TrainModel};
pub use train_state::TrainState;

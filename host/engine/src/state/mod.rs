//! The training state, and the passes that compute losses and gradients from it.
//!
//! [`TrainState`] is all that a step changes and a checkpoint holds; [`TrainModel`] is the model it belongs to and never changes.

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

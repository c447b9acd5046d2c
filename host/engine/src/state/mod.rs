//! The training state: everything that a step changes, and that a checkpoint holds.

mod cast_schedule;
mod loss_scale;
mod train_state;

pub use cast_schedule::{CastSchedule, WaitingCasts};
pub use loss_scale::{DynamicLossScale, LossScaler};
pub use train_state::TrainState;

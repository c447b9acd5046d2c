//! The setup of a run: it makes a run that can start from a run file, loaded plugins and opened data.
//!
//! [`ReadyRun::build`] is the last step that refuses a run: after it only the machine can fail. It writes no file.
//! [`RunSetup`] is the constant part of a run; training changes [`TrainState`](crate::state::TrainState).

mod build;
mod cast_schedule;
pub(crate) mod casts;
mod computed;
mod crossed_blocks;
mod described_casts;
mod groups;
mod inputs;
mod observe;
mod ready_run;
mod rounding;
mod run_setup;
mod scale_warning;
mod schedule;
mod sums;
mod value_casts;
mod vocabulary_limit;
mod warnings;

pub use build::rounding_of;
pub use cast_schedule::{config_of, phases};
pub use described_casts::linear_layers;
pub use ready_run::ReadyRun;
pub use run_setup::RunSetup;
pub use schedule::Schedule;

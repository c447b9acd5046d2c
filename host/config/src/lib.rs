//! The run file: TOML text in, a checked [`RunConfig`] out.
//!
//! [`load`] reads the file and the command line's `--set` overrides, fills in the defaults and refuses unknown keys,
//! wrong types and values out of range, each at its line and column. It does not depend on plugins or devices: the
//! setup checks whether a format, an optimizer or `cuda:1` exists, and gets positions from [`Source::locate`].
//!
//! Keys: `schema`. Refusals: `explain` (keys, types) and `validate` (ranges).

#![deny(missing_docs)]
#![forbid(unsafe_code)]

mod accumulate;
mod alerts;
mod cast_fields;
mod cast_schedule;
mod casts_in_use;
mod choices;
mod defaults;
mod depth;
mod explain;
mod faults;
mod file_kind;
mod foreign;
mod hints;
mod host_keys;
mod load;
mod loss_scale;
mod numbers;
mod observe;
mod optimizer;
mod overrides;
mod parse;
mod paths;
mod plugin_ref;
mod quant;
mod recipe;
pub mod reference;
mod resolved_cast;
mod scaling;
mod schema;
mod single_cast;
mod source;
mod tables;
#[cfg(test)]
mod tests;
mod validate;
mod without_effect;

/// Casts: of one tensor as text, of a run file, and as all its tables result in.
pub mod cast {
    pub use crate::cast_fields::{CastFields, CastTables, TransformChoice};
    pub use crate::resolved_cast::ResolvedCast;
    pub use crate::single_cast::*;
}

pub use accumulate::{AccumulateChoice, AccumulateSection, SumRoundingChoice};
pub use alerts::{AlertsSection, Threshold};
pub use choices::{
    AmaxChoice, DatasetChoice, DeviceChoice, FullEvalChoice, GeluChoice, InvalidChoice, MasterWeightsChoice,
    MlpChoice, NormChoice, PluginCheckChoice, PositionsChoice, PrecisionChoice, Preset, RoundingChoice,
    ScheduleChoice, SteChoice, StoredScaleChoice, TokenizerChoice,
};
pub use depth::BlockCount;
pub use faults::accept_or_list;
pub use foreign::{block_for_granularity, native_format};
pub use host_keys::{optimizer_keys, sink_keys};
pub use load::{alert_settings, load, load_str, read_as};
pub use loss_scale::LossScaleChoice;
pub use observe::{ObserveSection, RolesChoice};
pub use optimizer::{OptimizerGroup, OptimizerSection, StateCodes, StateFloat, StateStorage};
pub use paths::from_folder;
pub use plugin_ref::{PinnedPlugin, PluginRef};
pub use quant::{CastPhase, CastTrigger, LayerRule, QuantSection, StoredScaleSection, unrounded_entry};
pub use recipe::RECIPES;
pub use scaling::{ScalingFields, ScalingSection};
pub use schema::{
    CheckpointSection, CurvatureSection, DataSection, LimitsSection, MetricsSection, ModelSection,
    PluginsSection, RunConfig, RunSection, ShadowSection, SinkSection, TrainSection,
};
pub use source::{Source, join, line_and_column, too_many_brackets};

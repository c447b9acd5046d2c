//! Metric definitions: names, meanings, units, ranges, schedules, alert thresholds and report columns.
//!
//! Each metric is defined once, in a file of [`families`]. The announced names of a run, the page `docs/metrics.md`
//! ([`mod@reference`]), the defaults of `[alerts]` and the columns of the report are derived from these definitions.
//! Identifiers are typed: a [`Statistic`] is a definition with its role and index, a [`MetricId`] adds the scope of the
//! value. The values are computed by the engine; this crate contains no tensor code.

pub mod alert;
mod alert_kind;
pub mod definition;
pub mod families;
mod family;
mod format_name;
pub mod id;
pub mod record;
pub mod reference;
pub mod report;
mod report_use;
mod role;
#[cfg(test)]
mod tests;

pub use alert::{AlertDefinition, AlertKind, Condition};
pub use definition::{Due, Index, MetricDefinition, MetricKind, Scope, Unit, ValueRange, ValueShape};
pub use families::{Family, FamilyDefinition};
pub use format_name::FormatName;
pub use id::{Layer, MetricId, Over, Role, Statistic};
pub use record::{Histogram, MetricRecord};

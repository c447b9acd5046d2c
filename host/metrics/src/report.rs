//! The report's use of a metric.

pub use crate::report_use::{Column, ColumnFormat, ReportUse};
use crate::{
    definition::{MetricDefinition, ValueShape},
    families,
    id::Statistic,
};

/// The columns, in their order.
#[must_use]
pub fn columns() -> Vec<(&'static MetricDefinition, &'static Column)> {
    let mut columns: Vec<_> = families::definitions()
        .filter_map(|definition| Some((definition, definition.report.column.as_ref()?)))
        .collect();
    columns.sort_by_key(|(_, column)| column.position);
    columns
}

/// True if the report keeps the curve of a statistic over the run.
#[must_use]
pub fn keeps_curve(statistic: &Statistic) -> bool {
    statistic.definition.report.curves.contains(&statistic.role)
}

/// True if the report keeps the curves of a statistic by layer: every number, and those of several indices or formats
/// where the definition says so.
#[must_use]
pub fn keeps_layers(statistic: &Statistic) -> bool {
    let definition = statistic.definition;
    let is_plain = definition.index.is_none() && !definition.by_format;
    (is_plain && definition.shape == ValueShape::Number) || definition.report.layers.contains(&statistic.role)
}

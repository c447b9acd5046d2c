//! What the report keeps and shows of a metric.

use crate::{
    definition::MetricDefinition,
    families,
    id::{Role, Statistic},
};

/// What the report uses of a metric.
#[derive(Debug)]
pub struct ReportUse {
    /// Curves over steps: over the whole run (`None`), or of a role.
    pub curves: &'static [Option<Role>],
    /// Curves of each layer: without a role (`None`), or of a role.
    pub layers: &'static [Option<Role>],
    /// The column of the comparison of configurations: the mean over steps and seeds.
    pub column: Option<Column>,
}

impl ReportUse {
    /// Nothing.
    pub const NONE: Self = Self { curves: &[], layers: &[], column: None };
    /// A curve over the whole run.
    pub const CURVE: Self = Self { curves: &[None], ..Self::NONE };
    /// A curve of each layer.
    pub const LAYERS: Self = Self { layers: &[None], ..Self::NONE };
}

/// A column of the comparison of configurations.
#[derive(Debug)]
pub struct Column {
    /// Its place among the columns of metrics, from 0.
    pub position: u8,
    /// Its key in JSON.
    pub key: &'static str,
    /// Its head.
    pub head: &'static str,
    /// How its values are shown.
    pub format: ColumnFormat,
}

/// How a column's values are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColumnFormat {
    /// With so many digits behind the point.
    Fixed(usize),
    /// As a percentage.
    Percent,
}

/// The columns, in their order.
#[must_use]
pub fn columns() -> Vec<(&'static MetricDefinition, &'static Column)> {
    let mut columns: Vec<_> = families::definitions()
        .filter_map(|definition| Some((definition, definition.report.column.as_ref()?)))
        .collect();
    columns.sort_by_key(|(_, column)| column.position);
    columns
}

/// Whether the report keeps the curve of a statistic over the run.
#[must_use]
pub fn keeps_curve(statistic: &Statistic) -> bool {
    statistic.definition.report.curves.contains(&statistic.role)
}

/// Whether the report keeps the curves of a statistic by layer.
#[must_use]
pub fn keeps_layers(statistic: &Statistic) -> bool {
    statistic.definition.report.layers.contains(&statistic.role)
}

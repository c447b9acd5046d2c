//! The part of a metric's definition that the report uses.

use crate::role::Role;

/// The report's use of a metric.
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
    /// The format of its values.
    pub format: ColumnFormat,
}

/// The format of a column's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColumnFormat {
    /// With so many digits after the point.
    Fixed(usize),
    /// As a percentage.
    Percent,
}

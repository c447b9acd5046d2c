//! The macro that defines the metrics of a family.

/// Defines the metrics of a family as statics, and `METRICS`, the list of all of them. A metric's comment is its
/// meaning in the reference.
macro_rules! metrics {
    ($($(#[doc = $line:literal])+ $name:ident = { $($field:ident: $value:expr,)* ..$base:expr };)+) => {
        $(
            $(#[doc = $line])+
            pub static $name: $crate::definition::MetricDefinition = $crate::definition::MetricDefinition {
                meaning: concat!($($line),+),
                $($field: $value,)*
                ..$base
            };
        )+

        /// The definitions, in the order of the reference.
        static METRICS: &[&$crate::definition::MetricDefinition] = &[$(&$name),+];
    };
}
pub(super) use metrics;

//! Comparison and report of run folders: `compare` and `report`.
//!
//! [`find`] reads run folders, valid or damaged; [`group`] groups runs that differ only in their seed; [`compare`]
//! tests differences; [`tables`] and [`table`] write the results in five formats; [`page`] makes the report, a page in
//! one file. This crate does not train, does not write into run folders, and does not need plugins.

#![deny(missing_docs)]
#![forbid(unsafe_code)]

pub mod alert_replay;
pub mod alert_score;
pub mod causes;
mod colours;
pub mod compare;
pub mod computed;
pub mod curves;
mod draw;
pub mod events;
pub mod failures;
mod figures;
pub mod find;
mod fit;
pub mod follow;
pub mod group;
pub mod histograms;
mod label;
mod layer_rows;
pub mod layers;
pub mod line_chart;
pub mod observed;
pub mod page;
mod pairs;
pub mod power;
pub mod records;
pub mod run;
pub mod run_file;
pub mod series;
mod sets;
pub mod stats;
pub mod status;
pub mod table;
pub mod tables;
mod tail;
#[cfg(test)]
mod tests;
mod text;

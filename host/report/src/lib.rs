//! From run folders to an answer: `compare` and `report`.
//!
//! [`find`] reads run folders, sound or not; [`group`] puts runs together that differ in their seed only; [`compare`] says
//! what the seeds support; [`tables`] and [`table`] write that in any of five ways; [`page`] makes the report, a page in
//! one file. Nothing here trains, writes into a run folder, or needs the plugins.

#![deny(missing_docs)]
#![forbid(unsafe_code)]

pub mod alert_replay;
pub mod alert_score;
pub mod compare;
pub mod curves;
mod draw;
pub mod events;
pub mod facts;
pub mod failures;
mod figures;
pub mod find;
pub mod follow;
pub mod group;
pub mod histograms;
mod label;
pub mod layers;
pub mod observed;
pub mod page;
mod pairs;
pub mod power;
mod ranking;
pub mod records;
pub mod run;
pub mod series;
mod sets;
pub mod stats;
pub mod table;
pub mod tables;
mod tail;
#[cfg(test)]
mod tests;

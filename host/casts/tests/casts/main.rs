//! Casts compared with definitions in exact arithmetic, and computed by hand at their edges.
//!
//! The definitions here are written with f64, which holds products and ratios of two f32 exactly or rounds them
//! harmlessly, and with integers. They share nothing with the crate but the formats' values.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod by_hand;
mod definitions;
mod edges;
mod extremes;
mod microexponents;
mod of_matrix;
mod rounding;
mod support;

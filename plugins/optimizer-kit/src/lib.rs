//! Common code of the Adam family of optimizers: options, moments, decay, checks, the geometry of grids, and the loop.
//!
//! An optimizer chooses a [`ElementRule`], the update of one element, and [`Buffers::update`] runs it over a parameter
//! in one pass without temporaries, compiled for several SIMD widths. Rules use a [`Geometry`] for the spacing at a
//! weight, or a [`Chart`] to move a number of codes along the grid. A call computes on the calling thread: threads
//! belong to the host, which may update several parameters at once.
//!
//! See also: [`adam`] for options and moments, [`rule`] for the update rules, [`one_state`] for optimizers with one
//! state, [`codes`] for the geometry of a minifloat, [`smooth`] for the asinh chart, [`values`] for decode tables,
//! [`device`] for GPUs, [`decay`] for weight decay, [`feedback`] for weights without a master copy, [`grid`] for
//! parameters without a format, [`testing`] for the tests of an optimizer.

#![deny(missing_docs)]

pub mod adam;
pub mod buffers;
pub mod codes;
pub mod decay;
pub mod device;
mod exp;
pub mod feedback;
mod geometry;
pub mod grid;
#[rustfmt::skip] // Generated.
mod kernel_texts;
mod moments;
pub mod one_state;
pub mod rule;
pub mod smooth;
pub mod testing;
pub mod values;
mod whole;

pub use adam::Adam;
pub use buffers::Buffers;
pub use decay::Decay;
pub use feedback::ErrorFeedback;
pub use moments::Moments;
pub use rule::{Chart, ElementRule, Geometry};

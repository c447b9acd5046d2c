//! What the Adam family of optimizers shares: options, moments, decay, checks, the geometry of grids, and the loop.
//!
//! An optimizer chooses a [`Rule`], what happens to one element, and [`Buffers::update`] runs it over a parameter: one pass,
//! no temporaries, compiled for several SIMD widths. Rules ask a [`Geometry`] for the spacing at a weight, or a [`Chart`]
//! to go a number of codes along the grid. A call computes on the thread it comes from: threads are the host's, which may update
//! several parameters at once.
//!
//! Where to go next: [`adam`] for options and moments, [`rule`] for what the optimizers do, [`one_state`] for
//! those with one state, [`codes`] for the geometry of a
//! minifloat, [`smooth`] for the asinh chart, [`values`] for decode tables, [`device`] for GPUs, [`decay`] for weight decay, [`feedback`] for
//! weights without a master copy, [`grid`] for parameters without a format, [`testing`] for the tests of an optimizer.

#![deny(missing_docs)]

pub mod adam;
pub mod buffers;
pub mod codes;
pub mod decay;
pub mod device;
mod exp;
pub mod feedback;
pub mod grid;
pub mod one_state;
pub mod rule;
mod simd;
pub mod smooth;
pub mod testing;
pub mod values;
mod whole;

pub use adam::{Adam, Moments};
pub use buffers::Buffers;
pub use decay::Decay;
pub use feedback::ErrorFeedback;
pub use rule::{Chart, Geometry, Rule};

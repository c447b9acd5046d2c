//! Casts: the conversion of an f32 matrix to codes of a number format, to scales, and to the values that they
//! represent.
//!
//! A [`Cast`] defines the elements that share a scale ([`Block`]), the rule of the scale ([`Rule`]), its storage
//! ([`Storage`]), and the rounding of elements ([`Rounding`]). Published recipes for training in low precision are
//! choices of these. The arithmetic is f32 in the order of the sources, so that results are bit-identical to theirs.
//!
//! A cast has two halves. [`Cast::prepare`] computes scales and scaled elements; the caller rounds them to codes, with
//! a plugin or with [`Grid::rounder`]; [`Prepared::finish`] turns codes back into values.
//!
//! ```
//! use altgrad_casts::{Axis, Block, Cast, Grid, Rule, Shape, Storage};
//! use altgrad_plugin_api::{Conventions, Domain, FormatSpec, QuantParams, RandomKey, grid::minifloat};
//!
//! // MXFP8: E4M3 in blocks of 32 with E8M0 scales.
//! let spec = FormatSpec::Minifloat(minifloat(4, 3, Domain::FN)?);
//! let grid = Grid::new(&spec, &Conventions::default())?;
//! let mut cast = Cast { block: Block::Along(32), ..Cast::default() };
//! cast.scaling.rule = Rule::Rceil;
//! cast.scaling.storage = Storage::E8m0;
//! let shape = Shape { rows: 1, columns: 32 };
//! let prepared = cast.prepare(&grid, &[3.0; 32], shape, Axis::Rows, &RandomKey::default())?;
//! let rounder = grid.rounder()?;
//! let codes = cast.codes(&grid, prepared.scaled(), &RandomKey::default(), |scaled, mode| {
//!     let mut codes = vec![0; scaled.len()];
//!     let params = QuantParams { rounding: mode, ..QuantParams::IDENTITY };
//!     rounder.encode(scaled, &mut codes, &params).map(|()| codes)
//! })?;
//! let applied = prepared.finish(&grid, codes)?;
//! assert_eq!((applied.values[0], applied.scales[0]), (3.0, 1.0 / 128.0));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! This crate does not depend on run files, plugins or tensors of a device. Definitions: docs/numerics.md, section 4.5.

#![deny(missing_docs)]
#![forbid(unsafe_code)]

mod bf16;
mod block_choice;
mod block_scale;
mod blocks;
mod candidates;
mod cast;
mod center;
mod choice;
pub mod design;
mod error;
mod few_bits;
mod grid;
mod hadamard;
mod microexponents;
mod nested;
mod overflow;
mod own_blocks;
mod powers;
mod prepared;
pub mod proof;
mod range;
mod rounding;
mod scale_rule;
mod scale_storage;
mod scale_type;
mod scaling;
mod shape;
mod sums;
mod two_levels;

pub use bf16::nearest_bf16;
pub use blocks::{Axis, Block, BlockGrid};
pub use candidates::{ErrorNorm, ScaleChoice};
pub use cast::{Cast, Overflow};
pub use center::Centered;
pub use error::CastError;
pub use few_bits::{FewBits, FewBitsMode};
pub use grid::Grid;
pub use hadamard::{Hadamard, SIGNS_OFFSET, Signs};
pub use microexponents::Microexponents;
pub use overflow::{exceeds, overflow_codes};
pub use own_blocks::BlockMagnitude;
pub use prepared::{Applied, Prepared};
pub use range::Range;
pub use rounding::Rounding;
pub use scale_rule::{BlockStatistics, Rule};
pub use scale_type::{ScaleRounding, ScaleType};
pub use scaling::{Limit, NonFinite, Operation, Order, Scaling, Storage, ZeroBlock};
pub use shape::Shape;
pub use sums::{Addends, LimitedSum, Panels};
pub use two_levels::TensorScale;

//! The checks themselves, by subject. The table in the crate's root lists them with their requirements.

pub(crate) mod blocks;
pub(crate) mod codes;
pub(crate) mod fuzz;
pub(crate) mod identity;
pub(crate) mod kernels;
pub(crate) mod laws;
pub(crate) mod magnitudes;
pub(crate) mod memory;
pub(crate) mod order;
pub(crate) mod random;
pub(crate) mod rounding;
pub(crate) mod shapes;
pub(crate) mod statistics;
pub(crate) mod together;

//! Operations on devices against their definitions and the CPU: one binary, because each with GPU support is large.

mod counts;
mod histograms;
mod linear;
mod rounding;
mod scales;
mod sums;

//! Sweeps: the matrix, its runs in processes of their own, kills, and Slurm.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod kills;
mod matrix;
mod slurm;

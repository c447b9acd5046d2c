//! `cargo xtask kernels`: the kernel texts that formats and optimizers carry.
//!
//! A program of its own makes them, so that nothing else waits for cubecl to be built.

use std::io;

use crate::{cargo, code};

pub fn run(args: &[String]) -> Result<u8, io::Error> {
    let mut command = cargo();
    command.args(["run", "--quiet", "--package", "altgrad-kernel-generator", "--"]).args(args);
    Ok(code(command.status()?))
}

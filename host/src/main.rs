//! The `altgrad-host` binary: see [`altgrad_host::cli`].

use std::process::ExitCode;

fn main() -> ExitCode {
    altgrad_host::cli::main()
}

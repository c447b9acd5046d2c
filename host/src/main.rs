//! The `altgrad-host` binary: see [`altgrad_host::cli`].

use std::process::ExitCode;

/// Keeps freed pages for the next step: steps make the same tensors again and again.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    altgrad_host::cli::main()
}

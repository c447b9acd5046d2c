//! The `altgrad-host` binary: see [`altgrad_host`].

use std::process::ExitCode;

/// Steps make the same large tensors again and again: their pages are kept from one to the next.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    altgrad_host::main()
}

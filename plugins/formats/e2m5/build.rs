//! Compiles the kernels around `src/kernel.rs` to text.

#[path = "src/kernel.rs"]
mod kernel;

fn main() {
    altgrad_kernel_kit::build::<kernel::E2M5>();
}

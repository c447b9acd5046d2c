//! Compiles the update's kernels to text.

use altgrad_kernel_kit::Rule;

fn main() {
    altgrad_kernel_kit::build_updates(&[Rule::Plain]);
}

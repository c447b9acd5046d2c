//! By which rules it updates on a device. No part of the library: `kernel_texts.rs` is made from it.

use altgrad_kernel_kit::Rule;

/// All rules that the options can select.
pub const RULES: [Rule; 1] = [Rule::Plain];

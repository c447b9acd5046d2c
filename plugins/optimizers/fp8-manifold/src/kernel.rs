//! By which rules it updates on a device. No part of the library: `kernel_texts.rs` is made from it.

use altgrad_kernel_kit::Rule;

/// All rules that the options can select.
pub const RULES: [Rule; 5] = [Rule::Plain, Rule::Exp, Rule::Linear, Rule::SmoothExp, Rule::SmoothLinear];

//! The widths of the MLP.

use altgrad_config::MlpChoice;

/// Widths are rounded up to a multiple of this, which blocks of 16 elements divide.
const MULTIPLE: usize = 16;

/// Channels between the two halves of an MLP: `4 n_embd` with GELU; with a gate `8/3 n_embd`, rounded up to a multiple
/// of 16, so that it has about as many weights.
#[must_use]
pub fn hidden_width(choice: MlpChoice, n_embd: usize) -> usize {
    match choice {
        MlpChoice::Gelu => 4 * n_embd,
        MlpChoice::Swiglu | MlpChoice::SmoothSwiglu => (8 * n_embd).div_ceil(3).next_multiple_of(MULTIPLE),
    }
}

/// Outputs of the first linear layer: the hidden channels, and as many gates.
#[must_use]
pub fn up_width(choice: MlpChoice, n_embd: usize) -> usize {
    let hidden = hidden_width(choice, n_embd);
    if choice == MlpChoice::Gelu { hidden } else { 2 * hidden }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_widths_are_eight_thirds_in_multiples_of_sixteen() {
        for (n_embd, hidden) in
            [(1, 16), (6, 16), (8, 32), (128, 352), (384, 1024), (768, 2048), (4096, 10_928)]
        {
            assert_eq!(hidden_width(MlpChoice::Swiglu, n_embd), hidden);
            assert_eq!(up_width(MlpChoice::SmoothSwiglu, n_embd), 2 * hidden);
        }
        assert_eq!((hidden_width(MlpChoice::Gelu, 128), up_width(MlpChoice::Gelu, 128)), (512, 512));
    }
}

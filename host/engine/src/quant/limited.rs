//! Products of codes in sums of limited width, on the CPU.

use altgrad_casts::{Addends, LimitedSum, Panels};
use altgrad_plugin_api::ValueGrid;
use burn::backend::{TensorMetadata, flex::FlexTensor};
use rayon::prelude::*;

use super::{CastParams, scale::scale_pairs};
use crate::tensor::cpu::{elements, from_elements, zeros};

/// The codes of a matrix as a cast has left them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AddendLayout {
    /// Rows and columns of the tiles that share a scale, where there is more than one scale.
    tile: [usize; 2],
    /// The least normal number of the format.
    lowest: f32,
    /// True if the product uses the matrix transposed.
    pub(super) is_transposed: bool,
}

impl AddendLayout {
    pub(super) fn of_cast(params: &CastParams) -> Self {
        let lowest = match params.quant.format.values() {
            ValueGrid::Minifloat(grid) => grid.min_normal().unwrap_or(f32::MIN_POSITIVE),
            ValueGrid::Table(_) => f32::MIN_POSITIVE,
        };
        Self { tile: params.arrangement.tile, lowest, is_transposed: false }
    }

    pub(super) fn transposed(self) -> Self {
        Self { is_transposed: !self.is_transposed, ..self }
    }

    /// The operand of a matrix with its scales: its rows, or columns if it is transposed, as rows of terms.
    fn addends(self, (values, scales): (FlexTensor, Option<FlexTensor>), sum: &LimitedSum) -> Addends {
        let [rows, columns] = [values.shape()[0], values.shape()[1]];
        let (values, scales) = (values.to_contiguous(), scales.map(|scales| scales.to_contiguous()));
        let values = elements(&values);
        let pairs = scales.as_ref().map_or(&[[1.0; 2]][..], |scales| scale_pairs(elements(scales)));
        let [down, along] = self.tile;
        let tiles = columns.div_ceil(along);
        let element = |row: usize, column: usize| {
            let pair = if pairs.len() == 1 { pairs[0] } else { pairs[row / down * tiles + column / along] };
            (values[row * columns + column], pair)
        };
        if self.is_transposed {
            return Addends::new(sum, [columns, rows], self.lowest, |row, term| element(term, row));
        }
        Addends::new(sum, [rows, columns], self.lowest, element)
    }
}

/// A matrix of codes: its values and scales, and their layout.
type Codes = ((FlexTensor, Option<FlexTensor>), AddendLayout);

/// `a b^T`, on all threads.
pub(super) fn matmul((a, a_layout): Codes, (b, b_layout): Codes, sum: &LimitedSum) -> FlexTensor {
    let extent = |x: &FlexTensor, layout: AddendLayout| x.shape()[usize::from(layout.is_transposed)];
    let shape = [extent(&a.0, a_layout), extent(&b.0, b_layout)];
    let (a, b) = rayon::join(|| a_layout.addends(a, sum), || Panels::new(sum, b_layout.addends(b, sum)));
    let mut y = zeros(shape[0] * shape[1]);
    let rows = shape[0].div_ceil(4 * rayon::current_num_threads()).max(1);
    let strips = y.par_chunks_mut((rows * shape[1]).max(1)).enumerate();
    strips.for_each(|(strip, y)| sum.multiply(y, &a, strip * rows, &b));
    from_elements(y, shape.into())
}

//! Products of codes in sums of limited width, on the CPU.

use altgrad_casts::{Addends, LimitedSum, Panels};
use altgrad_plugin_api::ValueGrid;
use burn::backend::{Backend, TensorMetadata, flex::FlexTensor, tensor::FloatTensor};
use rayon::prelude::*;

use super::{
    CastParams,
    scale::{ScaleRule, ScaleSource, scale_pairs},
};
use crate::tensor::cpu::{elements, from_elements, zeros};

/// The codes of a matrix as a cast has left them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AddendLayout {
    /// Rows and columns of the tiles that share a scale, where there is more than one scale.
    tile: [usize; 2],
    /// The least normal number of the format.
    lowest: f32,
    /// The rule of the blocks' scales, for sums of blocks.
    blocks: Option<ScaleRule>,
    /// True if the product uses the matrix transposed.
    pub(super) is_transposed: bool,
}

/// Scales, `[groups, 2]`, and a last row with the tensor's largest magnitude, the first of the words of statistics.
pub(super) fn with_amax<B: Backend>(scales: FloatTensor<B>, words: FloatTensor<B>) -> FloatTensor<B> {
    let amax = B::float_reshape(B::float_slice(words, &[(0..1).into()]), [1, 1].into());
    B::float_cat(vec![scales, B::float_expand(amax, [1, 2].into())], 0)
}

impl AddendLayout {
    /// The layout of the codes of a cast in these sums.
    pub(super) fn of_cast(params: &CastParams, sum: &LimitedSum) -> Self {
        let blocks = match params.quant.scale {
            ScaleSource::Dynamic(rule) => Some(rule).filter(|_| sum.exact.is_some()),
            ScaleSource::Fixed(_) => None,
        };
        let lowest = match params.quant.format.values() {
            ValueGrid::Minifloat(grid) => grid.min_normal().unwrap_or(f32::MIN_POSITIVE),
            ValueGrid::Table(_) => f32::MIN_POSITIVE,
        };
        Self { tile: params.arrangement.tile, lowest, blocks, is_transposed: false }
    }

    /// True if scales need a last row ([`with_amax`]).
    pub(super) fn needs_amax(&self) -> bool {
        self.blocks.is_some_and(|rule| rule.scaling.tensor)
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
        let (pairs, amax) = match pairs.split_last() {
            Some(([amax, _], pairs)) if self.needs_amax() => (pairs, *amax),
            _ => (pairs, 0.0),
        };
        let [down, along] = self.tile;
        let tiles = columns.div_ceil(along);
        let element = |row: usize, column: usize| {
            let pair = if pairs.len() == 1 { pairs[0] } else { pairs[row / down * tiles + column / along] };
            (values[row * columns + column], pair)
        };
        if let Some(ScaleRule { scaling, range, .. }) = self.blocks {
            let tensor = scaling.tensor_scale_of_amax(&range, amax);
            let factor = tensor.as_ref().map_or(1.0, |tensor| scaling.stored_tensor_scale(tensor));
            let ends = (scaling.least_normal_scale(), factor);
            let stored = |row: usize, column: usize| {
                let (value, [encode, decode]) = element(row, column);
                (value, [encode, scaling.stored_scale(decode, tensor.as_ref())])
            };
            if self.is_transposed {
                return Addends::of_blocks(sum, [columns, rows], ends, |row, term| stored(term, row));
            }
            return Addends::of_blocks(sum, [rows, columns], ends, stored);
        }
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

//! Matrix products on all threads.
//!
//! Each thread computes a strip of the result's rows: threads synchronise once per product, and packed operands stay in
//! the thread's own cache. Operands are read in place, transposed or not.

use burn::backend::flex::FlexTensor;
use rayon::prelude::*;

use super::cpu::{from_elements, zeros};
use crate::matrix::{self, Matrix, MatrixMut};

/// Products with fewer multiplications run on one thread.
const SINGLE_THREAD: usize = 1 << 18;
/// Rows of a strip are a multiple of this, which fills the registers of the innermost loop.
const ROWS: usize = 32;

/// `a b`. Shapes: `[m, k]`, `[k, n]`, result `[m, n]`.
pub fn matmul(a: &FlexTensor, b: &FlexTensor) -> FlexTensor {
    let shape = [dims(a)[0], dims(b)[1]];
    let mut y = zeros(shape[0] * shape[1]);
    multiply(&mut y, matrix(a), matrix(b), false);
    from_elements(y, shape.into())
}

/// Terms of an element that are added at once. Products computed in parts of this many terms have the same bits.
pub const INNER: usize = 1024;

/// `to = a b`, or `to += a b` if `add` is true; `to` has the result's rows one after the other.
///
/// # Panics
/// The shapes do not match.
pub fn multiply(to: &mut [f32], a: Matrix<'_>, b: Matrix<'_>, add: bool) {
    let ([rows, inner], [_, columns]) = (a.shape(), b.shape());
    let work = rows * inner * columns;
    let strips = if work < SINGLE_THREAD { 1 } else { rayon::current_num_threads() };
    let strip = rows.div_ceil(strips).next_multiple_of(ROWS);
    to.par_chunks_mut((strip * columns).max(1)).enumerate().for_each(|(index, to)| {
        let (first, rows) = (index * strip, to.len() / columns);
        let a = a.some_rows(first, rows);
        for from in (0..inner.max(1)).step_by(INNER) {
            let len = INNER.min(inner - from);
            let (a, b) = (a.transposed().some_rows(from, len).transposed(), b.some_rows(from, len));
            matrix::multiply(MatrixMut::rows(to, rows, columns, columns), a, b, add || from > 0);
        }
    });
}

fn dims(x: &FlexTensor) -> [usize; 2] {
    x.layout().shape().dims()
}

/// A view of a tensor's elements.
fn matrix(x: &FlexTensor) -> Matrix<'_> {
    let layout = x.layout();
    // Views of the host's tensors are cuts and transpositions, never reversals.
    let strides = [layout.strides()[0].unsigned_abs(), layout.strides()[1].unsigned_abs()];
    Matrix::new(&x.storage::<f32>()[layout.start_offset()..], dims(x), strides)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::testing::numbers;

    fn tensor(values: &[f32], shape: [usize; 2]) -> FlexTensor {
        from_elements(values.to_vec(), shape.into())
    }

    /// Against f64, operands as they are and transposed, in one strip and in several.
    #[test]
    fn products_of_all_layouts_are_those_in_f64() {
        for [m, k, n] in [[1, 1, 1], [3, 5, 2], [33, 7, 65], [300, 129, 70]] {
            let (a, b) = (numbers(1, m * k), numbers(2, k * n));
            let turned = |x: &[f32], [rows, columns]: [usize; 2]| -> Vec<f32> {
                (0..rows * columns).map(|at| x[at % rows * columns + at / rows]).collect()
            };
            let transposed = |x: FlexTensor| x.transpose(0, 1);
            let left = [tensor(&a, [m, k]), transposed(tensor(&turned(&a, [m, k]), [k, m]))];
            let right = [tensor(&b, [k, n]), transposed(tensor(&turned(&b, [k, n]), [n, k]))];
            for (left, right) in left.iter().flat_map(|left| right.iter().map(move |right| (left, right))) {
                let y = matmul(left, right);
                let y = y.storage::<f32>();
                for (at, y) in y.iter().enumerate() {
                    let terms = (0..k).map(|i| f64::from(a[at / n * k + i]) * f64::from(b[i * n + at % n]));
                    let (sum, size) = terms.fold((0.0, 1e-9), |(sum, size), x| (sum + x, size + x.abs()));
                    assert!((f64::from(*y) - sum).abs() < 1e-6 * size, "[{m}, {k}, {n}] at {at}: {y}, {sum}");
                }
            }
        }
    }
}

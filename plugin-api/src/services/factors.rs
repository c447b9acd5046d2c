//! Factorizations of small matrices, in f64, by plain loops: QR by Gram and Schmidt, Jacobi's eigenvectors, Cholesky's
//! factor.

use super::FactorOp;
use crate::PluginError;

/// Rounds of Jacobi rotations; a dozen is enough for matrices of a few thousand rows.
const MOST_ROUNDS: usize = 60;

/// Extents and elements of a matrix, row by row.
pub(super) type Elements = ([usize; 2], Vec<f32>);

/// The factors of a matrix, in the order that [`FactorOp`] says; `None` if the operation is unknown. The shape is
/// already checked, and all elements are finite.
///
/// # Errors
/// The matrix has no such factors.
pub(super) fn factors(
    op: FactorOp,
    shape: [usize; 2],
    values: &[f32],
) -> Option<Result<Vec<Elements>, PluginError>> {
    let wide = Wide { shape, values: values.iter().map(|&x| f64::from(x)).collect() };
    Some(match op {
        FactorOp::QR => Ok(qr(wide)),
        FactorOp::EIGEN => Ok(eigen(wide)),
        FactorOp::CHOLESKY => cholesky(&wide).map(|factor| vec![factor]),
        _ => return None,
    })
}

/// A matrix in f64, row by row.
struct Wide {
    shape: [usize; 2],
    values: Vec<f64>,
}

impl Wide {
    fn identity(n: usize) -> Self {
        let values = (0..n * n).map(|i| if i / n == i % n { 1.0 } else { 0.0 }).collect();
        Self { shape: [n, n], values }
    }

    fn at(&mut self, row: usize, column: usize) -> &mut f64 {
        &mut self.values[row * self.shape[1] + column]
    }

    /// The same in f32, row `i` at place `order[i]`, as columns.
    fn columns(&self, order: &[usize]) -> Elements {
        let n = order.len();
        let values = (0..self.shape[1] * n).map(|i| self.values[order[i % n] * self.shape[1] + i / n] as f32);
        ([self.shape[1], n], values.collect())
    }
}

/// Columns are orthogonalized one after the other, each twice (Gram and Schmidt). A column that depends on those before
/// it has zeros in R and becomes some unit vector that is orthogonal to them.
fn qr(mut x: Wide) -> Vec<Elements> {
    let [rows, columns] = x.shape;
    // Row i is column i.
    let mut q = Wide { shape: [columns, rows], values: vec![0.0; rows * columns] };
    for i in 0..rows * columns {
        let (row, column) = (i / columns, i % columns);
        *q.at(column, row) = *x.at(row, column);
    }
    let mut r = vec![0f64; columns * columns];
    for i in 0..columns {
        let (done, rest) = q.values.split_at_mut(i * rows);
        let column = &mut rest[..rows];
        let length = norm(column);
        for axis in std::iter::once(None).chain((0..rows).map(Some)) {
            if let Some(axis) = axis {
                column.fill(0.0);
                column[axis] = 1.0;
            }
            for _ in 0..2 {
                for (j, other) in done.chunks(rows).enumerate() {
                    let share = dot(column, other);
                    column.iter_mut().zip(other).for_each(|(x, other)| *x -= share * other);
                    if axis.is_none() {
                        r[j * columns + i] += share;
                    }
                }
            }
            let left = norm(column);
            let least = if axis.is_none() { 1e-12 * length } else { 0.5 / (rows as f64).sqrt() };
            if left > least || left.is_nan() {
                column.iter_mut().for_each(|x| *x /= left);
                if axis.is_none() {
                    r[i * columns + i] = left;
                }
                break;
            }
        }
    }
    let order: Vec<usize> = (0..columns).collect();
    let r = r.into_iter().map(|x| x as f32).collect();
    vec![q.columns(&order), ([columns, columns], r)]
}

/// Cyclic Jacobi rotations (Golub and Van Loan, Matrix Computations, section 8.5).
fn eigen(mut a: Wide) -> Vec<Elements> {
    let n = a.shape[0];
    for i in 0..n {
        for j in 0..i {
            *a.at(j, i) = *a.at(i, j);
        }
    }
    let total = norm(&a.values);
    // Row i is eigenvector i.
    let mut vectors = Wide::identity(n);
    for _ in 0..MOST_ROUNDS {
        let mut off = 0f64;
        for p in 0..n {
            for q in p + 1..n {
                let x = *a.at(p, q);
                off += x * x;
                if x.abs() <= 1e-18 * total {
                    continue;
                }
                let ratio = (*a.at(q, q) - *a.at(p, p)) / (2.0 * x);
                let t = ratio.signum() / (ratio.abs() + ratio.hypot(1.0));
                let cos = 1.0 / t.hypot(1.0);
                rotate(&mut a, [p, q], [cos, t * cos]);
                let turned = |x: &mut Wide| {
                    for k in 0..n {
                        let (x_p, x_q) = (*x.at(k, p), *x.at(k, q));
                        *x.at(k, p) = cos * x_p - t * cos * x_q;
                        *x.at(k, q) = t * cos * x_p + cos * x_q;
                    }
                };
                turned(&mut a);
                rotate(&mut vectors, [p, q], [cos, t * cos]);
            }
        }
        if off.sqrt() <= 1e-15 * total {
            break;
        }
    }
    let mut order: Vec<usize> = (0..n).collect();
    let value = |i: usize| a.values[i * n + i];
    order.sort_by(|&i, &j| value(i).total_cmp(&value(j)));
    for row in vectors.values.chunks_mut(n.max(1)) {
        let largest = row.iter().fold(0f64, |most, &x| if x.abs() > most.abs() { x } else { most });
        if largest < 0.0 {
            row.iter_mut().for_each(|x| *x = -*x);
        }
    }
    let values = order.iter().map(|&i| value(i) as f32).collect();
    vec![([1, n], values), vectors.columns(&order)]
}

/// Rotates two rows.
fn rotate(x: &mut Wide, [p, q]: [usize; 2], [cos, sin]: [f64; 2]) {
    for k in 0..x.shape[1] {
        let (x_p, x_q) = (*x.at(p, k), *x.at(q, k));
        *x.at(p, k) = cos * x_p - sin * x_q;
        *x.at(q, k) = sin * x_p + cos * x_q;
    }
}

fn cholesky(a: &Wide) -> Result<Elements, PluginError> {
    let n = a.shape[0];
    let mut factor = vec![0f64; n * n];
    for i in 0..n {
        for j in 0..=i {
            let done = dot(&factor[i * n..i * n + j], &factor[j * n..j * n + j]);
            let left = a.values[i * n + j] - done;
            factor[i * n + j] = if i > j {
                left / factor[j * n + j]
            } else if left > 0.0 {
                left.sqrt()
            } else {
                return Err(PluginError::new(crate::ErrorKind::VALUE, "the matrix is not positive definite"));
            };
        }
    }
    Ok(([n, n], factor.into_iter().map(|x| x as f32).collect()))
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn norm(x: &[f64]) -> f64 {
    dot(x, x).sqrt()
}

//! Dense matrices in f64, row by row, for SOAP, on the calling thread: products and QR in plain loops, eigenvectors by
//! nalgebra.

use nalgebra::{DMatrix, SymmetricEigen};

/// A matrix of `rows` by `columns`.
#[derive(Debug, Clone, PartialEq)]
pub struct Dense {
    /// Number of rows.
    pub rows: usize,
    /// Number of columns.
    pub columns: usize,
    /// Row by row.
    pub values: Vec<f64>,
}

impl Dense {
    /// The first `rows * columns` of some numbers.
    pub fn from_numbers(rows: usize, columns: usize, numbers: impl Iterator<Item = f64>) -> Self {
        Self { rows, columns, values: numbers.take(rows * columns).collect() }
    }

    /// The identity.
    pub fn identity(n: usize) -> Self {
        let values = (0..n * n).map(|i| if i / n == i % n { 1.0 } else { 0.0 }).collect();
        Self { rows: n, columns: n, values }
    }

    fn row(&self, row: usize) -> &[f64] {
        &self.values[row * self.columns..(row + 1) * self.columns]
    }

    /// Rows as columns.
    pub fn transposed(&self) -> Self {
        let numbers =
            (0..self.values.len()).map(|i| self.values[i % self.rows * self.columns + i / self.rows]);
        Self::from_numbers(self.columns, self.rows, numbers)
    }

    /// The product `self other`.
    pub fn times(&self, other: &Self) -> Self {
        let mut values = vec![0.0; self.rows * other.columns];
        for i in 0..self.rows {
            let to = &mut values[i * other.columns..(i + 1) * other.columns];
            for (k, &factor) in self.row(i).iter().enumerate() {
                for (to, x) in to.iter_mut().zip(other.row(k)) {
                    *to += factor * x;
                }
            }
        }
        Self { rows: self.rows, columns: other.columns, values }
    }

    /// The orthogonal factor of the QR decomposition of a square matrix whose diagonal R has no negative numbers: Gram
    /// and Schmidt's process on columns, each twice. A column that depends on those before it becomes a unit vector
    /// orthogonal to them.
    pub fn orthonormal(&self) -> Self {
        let mut columns = self.transposed();
        let n = columns.columns;
        for i in 0..n {
            let (done, rest) = columns.values.split_at_mut(i * n);
            let column = &mut rest[..n];
            let length = norm(column);
            // The column itself, and then the axes, until one is left over.
            for axis in std::iter::once(None).chain((0..n).map(Some)) {
                if let Some(axis) = axis {
                    column.fill(0.0);
                    column[axis] = 1.0;
                }
                for _ in 0..2 {
                    for other in done.chunks(n) {
                        let share: f64 = column.iter().zip(other).map(|(a, b)| a * b).sum();
                        column.iter_mut().zip(other).for_each(|(a, b)| *a -= share * b);
                    }
                }
                let left = norm(column);
                let least = if axis.is_none() { 1e-12 * length } else { 0.5 / (n as f64).sqrt() };
                if left > least || left.is_nan() {
                    column.iter_mut().for_each(|x| *x /= left);
                    break;
                }
            }
        }
        columns.transposed()
    }

    /// The columns in another order.
    pub fn with_columns(&self, order: &[usize]) -> Self {
        let n = self.columns;
        let numbers = (0..self.values.len()).map(|at| self.values[at / n * n + order[at % n]]);
        Self::from_numbers(self.rows, n, numbers)
    }

    /// The order of columns `q` in which their shares `q^T A q` descend; `product` is `A` times this matrix.
    pub fn order_by_share(&self, product: &Self) -> Vec<usize> {
        let mut shares = vec![0.0; self.columns];
        for i in 0..self.rows {
            for (share, (q, turned)) in shares.iter_mut().zip(self.row(i).iter().zip(product.row(i))) {
                *share += q * turned;
            }
        }
        descending(&shares)
    }

    /// The eigenvectors of a symmetric matrix as columns, that of the largest eigenvalue first; `None` if the iteration
    /// does not converge. A matrix that is not finite gives the axes.
    pub fn eigenvectors(&self) -> Option<Self> {
        let n = self.rows;
        if self.values.iter().any(|x| !x.is_finite()) {
            return Some(Self::identity(n));
        }
        let matrix = DMatrix::from_row_slice(n, n, &self.values);
        let found = SymmetricEigen::try_new(matrix, f64::EPSILON, ITERATIONS * n)?;
        // One eigenvector after the other, so as rows.
        let rows = Self::from_numbers(n, n, found.eigenvectors.iter().copied());
        Some(rows.transposed().with_columns(&descending(found.eigenvalues.as_slice())))
    }
}

/// QR iterations per eigenvalue: about two are usual.
const ITERATIONS: usize = 64;

/// The indices of numbers, that of the largest first.
fn descending(numbers: &[f64]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..numbers.len()).collect();
    order.sort_by(|&i, &j| numbers[j].total_cmp(&numbers[i]));
    order
}

fn norm(x: &[f64]) -> f64 {
    x.iter().map(|x| x * x).sum::<f64>().sqrt()
}

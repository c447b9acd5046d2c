//! Dense matrices in f64, row by row, and their eigenvectors, for SOAP, in plain loops on the calling thread.

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

    /// The orthogonal factor of the QR decomposition of a square matrix whose diagonal R has no negative numbers: Gram and Schmidt's process on
    /// columns, each twice. A column that depends on those before it becomes a unit vector orthogonal to them.
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

    /// The eigenvectors of a symmetric matrix as columns, that of the largest eigenvalue first, by Jacobi's rotations (Golub & Van Loan, Matrix
    /// Computations, section 8.5). Orthogonal iteration keeps that order.
    pub fn eigenvectors(&self) -> Self {
        let n = self.rows;
        let (mut a, mut vectors) = (self.values.clone(), Self::identity(n).values);
        for _ in 0..SWEEPS {
            let off: f64 = (0..n * n).filter(|i| i / n != i % n).map(|i| a[i] * a[i]).sum();
            let all: f64 = a.iter().map(|x| x * x).sum();
            if off <= 1e-30 * all || !all.is_finite() {
                break;
            }
            for p in 0..n {
                for q in p + 1..n {
                    rotate(&mut a, &mut vectors, n, (p, q));
                }
            }
        }
        let mut order: Vec<usize> = (0..n).collect();
        order.sort_by(|&i, &j| a[j * n + j].total_cmp(&a[i * n + i]));
        let numbers = (0..n * n).map(|at| vectors[at / n * n + order[at % n]]);
        Self::from_numbers(n, n, numbers)
    }
}

/// More than any matrix takes.
const SWEEPS: usize = 30;

fn norm(x: &[f64]) -> f64 {
    x.iter().map(|x| x * x).sum::<f64>().sqrt()
}

/// Makes element (p, q) of the symmetric `a` zero; `vectors` takes part in the rotation.
fn rotate(a: &mut [f64], vectors: &mut [f64], n: usize, (p, q): (usize, usize)) {
    let apq = a[p * n + q];
    if apq == 0.0 {
        return;
    }
    let tau = (a[q * n + q] - a[p * n + p]) / (2.0 * apq);
    let t = tau.signum() / (tau.abs() + (1.0 + tau * tau).sqrt());
    let c = 1.0 / (1.0 + t * t).sqrt();
    let s = t * c;
    let turn = |x: &mut [f64], i: usize, j: usize| {
        let (u, v) = (x[i], x[j]);
        (x[i], x[j]) = (c * u - s * v, s * u + c * v);
    };
    for k in 0..n {
        turn(a, k * n + p, k * n + q);
        turn(vectors, k * n + p, k * n + q);
    }
    for k in 0..n {
        turn(a, p * n + k, q * n + k);
    }
}

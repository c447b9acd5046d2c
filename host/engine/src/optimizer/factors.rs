//! Factors of matrices for optimizers, in main memory and f64: [`FactorOp`] by nalgebra.

use altgrad_plugin_api::{ErrorKind, FactorOp, PluginError, services::plain::PlainMatrix};
use nalgebra::{Cholesky, DMatrix, QR, SymmetricEigen};

/// QR iterations per eigenvalue: about two are usual.
const ITERATIONS: usize = 64;

/// The factors of a matrix that has elements and a shape with such factors; `None` if the operation is unknown.
///
/// # Errors
/// The matrix has no such factors, or the iteration does not converge.
pub(super) fn factors(op: FactorOp, x: &PlainMatrix) -> Option<Result<Vec<PlainMatrix>, PluginError>> {
    if let Some(factors) = x.nan_factors(op) {
        return Some(Ok(factors));
    }
    let [rows, columns] = x.shape;
    let wide = DMatrix::from_row_iterator(rows, columns, x.values.iter().map(|&x| f64::from(x)));
    Some(match op {
        FactorOp::QR => Ok(qr(wide)),
        FactorOp::EIGEN => eigen(wide),
        FactorOp::CHOLESKY => Cholesky::new(wide)
            .map(|factor| vec![stored(&factor.l())])
            .ok_or_else(|| PluginError::new(ErrorKind::VALUE, "the matrix is not positive definite")),
        _ => return None,
    })
}

fn qr(x: DMatrix<f64>) -> Vec<PlainMatrix> {
    let (mut q, mut r) = QR::new(x).unpack();
    for i in 0..r.nrows() {
        if r[(i, i)] < 0.0 {
            q.column_mut(i).neg_mut();
            r.row_mut(i).neg_mut();
        }
    }
    vec![stored(&q), stored(&r)]
}

fn eigen(x: DMatrix<f64>) -> Result<Vec<PlainMatrix>, PluginError> {
    let n = x.nrows();
    let failed = || PluginError::new(ErrorKind::VALUE, "the eigenvectors of the matrix do not converge");
    let found = SymmetricEigen::try_new(x, f64::EPSILON, ITERATIONS * n).ok_or_else(failed)?;
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by(|&i, &j| found.eigenvalues[i].total_cmp(&found.eigenvalues[j]));
    let mut vectors = found.eigenvectors.select_columns(&order);
    for mut vector in vectors.column_iter_mut() {
        if vector[vector.icamax()] < 0.0 {
            vector.neg_mut();
        }
    }
    let values = order.iter().map(|&i| found.eigenvalues[i] as f32).collect();
    Ok(vec![PlainMatrix { shape: [1, n], values }, stored(&vectors)])
}

/// A matrix row by row, rounded to f32.
fn stored(x: &DMatrix<f64>) -> PlainMatrix {
    let shape = [x.nrows(), x.ncols()];
    PlainMatrix { shape, values: x.transpose().iter().map(|&x| x as f32).collect() }
}

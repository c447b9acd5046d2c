//! The orthogonal matrix near a matrix, by Newton-Schulz steps on the host's services.
//!
//! Five steps take singular values above about a hundredth of the norm to between 0.7 and 1.2 and keep singular
//! vectors. Smaller ones stay smaller, and those of a zero matrix stay zero.

use altgrad_plugin_api::{Axes, MapOp, Matrix, PluginError, ReduceOp, ZipOp};

/// Coefficients of a step `a x + (b (x x^T) + c (x x^T)^2) x`: the blog post's. They trade exactness for speed.
const COEFFICIENTS: [f32; 3] = [3.4445, -4.7750, 2.0315];
/// Keeps a zero matrix from being divided by its norm.
const TINY: f32 = 1e-7;

/// A matrix nearly orthogonal with `x`'s singular vectors. The products are made on the shorter side.
pub fn orthogonal<'a>(x: &Matrix<'a>, steps: i64) -> Result<Matrix<'a>, PluginError> {
    let [a, b, c] = COEFFICIENTS;
    let [rows, columns] = x.shape();
    let norm = x.reduce(ReduceOp::SUM_SQUARES, Axes::ALL)?.map(MapOp::SQRT)?.affine(1.0, TINY)?;
    let mut x = x.zip(ZipOp::DIV, &norm)?;
    for _ in 0..steps {
        let gram = if rows <= columns { x.matmul_transposed(&x)? } else { x.transposed_matmul(&x)? };
        let mix = gram.blend(b, &gram.matmul(&gram)?, c)?;
        let turned = if rows <= columns { mix.matmul(&x)? } else { x.matmul(&mix)? };
        x = x.blend(a, &turned, 1.0)?;
    }
    Ok(x)
}

//! The Kronecker factor of an axis and its eigenbasis: states of `k` x `k` numbers for an axis of `k` elements.

use altgrad_plugin_api::{Axes, Matrix, PluginError, ReduceOp, StateSpec, ZipOp};

/// An axis of a matrix that has a factor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FactorAxis {
    /// The rows, this many.
    Rows(u64),
    /// The columns, this many.
    Columns(u64),
}

impl FactorAxis {
    /// Its elements.
    pub fn extent(self) -> u64 {
        match self {
            Self::Rows(extent) | Self::Columns(extent) => extent,
        }
    }

    /// The states: the factor, and its basis.
    pub fn states(self) -> [StateSpec; 2] {
        let side = if let Self::Rows(_) = self { "rows" } else { "columns" };
        ["factor", "basis"]
            .map(|kind| StateSpec::zeros(&format!("{kind}_{side}")).of_shape(&[self.extent(); 2]))
    }

    /// The products of the rows, or columns, of a matrix with each other.
    pub fn gram<'a>(self, x: &Matrix<'a>) -> Result<Matrix<'a>, PluginError> {
        if let Self::Rows(_) = self { x.matmul_transposed(x) } else { x.transposed_matmul(x) }
    }

    /// A matrix in the basis of this axis.
    pub fn rotated<'a>(self, x: &Matrix<'a>, basis: &Matrix<'a>) -> Result<Matrix<'a>, PluginError> {
        if let Self::Rows(_) = self { basis.transposed_matmul(x) } else { x.matmul(basis) }
    }

    /// A matrix of that basis in the axis' own.
    pub fn rotated_back<'a>(self, x: &Matrix<'a>, basis: &Matrix<'a>) -> Result<Matrix<'a>, PluginError> {
        if let Self::Rows(_) = self { basis.matmul(x) } else { x.matmul_transposed(basis) }
    }

    /// A matrix in the basis of this axis whose directions take that order.
    pub fn reordered<'a>(self, x: &Matrix<'a>, order: &Matrix<'a>) -> Result<Matrix<'a>, PluginError> {
        if let Self::Rows(_) = self { x.transpose()?.gather(order)?.transpose() } else { x.gather(order) }
    }
}

/// The eigenvectors of a factor as columns, that of the largest eigenvalue first.
pub fn eigenvectors<'a>(factor: &Matrix<'a>) -> Result<Matrix<'a>, PluginError> {
    let [values, vectors] = factor.eigen()?;
    vectors.gather(&values.argsort()?)
}

/// The basis after another: its column `i` is what becomes of column `order[i]`, and `order` is the second result.
///
/// Eigenvalues that pass each other change the order. A step of orthogonal iteration finds the largest first, and would
/// take many steps to turn one direction into another. `damping`, in mean eigenvalues, is added to the diagonal of the
/// factor; `None` finds the eigenvectors from scratch.
pub fn next<'a>(
    factor: &Matrix<'a>,
    basis: &Matrix<'a>,
    damping: Option<f32>,
) -> Result<[Matrix<'a>; 2], PluginError> {
    let turned = factor.matmul(basis)?;
    let shares = basis.zip(ZipOp::MUL, &turned)?.reduce(ReduceOp::SUM, Axes::COLUMNS)?;
    let order = shares.argsort()?;
    let Some(damping) = damping else { return Ok([eigenvectors(factor)?, order]) };
    // The shares add up to the sum of the eigenvalues.
    let mean = 1.0 / shares.elements() as f32;
    let shift = shares.reduce(ReduceOp::SUM, Axes::ALL)?.affine(damping * mean, 0.0)?;
    let damped = turned.zip(ZipOp::ADD, &basis.zip(ZipOp::MUL, &shift)?)?;
    let [next, _] = damped.gather(&order)?.qr()?;
    Ok([next, order])
}

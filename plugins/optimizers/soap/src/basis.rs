//! The Kronecker factor of an axis and its eigenbasis: states of `k` x `k` numbers for an axis of `k` elements.

use altgrad_plugin_api::{ErrorKind, PluginError, StateSpec, Step};

use crate::square::Dense;

/// The change of a basis in an update.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Refresh {
    /// Nothing.
    None,
    /// It is found for the first time, and the update uses it.
    First,
    /// One step of orthogonal iteration, for the next update.
    Iterate {
        /// Added to the diagonal, in mean eigenvalues.
        damping: f64,
    },
    /// It is found from scratch, for the next update.
    Decompose,
}

/// The basis of an update, and the change of its order for the next one.
#[derive(Debug, Clone, PartialEq)]
pub struct Used {
    /// The basis.
    pub basis: Dense,
    /// The next basis has as direction `i` what becomes of direction `order[i]`; `None`: no direction has moved.
    pub order: Option<Vec<usize>>,
}

/// An axis of a matrix that has a factor.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FactorAxis {
    /// Its elements.
    pub extent: usize,
    left: bool,
}

impl FactorAxis {
    /// The rows of a matrix.
    pub fn rows(rows: u64) -> Self {
        Self { extent: rows as usize, left: true }
    }

    /// The columns.
    pub fn columns(columns: u64) -> Self {
        Self { extent: columns as usize, left: false }
    }

    /// The states: the factor, and its basis.
    pub fn states(self) -> [StateSpec; 2] {
        let side = if self.left { "rows" } else { "columns" };
        let extents = [self.extent as u64; 2];
        ["factor", "basis"].map(|kind| StateSpec::zeros(&format!("{kind}_{side}")).of_shape(&extents))
    }

    /// Takes a gradient into the factor and refreshes the basis.
    ///
    /// All updates but the first use the basis of the updates before them. Eigenvalues that pass each other change the
    /// order of directions: orthogonal iteration finds the largest first, and would take many steps to turn one
    /// direction into another.
    ///
    /// # Errors
    /// The eigenvectors do not converge.
    pub fn updated(
        self,
        gram: &mut [f32],
        basis: &mut [f32],
        gradient: &Dense,
        beta: f64,
        refresh: Refresh,
    ) -> Result<Used, PluginError> {
        let transposed = gradient.transposed();
        let product = if self.left { gradient.times(&transposed) } else { transposed.times(gradient) };
        let mut factor = self.matrix(gram);
        for (to, x) in factor.values.iter_mut().zip(&product.values) {
            *to = beta * *to + (1.0 - beta) * x;
        }
        store(&factor, gram);
        if refresh == Refresh::First {
            store(&eigenvectors(&factor)?, basis);
        }
        let used = self.matrix(basis);
        let (next, order) = match refresh {
            Refresh::None | Refresh::First => return Ok(Used { basis: used, order: None }),
            Refresh::Iterate { damping } => {
                let n = self.extent;
                let shift = damping * (0..n).map(|i| factor.values[i * n + i]).sum::<f64>() / n as f64;
                (0..n).for_each(|i| factor.values[i * n + i] += shift);
                let turned = factor.times(&used);
                let order = used.order_by_share(&turned);
                (turned.with_columns(&order).orthonormal(), order)
            }
            Refresh::Decompose => (eigenvectors(&factor)?, used.order_by_share(&factor.times(&used))),
        };
        store(&next, basis);
        Ok(Used { basis: used, order: Some(order) })
    }

    /// Gives values in the basis of this axis the order of the next one.
    pub fn reorder(self, values: &mut [f32], order: &[usize]) {
        let from = values.to_vec();
        let columns = if self.left { from.len() / self.extent } else { self.extent };
        for (at, to) in values.iter_mut().enumerate() {
            let (row, column) = (at / columns, at % columns);
            *to = match self.left {
                true => from[order[row] * columns + column],
                false => from[row * columns + order[column]],
            };
        }
    }

    /// A matrix in the basis of this axis.
    pub fn rotated(self, x: &Dense, basis: &Dense) -> Dense {
        if self.left { basis.transposed().times(x) } else { x.times(basis) }
    }

    /// A matrix of that basis in the axis' own.
    pub fn rotated_back(self, x: &Dense, basis: &Dense) -> Dense {
        if self.left { basis.times(x) } else { x.times(&basis.transposed()) }
    }

    fn matrix(self, state: &[f32]) -> Dense {
        Dense::from_numbers(self.extent, self.extent, state.iter().map(|&x| f64::from(x)))
    }
}

fn store(from: &Dense, state: &mut [f32]) {
    for (to, &x) in state.iter_mut().zip(&from.values) {
        *to = x as f32;
    }
}

fn eigenvectors(factor: &Dense) -> Result<Dense, PluginError> {
    let error = || PluginError::new(ErrorKind::VALUE, "the eigenvectors of a factor do not converge");
    factor.eigenvectors().ok_or_else(error)
}

/// Holds the buffers of a step to two moments of the parameter's length, and to the factors of its axes.
pub fn check(step: &Step<'_>, axes: &[FactorAxis]) -> Result<(), PluginError> {
    let (name, n, count) = (step.info.name, step.param.len(), 2 + 2 * axes.len());
    if step.scalars.update == 0 {
        return Err(PluginError::config("updates count from 1, this one is 0"));
    }
    if step.states.len() != count {
        return Err(PluginError::shape(format!("`{name}` needs {count} states, has {}", step.states.len())));
    }
    let whole = step.info.shape.iter().product::<u64>() == n as u64;
    let due = [n; 2].into_iter().chain(axes.iter().flat_map(|axis| [axis.extent * axis.extent; 2]));
    if !whole || step.grad.len() != n || !step.states.iter().map(|state| state.len()).eq(due) {
        return Err(PluginError::shape(format!(
            "the shape of `{name}` and the lengths of its buffers differ"
        )));
    }
    Ok(())
}

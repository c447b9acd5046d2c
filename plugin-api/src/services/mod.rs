//! Host services: for optimizers whose update is more than one pass over elements, with norms or matrix products for
//! example.
//!
//! Tensors remain with the host, in main memory or on a GPU. A plugin holds [`Matrix`]es, handles without elements, and
//! requests operations on them. Every tensor has two axes: a parameter of rank 2 keeps its shape, any other is one row.
//! Only [`Matrix::read`] waits for the device. All elements are f32.
//!
//! An optimizer declares [`Scope::SERVICES`](crate::Scope::SERVICES) or [`Scope::GROUP`](crate::Scope::GROUP) for a
//! parameter and gets a [`ServiceStep`]. States have two axes as well: those of one axis are a row. [`plain`] computes
//! the same in main memory by plain loops, for tests.

pub use crate::service_ops::{Axes, FactorOp, MapOp, ReduceOp, ZipOp};
use crate::{
    ErrorKind, Grid, ParamInfo, PluginError, StepScalars,
    abi::{ServiceCall, ServicesObject, stable::std_types::RResult},
};

mod factors;
pub mod plain;
pub mod table;
#[cfg(test)]
mod tests;

/// A matrix of the host, `[rows, columns]` f32. Dropping it frees its memory, unless it is the parameter, its gradient
/// or a state.
#[derive(Debug)]
pub struct Matrix<'a> {
    services: Services<'a>,
    handle: u64,
    shape: [u64; 2],
    /// True if the plugin made the matrix and therefore frees it.
    made: bool,
}

/// The compute services. [`Matrix`] has the operations.
#[derive(Clone, Copy)]
pub struct Services<'a>(&'a ServicesObject);

/// Implemented by hand: the object that crosses has no `Debug`.
impl std::fmt::Debug for Services<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Services")
    }
}

impl<'a> Services<'a> {
    /// The services of an object that crossed the boundary.
    #[must_use]
    pub fn new(object: &'a ServicesObject) -> Self {
        Self(object)
    }

    /// A matrix whose elements are all `value`.
    ///
    /// # Errors
    /// The host's memory is too small.
    pub fn full(self, shape: [u64; 2], value: f32) -> Result<Matrix<'a>, PluginError> {
        self.made(self.0.full(shape[0], shape[1], value))
    }

    /// The matrix that the host gave this handle.
    ///
    /// # Errors
    /// The handle is unknown to the host.
    pub fn given(self, handle: u64) -> Result<Matrix<'a>, PluginError> {
        let shape = self.0.shape(handle).into_result()?;
        Ok(Matrix { services: self, handle, shape, made: false })
    }

    fn made(self, handle: RResult<u64, PluginError>) -> Result<Matrix<'a>, PluginError> {
        Ok(Matrix { made: true, ..self.given(handle.into_result()?)? })
    }
}

impl<'a> Matrix<'a> {
    /// Rows and columns.
    #[must_use]
    pub fn shape(&self) -> [u64; 2] {
        self.shape
    }

    /// Number of elements.
    #[must_use]
    pub fn elements(&self) -> u64 {
        self.shape[0] * self.shape[1]
    }

    /// The matrix product `self other`.
    ///
    /// # Errors
    /// The extents do not match.
    pub fn matmul(&self, other: &Matrix<'a>) -> Result<Self, PluginError> {
        self.services.made(self.services.0.matmul(self.handle, false, other.handle, false))
    }

    /// `self other^T`.
    ///
    /// # Errors
    /// As [`Self::matmul`].
    pub fn matmul_transposed(&self, other: &Matrix<'a>) -> Result<Self, PluginError> {
        self.services.made(self.services.0.matmul(self.handle, false, other.handle, true))
    }

    /// `self^T other`.
    ///
    /// # Errors
    /// As [`Self::matmul`].
    pub fn transposed_matmul(&self, other: &Matrix<'a>) -> Result<Self, PluginError> {
        self.services.made(self.services.0.matmul(self.handle, true, other.handle, false))
    }

    /// A function of each element.
    ///
    /// # Errors
    /// The function is unknown to the host.
    pub fn map(&self, op: MapOp) -> Result<Self, PluginError> {
        self.services.made(self.services.0.map(op, self.handle))
    }

    /// `factor * x + term` for each element x.
    ///
    /// # Errors
    /// The device failed.
    pub fn affine(&self, factor: f32, term: f32) -> Result<Self, PluginError> {
        self.services.made(self.services.0.affine(self.handle, factor, term))
    }

    /// A function of this matrix' elements and another's, whose extents are the same or 1: one row, column or element
    /// is broadcast.
    ///
    /// # Errors
    /// Other extents, or an unknown function.
    pub fn zip(&self, op: ZipOp, other: &Matrix<'a>) -> Result<Self, PluginError> {
        self.services.made(self.services.0.zip(op, self.handle, other.handle))
    }

    /// `a x + b y` for the elements x of this matrix and y of another of the same shape.
    ///
    /// # Errors
    /// Other extents.
    pub fn blend(&self, a: f32, other: &Matrix<'a>, b: f32) -> Result<Self, PluginError> {
        self.services.made(self.services.0.blend(self.handle, a, other.handle, b))
    }

    /// Elements of `x` where those of this matrix are not 0, elements of `y` elsewhere; all three have the same shape.
    ///
    /// # Errors
    /// Other extents.
    pub fn select(&self, x: &Matrix<'a>, y: &Matrix<'a>) -> Result<Self, PluginError> {
        self.services.made(self.services.0.select(self.handle, x.handle, y.handle))
    }

    /// The columns whose numbers, from 0, are the elements of the row `columns`, in that order.
    ///
    /// # Errors
    /// `columns` is no row. An element that is no column's number gives the nearest one; NaN gives 0.
    pub fn gather(&self, columns: &Matrix<'a>) -> Result<Self, PluginError> {
        self.services.made(self.services.0.gather(self.handle, columns.handle))
    }

    /// The numbers of the columns of a row, from 0, in descending order of its elements, for [`Self::gather`]; equal
    /// elements keep their order, and NaN comes last. Waits for the device.
    ///
    /// # Errors
    /// The matrix has more than one row.
    pub fn argsort(&self) -> Result<Self, PluginError> {
        self.services.made(self.services.0.argsort(self.handle))
    }

    /// Orthonormal columns Q and the upper triangular R with `self = Q R`: [`FactorOp::QR`].
    ///
    /// # Errors
    /// The matrix has fewer rows than columns.
    pub fn qr(&self) -> Result<[Self; 2], PluginError> {
        self.factors(FactorOp::QR)
    }

    /// Eigenvalues, `[1, n]`, and eigenvectors of a symmetric matrix: [`FactorOp::EIGEN`].
    ///
    /// # Errors
    /// The matrix is not square, or the iteration does not converge.
    pub fn eigen(&self) -> Result<[Self; 2], PluginError> {
        self.factors(FactorOp::EIGEN)
    }

    /// The lower triangular L with `self = L L^T`: [`FactorOp::CHOLESKY`].
    ///
    /// # Errors
    /// The matrix is not square, or not positive definite.
    pub fn cholesky(&self) -> Result<Self, PluginError> {
        self.factors::<1>(FactorOp::CHOLESKY).map(|[factor]| factor)
    }

    fn factors<const N: usize>(&self, op: FactorOp) -> Result<[Self; N], PluginError> {
        let handles = self.services.0.factor(op, self.handle).into_result()?;
        let made = handles.iter().map(|&handle| self.services.made(RResult::ROk(handle)));
        let made = made.collect::<Result<Vec<_>, _>>()?;
        made.try_into().map_err(|_| PluginError::new(ErrorKind::OTHER, "the host gave other factors"))
    }

    /// Reduces elements to one.
    ///
    /// # Errors
    /// An unknown operation, or the largest of no elements.
    pub fn reduce(&self, op: ReduceOp, axes: Axes) -> Result<Self, PluginError> {
        self.services.made(self.services.0.reduce(op, axes, self.handle))
    }

    /// The sum of the products of this matrix' elements with another's of the same shape: `[1, 1]`.
    ///
    /// # Errors
    /// Other extents.
    pub fn dot(&self, other: &Matrix<'a>) -> Result<Self, PluginError> {
        self.zip(ZipOp::MUL, other)?.reduce(ReduceOp::SUM, Axes::ALL)
    }

    /// The root of the sum of all squares: `[1, 1]`.
    ///
    /// # Errors
    /// The device failed.
    pub fn norm(&self) -> Result<Self, PluginError> {
        self.reduce(ReduceOp::SUM_SQUARES, Axes::ALL)?.map(MapOp::SQRT)
    }

    /// The transpose.
    ///
    /// # Errors
    /// The device failed.
    pub fn transpose(&self) -> Result<Self, PluginError> {
        self.services.made(self.services.0.transpose(self.handle))
    }

    /// The same elements, row by row, in another shape.
    ///
    /// # Errors
    /// Another number of elements.
    pub fn reshape(&self, shape: [u64; 2]) -> Result<Self, PluginError> {
        self.services.made(self.services.0.reshape(self.handle, shape[0], shape[1]))
    }

    /// Assigns the elements of `from` to this matrix, the parameter or a state.
    ///
    /// # Errors
    /// Other extents, or this matrix is neither parameter nor state.
    pub fn assign(&self, from: &Matrix<'a>) -> Result<(), PluginError> {
        self.services.0.assign(self.handle, from.handle).into_result()
    }

    /// The element of a `[1, 1]` matrix. Waits for the device.
    ///
    /// # Errors
    /// Another shape, or the device failed.
    pub fn read(&self) -> Result<f32, PluginError> {
        self.services.0.read(self.handle).into_result()
    }
}

impl Drop for Matrix<'_> {
    fn drop(&mut self) {
        if self.made {
            // A handle that cannot be freed is freed with the call.
            let _ = self.services.0.free(self.handle);
        }
    }
}

/// A parameter of an update by services.
#[derive(Debug)]
pub struct ServiceParam<'a> {
    /// The parameter.
    pub info: ParamInfo<'a>,
    /// Its value; [`Matrix::assign`] sets the new one.
    pub param: Matrix<'a>,
    /// The gradient, accumulated and clipped; read-only.
    pub grad: Matrix<'a>,
    /// The states in the order of [`Optimizer::states`](crate::Optimizer::states), assignable.
    pub states: Vec<Matrix<'a>>,
    /// Learning rate, update count, random key.
    pub scalars: StepScalars,
    /// The parameter's grid, if it is quantized.
    pub grid: Option<Grid<'a>>,
}

/// An update by services.
#[derive(Debug)]
pub struct ServiceStep<'a> {
    /// The compute services.
    pub services: Services<'a>,
    /// The parameters: one of [`Scope::SERVICES`](crate::Scope::SERVICES), or all of
    /// [`Scope::GROUP`](crate::Scope::GROUP), in the order of the model.
    pub params: Vec<ServiceParam<'a>>,
    /// The states of the whole optimizer, in the order of
    /// [`Optimizer::shared_states`](crate::Optimizer::shared_states), assignable; none for one parameter.
    pub shared: Vec<Matrix<'a>>,
    /// The number of the gradient evaluation before this call, from 1; the last one is
    /// [`Optimizer::evaluations`](crate::Optimizer::evaluations).
    pub evaluation: u32,
}

impl<'a> ServiceStep<'a> {
    /// The only parameter.
    ///
    /// # Errors
    /// There are several, or none.
    pub fn single(mut self) -> Result<ServiceParam<'a>, PluginError> {
        match (self.params.pop(), self.params.len()) {
            (Some(param), 0) => Ok(param),
            (_, others) => Err(PluginError::shape(format!("one parameter is due, not {}", others + 1))),
        }
    }

    pub(crate) fn of_call(call: &ServiceCall<'a>) -> Result<Self, PluginError> {
        let services = Services::new(call.services);
        let given = |handles: &[u64]| {
            handles.iter().map(|&handle| services.given(handle)).collect::<Result<Vec<_>, PluginError>>()
        };
        let param = |served: &crate::abi::ServedParam<'a>| {
            Ok(ServiceParam {
                info: served.info,
                param: services.given(served.param)?,
                grad: services.given(served.grad)?,
                states: given(&served.states)?,
                scalars: served.scalars,
                grid: served.grid.into_option(),
            })
        };
        Ok(Self {
            services,
            params: call.params.iter().map(param).collect::<Result<_, PluginError>>()?,
            shared: given(&call.shared)?,
            evaluation: call.evaluation,
        })
    }
}

/// Rows and columns of a tensor as services have it: a matrix keeps its shape, anything else is one row.
#[must_use]
pub fn rows_and_columns(shape: &[u64]) -> [u64; 2] {
    match *shape {
        [rows, columns] => [rows, columns],
        _ => [1, shape.iter().product()],
    }
}

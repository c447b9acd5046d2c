//! The host's side of services: handles to tensors, every check, and the guard; [`Compute`] is the implementation.
//!
//! No request of a plugin panics: unknown, freed and foreign handles, extents that do not fit and unknown operations
//! are errors with a message. A panic of the tensor library becomes an error too.

use std::{
    collections::BTreeMap,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use super::{Axes, FactorOp, MapOp, ReduceOp, ZipOp};
use crate::{
    ErrorKind, PluginError,
    abi::{
        ServicesAbi, ServicesAbi_TO, ServicesObject,
        stable::{
            erased_types::TD_Opaque,
            std_types::{RResult, RVec},
        },
    },
};

/// The largest number of elements of a tensor, which is the limit of kernels.
const MOST: u64 = (1 << 31) - 1;

/// The implementation of the compute services. The shapes of arguments are already checked.
pub trait Compute: Send + 'static {
    /// A matrix of f32. Cloning it copies few elements or none.
    type Tensor: Clone + Send;
    /// All elements `value`.
    fn full(&self, shape: [usize; 2], value: f32) -> Self::Tensor;
    /// The product of two matrices.
    fn matmul(&self, a: Self::Tensor, b: Self::Tensor) -> Self::Tensor;
    /// A function of each element; `None` if it is unknown.
    fn map(&self, op: MapOp, x: Self::Tensor) -> Option<Self::Tensor>;
    /// `factor * x + term`.
    fn affine(&self, x: Self::Tensor, factor: f32, term: f32) -> Self::Tensor;
    /// A function of two elements, extents of 1 spread; `None` if it is unknown.
    fn zip(&self, op: ZipOp, x: Self::Tensor, y: Self::Tensor) -> Option<Self::Tensor>;
    /// Elements of `x` where those of the mask are not 0, of `y` elsewhere; all of one shape.
    fn select(&self, mask: Self::Tensor, x: Self::Tensor, y: Self::Tensor) -> Self::Tensor;
    /// The columns of `x`, which has some, that the row `columns` names.
    fn gather(&self, x: Self::Tensor, columns: Self::Tensor) -> Self::Tensor;
    /// The numbers of the columns of a row, from 0, in descending order of its elements; equal ones keep their order,
    /// and NaN comes last.
    ///
    /// # Errors
    /// The device failed.
    fn argsort(&self, x: Self::Tensor) -> Result<Self::Tensor, PluginError>;
    /// The factors of a matrix that has elements; `None` if the operation is unknown.
    fn factor(&self, op: FactorOp, x: Self::Tensor) -> Option<Result<Vec<Self::Tensor>, PluginError>>;
    /// Reduces the selected axes to one element; `None` if the operation is unknown.
    fn reduce(&self, op: ReduceOp, rows: bool, columns: bool, x: Self::Tensor) -> Option<Self::Tensor>;
    /// The transpose.
    fn transpose(&self, x: Self::Tensor) -> Self::Tensor;
    /// The same elements in another shape.
    fn reshape(&self, x: Self::Tensor, shape: [usize; 2]) -> Self::Tensor;
    /// The first element.
    ///
    /// # Errors
    /// The device failed.
    fn read(&self, x: Self::Tensor) -> Result<f32, PluginError>;
}

/// A tensor and its owner.
struct Entry<T> {
    tensor: T,
    shape: [u64; 2],
    owner: Owner,
}

/// The access rights to a tensor.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Owner {
    /// Owned by the host; read-only.
    Host,
    /// Owned by the host; assignable.
    Assignable,
    /// Owned by the plugin, which frees it.
    Plugin,
}

struct Table<C: Compute> {
    compute: C,
    entries: BTreeMap<u64, Entry<C::Tensor>>,
}

/// The services of one update. Clones share their tensors.
pub struct Served<C: Compute>(Arc<Mutex<Table<C>>>);

/// Implemented by hand: tensors are large and have no `Debug`.
impl<C: Compute> std::fmt::Debug for Served<C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Served").finish_non_exhaustive()
    }
}

impl<C: Compute> Served<C> {
    /// Services without tensors.
    pub fn new(compute: C) -> Self {
        Self(Arc::new(Mutex::new(Table { compute, entries: BTreeMap::new() })))
    }

    /// The object that crosses.
    #[must_use]
    pub fn object(&self) -> ServicesObject {
        ServicesAbi_TO::from_value(Self(self.0.clone()), TD_Opaque)
    }

    /// A handle of a host tensor, `[rows, columns]`; `assignable` if the plugin may replace it.
    pub fn give(&self, tensor: C::Tensor, shape: [u64; 2], assignable: bool) -> u64 {
        let owner = if assignable { Owner::Assignable } else { Owner::Host };
        self.with(|table| table.insert(tensor, shape, owner))
    }

    /// Removes a tensor; `None` if the handle is unknown.
    #[must_use]
    pub fn take(&self, handle: u64) -> Option<C::Tensor> {
        self.with(|table| Some(table.entries.remove(&handle)?.tensor))
    }

    fn with<R>(&self, body: impl FnOnce(&mut Table<C>) -> R) -> R {
        body(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Runs `body`; a panic in it becomes an error. `what` names it for messages.
    fn guarded<R>(
        &self,
        what: &str,
        body: impl FnOnce(&mut Table<C>) -> Result<R, PluginError>,
    ) -> RResult<R, PluginError> {
        let result = catch_unwind(AssertUnwindSafe(|| self.with(body)));
        let failed =
            |_| Err(PluginError::new(ErrorKind::OTHER, format!("the host's service `{what}` failed")));
        result.unwrap_or_else(failed).into()
    }
}

impl<C: Compute> Table<C> {
    fn insert(&mut self, tensor: C::Tensor, shape: [u64; 2], owner: Owner) -> u64 {
        // Never used twice in a process, so that a handle kept from another call is unknown here.
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let handle = NEXT.fetch_add(1, Ordering::Relaxed);
        self.entries.insert(handle, Entry { tensor, shape, owner });
        handle
    }

    fn made(&mut self, tensor: C::Tensor, shape: [u64; 2]) -> Result<u64, PluginError> {
        Ok(self.insert(tensor, shape, Owner::Plugin))
    }

    fn entry(&self, handle: u64) -> Result<&Entry<C::Tensor>, PluginError> {
        self.entries.get(&handle).ok_or_else(|| {
            PluginError::new(ErrorKind::VALUE, format!("tensor {handle} is unknown here"))
                .with_hint("handles are of one call, and end when they are freed")
        })
    }

    fn get(&self, handle: u64) -> Result<(C::Tensor, [u64; 2]), PluginError> {
        let entry = self.entry(handle)?;
        Ok((entry.tensor.clone(), entry.shape))
    }

    /// A matrix, transposed if requested.
    fn turned(&self, handle: u64, transposed: bool) -> Result<(C::Tensor, [u64; 2]), PluginError> {
        let (tensor, [rows, columns]) = self.get(handle)?;
        if !transposed {
            return Ok((tensor, [rows, columns]));
        }
        Ok((self.compute.transpose(tensor), [columns, rows]))
    }
}

/// Extents in the type of the tensor library.
fn extents(shape: [u64; 2]) -> Result<[usize; 2], PluginError> {
    match shape[0].checked_mul(shape[1]) {
        Some(elements) if elements <= MOST => Ok(shape.map(|extent| extent as usize)),
        _ => Err(PluginError::shape(format!("shape {shape:?} has more than {MOST} elements"))),
    }
}

fn unknown(what: &str, number: u32) -> PluginError {
    PluginError::unsupported(format!("{what} operation {number} is not one this host knows"))
        .with_hint("the plugin was built for a newer host")
}

fn same(what: &str, a: [u64; 2], b: [u64; 2]) -> Result<(), PluginError> {
    if a == b {
        return Ok(());
    }
    Err(PluginError::shape(format!("{what}: shapes {a:?} and {b:?} differ")))
}

impl<C: Compute> ServicesAbi for Served<C> {
    fn shape(&self, x: u64) -> RResult<[u64; 2], PluginError> {
        self.guarded("shape", |table| Ok(table.entry(x)?.shape))
    }

    fn full(&self, rows: u64, columns: u64, value: f32) -> RResult<u64, PluginError> {
        self.guarded("full", |table| {
            let shape = [rows, columns];
            let tensor = table.compute.full(extents(shape)?, value);
            table.made(tensor, shape)
        })
    }

    fn matmul(&self, a: u64, a_transposed: bool, b: u64, b_transposed: bool) -> RResult<u64, PluginError> {
        self.guarded("matmul", |table| {
            let ((a, [rows, inner]), (b, [other, columns])) =
                (table.turned(a, a_transposed)?, table.turned(b, b_transposed)?);
            if inner != other {
                let message = format!("matmul: {rows} x {inner} times {other} x {columns} does not fit");
                return Err(PluginError::shape(message));
            }
            let shape = [rows, columns];
            // A product over nothing is zero; tensor libraries differ there.
            let tensor = if inner == 0 || rows == 0 || columns == 0 {
                table.compute.full(extents(shape)?, 0.0)
            } else {
                extents(shape)?;
                table.compute.matmul(a, b)
            };
            table.made(tensor, shape)
        })
    }

    fn map(&self, op: MapOp, x: u64) -> RResult<u64, PluginError> {
        self.guarded("map", |table| {
            let (x, shape) = table.get(x)?;
            let tensor = table.compute.map(op, x).ok_or_else(|| unknown("map", op.0))?;
            table.made(tensor, shape)
        })
    }

    fn affine(&self, x: u64, factor: f32, term: f32) -> RResult<u64, PluginError> {
        self.guarded("affine", |table| {
            let (x, shape) = table.get(x)?;
            let tensor = table.compute.affine(x, factor, term);
            table.made(tensor, shape)
        })
    }

    fn zip(&self, op: ZipOp, x: u64, y: u64) -> RResult<u64, PluginError> {
        self.guarded("zip", |table| {
            let ((x, a), (y, b)) = (table.get(x)?, table.get(y)?);
            let fits = |axis: usize| a[axis] == b[axis] || a[axis] == 1 || b[axis] == 1;
            if !(fits(0) && fits(1)) {
                return Err(PluginError::shape(format!("zip: shapes {a:?} and {b:?} do not fit")));
            }
            let spread = |axis: usize| if a[axis] == 1 { b[axis] } else { a[axis] };
            let shape = [spread(0), spread(1)];
            extents(shape)?;
            let tensor = table.compute.zip(op, x, y).ok_or_else(|| unknown("zip", op.0))?;
            table.made(tensor, shape)
        })
    }

    fn blend(&self, x: u64, a: f32, y: u64, b: f32) -> RResult<u64, PluginError> {
        self.guarded("blend", |table| {
            let ((x, shape), (y, other)) = (table.get(x)?, table.get(y)?);
            same("blend", shape, other)?;
            let (x, y) = (table.compute.affine(x, a, 0.0), table.compute.affine(y, b, 0.0));
            let tensor = table.compute.zip(ZipOp::ADD, x, y).ok_or_else(|| unknown("zip", ZipOp::ADD.0))?;
            table.made(tensor, shape)
        })
    }

    fn select(&self, mask: u64, x: u64, y: u64) -> RResult<u64, PluginError> {
        self.guarded("select", |table| {
            let ((mask, shape), (x, a), (y, b)) = (table.get(mask)?, table.get(x)?, table.get(y)?);
            same("select", shape, a)?;
            same("select", shape, b)?;
            let tensor = table.compute.select(mask, x, y);
            table.made(tensor, shape)
        })
    }

    fn gather(&self, x: u64, columns: u64) -> RResult<u64, PluginError> {
        self.guarded("gather", |table| {
            let ((x, from), (columns, [one, count])) = (table.get(x)?, table.get(columns)?);
            if one != 1 || from[1] == 0 {
                let message =
                    format!("gather: the columns of {from:?} are named by a row, not {one} x {count}");
                return Err(PluginError::shape(message));
            }
            let shape = [from[0], count];
            extents(shape)?;
            let tensor = table.compute.gather(x, columns);
            table.made(tensor, shape)
        })
    }

    fn argsort(&self, x: u64) -> RResult<u64, PluginError> {
        self.guarded("argsort", |table| {
            let (x, shape) = table.get(x)?;
            let [1, columns] = shape else {
                return Err(PluginError::shape(format!("argsort: {shape:?} is no row")));
            };
            let order = if columns == 0 { x } else { table.compute.argsort(x)? };
            table.made(order, shape)
        })
    }

    fn factor(&self, op: FactorOp, x: u64) -> RResult<RVec<u64>, PluginError> {
        self.guarded("factor", |table| {
            let (x, [rows, columns]) = table.get(x)?;
            let Some(shapes) = op.shapes([rows, columns]) else {
                return Err(match op {
                    FactorOp::QR | FactorOp::EIGEN | FactorOp::CHOLESKY => {
                        PluginError::shape(format!("factor: {rows} x {columns} has no such factors"))
                    }
                    _ => unknown("factor", op.0),
                });
            };
            let factors = if rows * columns == 0 {
                let empty = |&shape: &[u64; 2]| Ok(table.compute.full(extents(shape)?, 0.0));
                shapes.iter().map(empty).collect::<Result<Vec<_>, PluginError>>()?
            } else {
                table.compute.factor(op, x).ok_or_else(|| unknown("factor", op.0))??
            };
            factors.into_iter().zip(shapes).map(|(factor, shape)| table.made(factor, shape)).collect()
        })
    }

    fn reduce(&self, op: ReduceOp, axes: Axes, x: u64) -> RResult<u64, PluginError> {
        self.guarded("reduce", |table| {
            let (x, [rows, columns]) = table.get(x)?;
            let (over_rows, over_columns, shape) = match axes {
                Axes::ALL => (true, true, [1, 1]),
                Axes::ROWS => (false, true, [rows, 1]),
                Axes::COLUMNS => (true, false, [1, columns]),
                _ => return Err(unknown("axes", axes.0)),
            };
            if rows * columns == 0 {
                if op == ReduceOp::MAX_ABS && shape[0] * shape[1] > 0 {
                    return Err(PluginError::shape("reduce: no elements have no largest"));
                }
                let zero = table.compute.full(extents(shape)?, 0.0);
                return table.made(zero, shape);
            }
            let tensor = table.compute.reduce(op, over_rows, over_columns, x);
            table.made(tensor.ok_or_else(|| unknown("reduce", op.0))?, shape)
        })
    }

    fn transpose(&self, x: u64) -> RResult<u64, PluginError> {
        self.guarded("transpose", |table| {
            let (tensor, shape) = table.turned(x, true)?;
            table.made(tensor, shape)
        })
    }

    fn reshape(&self, x: u64, rows: u64, columns: u64) -> RResult<u64, PluginError> {
        self.guarded("reshape", |table| {
            let ((x, from), shape) = (table.get(x)?, [rows, columns]);
            let sizes = extents(shape)?;
            if shape[0] * shape[1] != from[0] * from[1] {
                return Err(PluginError::shape(format!(
                    "reshape: {from:?} has not the elements of {shape:?}"
                )));
            }
            let tensor = table.compute.reshape(x, sizes);
            table.made(tensor, shape)
        })
    }

    fn assign(&self, target: u64, from: u64) -> RResult<(), PluginError> {
        self.guarded("assign", |table| {
            let (tensor, shape) = table.get(from)?;
            let to = table.entry(target)?;
            same("assign", to.shape, shape)?;
            if to.owner != Owner::Assignable {
                return Err(PluginError::unsupported("only the parameter and its states can be assigned"));
            }
            table.entries.insert(target, Entry { tensor, shape, owner: Owner::Assignable });
            Ok(())
        })
    }

    fn read(&self, x: u64) -> RResult<f32, PluginError> {
        self.guarded("read", |table| {
            let (x, shape) = table.get(x)?;
            same("read", shape, [1, 1])?;
            table.compute.read(x)
        })
    }

    fn free(&self, x: u64) -> RResult<(), PluginError> {
        self.guarded("free", |table| {
            if table.entry(x)?.owner != Owner::Plugin {
                return Err(PluginError::unsupported(
                    "the parameter, its gradient and states are the host's",
                ));
            }
            table.entries.remove(&x);
            Ok(())
        })
    }
}

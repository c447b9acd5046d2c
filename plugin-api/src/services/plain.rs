//! Services in main memory by plain loops, sums in f64: for tests of optimizers, and as the reference of a host's own.

use super::{
    FactorOp, MapOp, ReduceOp, ServiceParam, ServiceStep, Services, ZipOp,
    factors::factors,
    table::{Compute, Served},
};
use crate::{Grid, ParamInfo, PluginError, StepScalars};

/// A matrix in main memory.
#[derive(Debug, Clone, PartialEq)]
pub struct PlainMatrix {
    /// Rows and columns.
    pub shape: [usize; 2],
    /// Row by row.
    pub values: Vec<f32>,
}

impl PlainMatrix {
    fn at(&self, row: usize, column: usize) -> f32 {
        // An extent of 1 is broadcast.
        self.values[row.min(self.shape[0] - 1) * self.shape[1] + column.min(self.shape[1] - 1)]
    }

    fn from_fn(shape: [usize; 2], value: impl Fn(usize, usize) -> f32) -> Self {
        let at = |i: usize| value(i / shape[1], i % shape[1]);
        Self { shape, values: (0..shape[0] * shape[1]).map(at).collect() }
    }

    /// The order of a row, as [`Compute::argsort`] has it.
    #[must_use]
    pub fn descending(&self) -> Self {
        let mut order: Vec<usize> = (0..self.values.len()).collect();
        order.sort_by(|&i, &j| {
            let (a, b) = (self.values[i], self.values[j]);
            b.partial_cmp(&a).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
        });
        Self { shape: self.shape, values: order.into_iter().map(|i| i as f32).collect() }
    }

    /// The factors of a matrix with an element that is not finite, if the operation reads it; otherwise `None`.
    #[must_use]
    pub fn nan_factors(&self, op: FactorOp) -> Option<Vec<Self>> {
        let columns = self.shape[1];
        let spoils = |(i, x): (usize, &f32)| op.reads(i / columns, i % columns) && !x.is_finite();
        let nan = |shape: [u64; 2]| Self::from_fn(shape.map(|extent| extent as usize), |_, _| f32::NAN);
        let shapes = op.shapes(self.shape.map(|extent| extent as u64))?;
        self.values.iter().enumerate().any(spoils).then(|| shapes.into_iter().map(nan).collect())
    }
}

/// Plain loops.
#[derive(Debug, Clone, Copy, Default)]
pub struct Plain;

impl Compute for Plain {
    type Tensor = PlainMatrix;

    fn full(&self, shape: [usize; 2], value: f32) -> PlainMatrix {
        PlainMatrix::from_fn(shape, |_, _| value)
    }

    fn matmul(&self, a: PlainMatrix, b: PlainMatrix) -> PlainMatrix {
        PlainMatrix::from_fn([a.shape[0], b.shape[1]], |row, column| {
            let term = |k| f64::from(a.at(row, k)) * f64::from(b.at(k, column));
            (0..a.shape[1]).map(term).sum::<f64>() as f32
        })
    }

    fn map(&self, op: MapOp, x: PlainMatrix) -> Option<PlainMatrix> {
        let function: fn(f32) -> f32 = match op {
            MapOp::ABS => f32::abs,
            MapOp::SQRT => f32::sqrt,
            MapOp::RECIPROCAL => f32::recip,
            MapOp::EXP => f32::exp,
            MapOp::LOG => f32::ln,
            MapOp::SIGN => |x| if x == 0.0 { 0.0 } else { x.signum() },
            _ => return None,
        };
        Some(PlainMatrix { values: x.values.into_iter().map(function).collect(), ..x })
    }

    fn affine(&self, x: PlainMatrix, factor: f32, term: f32) -> PlainMatrix {
        PlainMatrix { values: x.values.into_iter().map(|x| factor * x + term).collect(), ..x }
    }

    fn zip(&self, op: ZipOp, x: PlainMatrix, y: PlainMatrix) -> Option<PlainMatrix> {
        let function: fn(f32, f32) -> f32 = match op {
            ZipOp::ADD => |x, y| x + y,
            ZipOp::SUB => |x, y| x - y,
            ZipOp::MUL => |x, y| x * y,
            ZipOp::DIV => |x, y| x / y,
            ZipOp::MAX => f32::max,
            ZipOp::MIN => f32::min,
            ZipOp::LESS => |x, y| f32::from(u8::from(x < y)),
            ZipOp::LESS_EQUAL => |x, y| f32::from(u8::from(x <= y)),
            ZipOp::EQUAL => |x, y| f32::from(u8::from(x == y)),
            _ => return None,
        };
        let spread = |axis: usize| if x.shape[axis] == 1 { y.shape[axis] } else { x.shape[axis] };
        Some(PlainMatrix::from_fn([spread(0), spread(1)], |row, column| {
            function(x.at(row, column), y.at(row, column))
        }))
    }

    fn select(&self, mask: PlainMatrix, x: PlainMatrix, y: PlainMatrix) -> PlainMatrix {
        PlainMatrix::from_fn(x.shape, |row, column| {
            if mask.at(row, column) == 0.0 { y.at(row, column) } else { x.at(row, column) }
        })
    }

    fn gather(&self, x: PlainMatrix, columns: PlainMatrix) -> PlainMatrix {
        let last = (x.shape[1] - 1) as f32;
        PlainMatrix::from_fn([x.shape[0], columns.shape[1]], |row, column| {
            x.at(row, columns.at(0, column).round().clamp(0.0, last) as usize)
        })
    }

    fn argsort(&self, x: PlainMatrix) -> Result<PlainMatrix, PluginError> {
        Ok(x.descending())
    }

    fn factor(&self, op: FactorOp, x: PlainMatrix) -> Option<Result<Vec<PlainMatrix>, PluginError>> {
        if let Some(factors) = x.nan_factors(op) {
            return Some(Ok(factors));
        }
        let matrix = |(shape, values)| PlainMatrix { shape, values };
        let found = factors(op, x.shape, &x.values)?;
        Some(found.map(|factors| factors.into_iter().map(matrix).collect()))
    }

    fn reduce(&self, op: ReduceOp, rows: bool, columns: bool, x: PlainMatrix) -> Option<PlainMatrix> {
        let step: fn(f64, f64) -> f64 = match op {
            ReduceOp::SUM => |sum, x| sum + x,
            ReduceOp::SUM_SQUARES => |sum, x| sum + x * x,
            ReduceOp::MAX_ABS => |most, x| most.max(x.abs()),
            _ => return None,
        };
        let [height, width] = x.shape;
        let shape = [if rows { 1 } else { height }, if columns { 1 } else { width }];
        Some(PlainMatrix::from_fn(shape, |row, column| {
            let all = (0..height).flat_map(|i| (0..width).map(move |j| (i, j)));
            let here = all.filter(|&(i, j)| (rows || i == row) && (columns || j == column));
            here.fold(0.0, |sum, (i, j)| step(sum, x.at(i, j).into())) as f32
        }))
    }

    fn transpose(&self, x: PlainMatrix) -> PlainMatrix {
        PlainMatrix::from_fn([x.shape[1], x.shape[0]], |row, column| x.at(column, row))
    }

    fn reshape(&self, x: PlainMatrix, shape: [usize; 2]) -> PlainMatrix {
        PlainMatrix { shape, ..x }
    }

    fn read(&self, x: PlainMatrix) -> Result<f32, PluginError> {
        Ok(x.values[0])
    }
}

/// A parameter in main memory with its gradient and states.
#[derive(Debug, Clone)]
pub struct PlainParam<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its value.
    pub value: PlainMatrix,
    /// Its gradient.
    pub grad: PlainMatrix,
    /// Its states.
    pub states: Vec<PlainMatrix>,
    /// Learning rate, update count, random key.
    pub scalars: StepScalars,
    /// Its grid, if it is quantized.
    pub grid: Option<Grid<'a>>,
}

/// One update in main memory, parameters and states in place, after this gradient evaluation, by
/// [`Optimizer::step_with_services`](crate::Optimizer::step_with_services). `shared` are the states of the whole
/// optimizer.
///
/// # Errors
/// The optimizer's error.
pub fn step(
    update: impl FnOnce(ServiceStep<'_>) -> Result<(), PluginError>,
    params: &mut [PlainParam<'_>],
    shared: &mut [PlainMatrix],
    evaluation: u32,
) -> Result<(), PluginError> {
    let served = Served::new(Plain);
    let object = served.object();
    let services = Services::new(&object);
    let shape = |matrix: &PlainMatrix| matrix.shape.map(|extent| extent as u64);
    let give = |matrix: &PlainMatrix, assignable| served.give(matrix.clone(), shape(matrix), assignable);
    let shapes: Vec<[u64; 2]> = params.iter().map(|param| shape(&param.value)).collect();
    let mut given = Vec::new();
    let mut lend = |handle: u64| {
        given.push(handle);
        services.given(handle)
    };
    let mut lent = Vec::new();
    for (param, shape) in params.iter().zip(&shapes) {
        lent.push(ServiceParam {
            info: ParamInfo::new(param.name, shape),
            param: lend(give(&param.value, true))?,
            grad: services.given(give(&param.grad, false))?,
            states: param.states.iter().map(|state| lend(give(state, true))).collect::<Result<_, _>>()?,
            scalars: param.scalars,
            grid: param.grid,
        });
    }
    let all = shared.iter().map(|state| lend(give(state, true))).collect::<Result<_, _>>()?;
    let result = update(ServiceStep { services, params: lent, shared: all, evaluation });
    let of_params =
        params.iter_mut().flat_map(|param| std::iter::once(&mut param.value).chain(&mut param.states));
    for (target, handle) in of_params.chain(shared).zip(given) {
        if let Some(value) = served.take(handle) {
            *target = value;
        }
    }
    result
}

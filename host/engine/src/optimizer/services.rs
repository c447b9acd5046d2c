//! The services for optimizers, computed by the tensor library on the device of the parameter.
//!
//! `plugin-api` has handles, checks and guards. No data move between devices; states are tensors beside the parameter.

use std::sync::Arc;

use altgrad_base::diagnostic::Diagnostic;
use altgrad_loader::{OptimizerPlugin, calls, optimizer::ServiceUpdate};
use altgrad_plugin_api::{
    ErrorKind, FactorOp, Grid, MapOp, ParamInfo, PluginError, ReduceOp, StateSpec, StepScalars, ZipOp,
    abi::{ServedParam, stable::std_types::RSlice},
    services::{
        plain::PlainMatrix,
        rows_and_columns,
        table::{Compute, Served},
    },
};
use burn::tensor::{Device, Tensor};

use super::factors::factors;
use crate::{
    tensor::{self, fp32},
    tensor_file::TensorElements,
};

/// The tensor library on a device. An optimizer calls it, but it executes the host's code only.
struct OnDevice(Device);

impl OnDevice {
    fn read_matrix(&self, x: Tensor<2>) -> Result<PlainMatrix, PluginError> {
        let shape = x.dims();
        let values = tensor::read_f32(x.reshape([shape[0] * shape[1]]));
        let values = values.map_err(|error| PluginError::new(ErrorKind::DEVICE, error.message))?;
        Ok(PlainMatrix { shape, values })
    }

    fn upload(&self, x: PlainMatrix) -> Tensor<2> {
        tensor::flat(x.values, &self.0).reshape(x.shape)
    }
}

impl Compute for OnDevice {
    type Tensor = Tensor<2>;

    fn full(&self, shape: [usize; 2], value: f32) -> Tensor<2> {
        let _host = calls::host();
        Tensor::full(shape, value, &self.0)
    }

    fn matmul(&self, a: Tensor<2>, b: Tensor<2>) -> Tensor<2> {
        let _host = calls::host();
        fp32::matmul(a, b)
    }

    fn map(&self, op: MapOp, x: Tensor<2>) -> Option<Tensor<2>> {
        let _host = calls::host();
        Some(match op {
            MapOp::ABS => x.abs(),
            MapOp::SQRT => x.sqrt(),
            MapOp::RECIPROCAL => x.recip(),
            MapOp::EXP => x.exp(),
            MapOp::LOG => x.log(),
            MapOp::SIGN => x.sign(),
            _ => return None,
        })
    }

    fn affine(&self, x: Tensor<2>, factor: f32, term: f32) -> Tensor<2> {
        let _host = calls::host();
        let scaled = x.mul_scalar(factor);
        if term == 0.0 { scaled } else { scaled.add_scalar(term) }
    }

    fn zip(&self, op: ZipOp, x: Tensor<2>, y: Tensor<2>) -> Option<Tensor<2>> {
        let _host = calls::host();
        Some(match op {
            ZipOp::ADD => x + y,
            ZipOp::SUB => x - y,
            ZipOp::MUL => x * y,
            ZipOp::DIV => x / y,
            ZipOp::MAX | ZipOp::MIN => {
                let [a, b] = [x.dims(), y.dims()];
                let shape = [0, 1].map(|axis| if a[axis] == 1 { b[axis] } else { a[axis] });
                let (x, y) = (x.expand(shape), y.expand(shape));
                if op == ZipOp::MAX { x.max_pair(y) } else { x.min_pair(y) }
            }
            ZipOp::LESS | ZipOp::LESS_EQUAL | ZipOp::EQUAL => {
                let [a, b] = [x.dims(), y.dims()];
                let shape = [0, 1].map(|axis| if a[axis] == 1 { b[axis] } else { a[axis] });
                let (x, y) = (x.expand(shape), y.expand(shape));
                let is = match op {
                    ZipOp::LESS => x.lower(y),
                    ZipOp::LESS_EQUAL => x.lower_equal(y),
                    _ => x.equal(y),
                };
                is.float()
            }
            _ => return None,
        })
    }

    fn select(&self, mask: Tensor<2>, x: Tensor<2>, y: Tensor<2>) -> Tensor<2> {
        let _host = calls::host();
        x.mask_where(mask.equal_elem(0.0), y)
    }

    fn gather(&self, x: Tensor<2>, columns: Tensor<2>) -> Tensor<2> {
        let _host = calls::host();
        let [last, count] = [x.dims()[1] - 1, columns.dims()[1]];
        let nan = columns.clone().is_nan();
        let columns = columns.mask_fill(nan, 0.0).round().clamp(0.0, last as f32);
        x.select(1, columns.reshape([count]).int())
    }

    /// In main memory: orders and factors are for small matrices, and not for every update.
    fn argsort(&self, x: Tensor<2>) -> Result<Tensor<2>, PluginError> {
        let _host = calls::host();
        self.read_matrix(x).map(|x| self.upload(x.descending()))
    }

    fn factor(&self, op: FactorOp, x: Tensor<2>) -> Option<Result<Vec<Tensor<2>>, PluginError>> {
        let _host = calls::host();
        let factors = match self.read_matrix(x) {
            Ok(x) => factors(op, &x)?,
            Err(error) => return Some(Err(error)),
        };
        Some(factors.map(|factors| factors.into_iter().map(|factor| self.upload(factor)).collect()))
    }

    fn reduce(&self, op: ReduceOp, rows: bool, columns: bool, x: Tensor<2>) -> Option<Tensor<2>> {
        let _host = calls::host();
        let x = match op {
            ReduceOp::SUM => x,
            ReduceOp::SUM_SQUARES => x.clone() * x,
            ReduceOp::MAX_ABS => x.abs(),
            _ => return None,
        };
        let along = |x: Tensor<2>, axis: usize| {
            if op == ReduceOp::MAX_ABS { x.max_dim(axis) } else { x.sum_dim(axis) }
        };
        let x = if columns { along(x, 1) } else { x };
        Some(if rows { along(x, 0) } else { x })
    }

    fn transpose(&self, x: Tensor<2>) -> Tensor<2> {
        let _host = calls::host();
        x.transpose()
    }

    fn reshape(&self, x: Tensor<2>, shape: [usize; 2]) -> Tensor<2> {
        let _host = calls::host();
        x.reshape(shape)
    }

    fn read(&self, x: Tensor<2>) -> Result<f32, PluginError> {
        let _host = calls::host();
        let values = tensor::read_f32(x.reshape([1]));
        values.map(|values| values[0]).map_err(|error| PluginError::new(ErrorKind::DEVICE, error.message))
    }
}

/// One parameter's update: its facts and initial values.
pub(super) struct Update<'a> {
    /// The parameter.
    pub info: ParamInfo<'a>,
    /// Its value, `[n]`.
    pub value: Tensor<1>,
    /// Accumulated and clipped, `[n]`.
    pub grad: Tensor<1>,
    /// Learning rate, update count, random key.
    pub scalars: StepScalars,
    /// The grid it is rounded to, if there is one.
    pub grid: Option<Grid<'a>>,
}

/// The states of a parameter that is updated with services, or of a whole instance.
#[derive(Clone)]
pub(super) struct DeviceStates {
    /// The initial value of each.
    initial: Vec<f32>,
    /// Rows and columns of each.
    shapes: Vec<[usize; 2]>,
    /// `[rows, columns]` each; made on the parameter's device by the first update.
    tensors: Vec<Tensor<2>>,
}

impl DeviceStates {
    /// States of a parameter of that shape before the first update.
    pub(super) fn new(specs: &[StateSpec], param: &[u64]) -> Self {
        let initial = specs.iter().map(|spec| spec.initial as f32).collect();
        let shapes = specs.iter().map(|spec| rows_and_columns(spec.extents(param)));
        let shapes = shapes.map(|shape| shape.map(|extent| extent as usize)).collect();
        Self { initial, shapes, tensors: Vec::new() }
    }

    /// Their elements, `[n]` each.
    ///
    /// # Errors
    /// The device failed.
    pub(super) fn values(&self) -> Result<Vec<TensorElements>, Diagnostic> {
        let value = |index: usize| match self.tensors.get(index) {
            Some(state) => TensorElements::of(state.clone().reshape([self.elements(index)])),
            None => Ok(TensorElements::F32(Arc::new(vec![self.initial[index]; self.elements(index)]))),
        };
        (0..self.initial.len()).map(value).collect()
    }

    /// The elements of one, `[n]`.
    ///
    /// # Errors
    /// The device failed.
    pub(super) fn read(&self, index: usize) -> Result<Vec<f32>, Diagnostic> {
        match self.tensors.get(index) {
            Some(state) => tensor::read_f32(state.clone().reshape([self.elements(index)])),
            None => Ok(vec![self.initial[index]; self.elements(index)]),
        }
    }

    /// Continues with these elements, `[n]` each.
    pub(super) fn restore(&mut self, values: Vec<Vec<f32>>, device: &Device) {
        let tensor = |(values, shape): (_, &[usize; 2])| tensor::flat(values, device).reshape(*shape);
        self.tensors = values.into_iter().zip(&self.shapes).map(tensor).collect();
    }

    /// Elements of one.
    pub(super) fn elements(&self, index: usize) -> usize {
        self.shapes[index].iter().product()
    }

    /// Removes and returns their elements, `[n]` each.
    ///
    /// # Errors
    /// The device failed.
    pub(super) fn take(&mut self) -> Result<Vec<Vec<f32>>, Diagnostic> {
        let tensors = std::mem::take(&mut self.tensors).into_iter().enumerate();
        tensors.map(|(index, state)| tensor::read_f32(state.reshape([self.elements(index)]))).collect()
    }

    /// Assigns these elements, `[n]`, to a state after the first update.
    pub(super) fn set(&mut self, index: usize, values: Tensor<1>) {
        if let Some(state) = self.tensors.get_mut(index) {
            *state = values.reshape(self.shapes[index]);
        }
    }

    /// Lends the tensors, on that device, to services; returns their handles.
    fn lend(&mut self, served: &Served<OnDevice>, device: &Device) -> Vec<u64> {
        if self.tensors.len() != self.initial.len() {
            let made = self.initial.iter().zip(&self.shapes);
            self.tensors = made.map(|(&value, shape)| Tensor::full(*shape, value, device)).collect();
        }
        let tensors = std::mem::take(&mut self.tensors).into_iter().zip(&self.shapes);
        tensors.map(|(state, shape)| served.give(state, shape.map(|extent| extent as u64), true)).collect()
    }

    /// Takes the tensors back. The table returns every given tensor that was not freed, and given tensors cannot be.
    fn take_back(&mut self, served: &Served<OnDevice>, handles: &[u64]) {
        self.tensors = handles.iter().filter_map(|&handle| served.take(handle)).collect();
    }
}

/// Updates parameters together, or one, after that gradient evaluation; `shared` are the states of the whole instance.
/// Returns the new values, `[n]` each. If the plugin fails, the values that it assigned before are kept.
///
/// # Errors
/// The plugin failed; the values are returned as well.
pub(super) fn step(
    plugin: &OptimizerPlugin,
    updates: Vec<Update<'_>>,
    states: &mut [DeviceStates],
    mut shared: Option<&mut DeviceStates>,
    evaluation: u32,
) -> (Vec<Tensor<1>>, Result<(), Diagnostic>) {
    let Some(device) = updates.first().map(|update| update.value.device()) else {
        return (Vec::new(), Ok(()));
    };
    let served = Served::new(OnDevice(device.clone()));
    let handles: Vec<Vec<u64>> = states.iter_mut().map(|states| states.lend(&served, &device)).collect();
    let of_all = shared.as_mut().map(|shared| shared.lend(&served, &device)).unwrap_or_default();
    let mut kept = Vec::with_capacity(updates.len());
    let mut params = Vec::with_capacity(updates.len());
    for (update, states) in updates.into_iter().zip(&handles) {
        let Update { info, value, grad, scalars, grid } = update;
        let shape = rows_and_columns(&info.shape);
        let sizes = shape.map(|extent| extent as usize);
        let param = served.give(value.clone().reshape(sizes), shape, true);
        let grad = served.give(grad.reshape(sizes), shape, false);
        kept.push((param, value));
        let states = RSlice::from_slice(states);
        params.push(ServedParam { info, param, grad, states, scalars, grid: grid.into() });
    }
    let services = served.object();
    let result = plugin.step_with_services(&ServiceUpdate {
        services: &services,
        params: &params,
        shared: &of_all,
        evaluation,
    });
    for (states, handles) in states.iter_mut().zip(&handles) {
        states.take_back(&served, handles);
    }
    if let Some(shared) = shared {
        shared.take_back(&served, &of_all);
    }
    let value = |(handle, old): (u64, Tensor<1>)| {
        let elements = old.dims()[0];
        served.take(handle).map_or(old, |value| value.reshape([elements]))
    };
    (kept.into_iter().map(value).collect(), result)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use altgrad_plugin_api::{Axes, Matrix, Services, services::plain::Plain};

    use super::*;

    fn numbers(count: usize, seed: u32) -> Vec<f32> {
        (0..count).map(|i| ((i as f32 + 1.0) * 0.7 + seed as f32 * 1.3).sin() * 3.0).collect()
    }

    /// Every operation once, on matrices of some shapes: the results, row by row.
    fn all_operations<C: Compute>(
        served: &Served<C>,
        matrix: impl Fn([usize; 2], Vec<f32>) -> C::Tensor,
        read: impl Fn(C::Tensor) -> Vec<f32>,
    ) -> Vec<([u64; 2], Vec<f32>)> {
        let object = served.object();
        let services = Services::new(&object);
        let give = |shape: [usize; 2], seed| {
            let tensor = matrix(shape, numbers(shape[0] * shape[1], seed));
            served.give(tensor, shape.map(|extent| extent as u64), true)
        };
        let given = |shape, seed| services.given(give(shape, seed)).unwrap();
        let (a, b, row, column) = (given([5, 7], 1), given([5, 7], 2), given([1, 7], 3), given([5, 1], 4));
        let mut made: Vec<Matrix<'_>> = vec![
            a.matmul(&b.transpose().unwrap()).unwrap(),
            a.matmul_transposed(&b).unwrap(),
            a.transposed_matmul(&b).unwrap(),
            a.affine(-0.5, 2.0).unwrap(),
            a.blend(0.3, &b, -4.0).unwrap(),
            a.reshape([7, 5]).unwrap(),
            a.transpose().unwrap().reshape([1, 35]).unwrap(),
            a.dot(&b).unwrap(),
            a.norm().unwrap(),
            services.full([2, 3], 1.5).unwrap(),
            a.map(MapOp::ABS).unwrap().map(MapOp::SQRT).unwrap(),
            a.map(MapOp::ABS).unwrap().map(MapOp::LOG).unwrap(),
        ];
        made.extend([MapOp::RECIPROCAL, MapOp::EXP, MapOp::SIGN].map(|op| a.map(op).unwrap()));
        let below = a.zip(ZipOp::LESS, &b).unwrap();
        made.push(below.select(&a, &b).unwrap());
        made.push(a.gather(&row).unwrap());
        made.push(row.argsort().unwrap());
        // Equal bits on both sides, because vectors of close eigenvalues depend on each digit.
        let square = given([5, 5], 5);
        let symmetric = square.zip(ZipOp::ADD, &square.transpose().unwrap()).unwrap();
        let [scales, vectors] = symmetric.eigen().unwrap();
        let positive = scales.map(MapOp::ABS).unwrap().affine(1.0, 0.5).unwrap();
        let positive = vectors.zip(ZipOp::MUL, &positive).unwrap().matmul_transposed(&vectors).unwrap();
        made.push(positive.cholesky().unwrap());
        made.extend([scales, vectors]);
        let spoiled = symmetric.affine(f32::INFINITY, 0.0).unwrap();
        made.extend(spoiled.eigen().unwrap().map(|x| x.zip(ZipOp::EQUAL, &x).unwrap()));
        made.extend(b.transpose().unwrap().qr().unwrap());
        let arithmetic = [ZipOp::ADD, ZipOp::SUB, ZipOp::MUL, ZipOp::DIV, ZipOp::MAX, ZipOp::MIN];
        for op in arithmetic.into_iter().chain([ZipOp::LESS, ZipOp::LESS_EQUAL, ZipOp::EQUAL]) {
            made.extend([&b, &row, &column].map(|other| a.zip(op, other).unwrap()));
            made.push(row.zip(op, &column).unwrap());
        }
        for op in [ReduceOp::SUM, ReduceOp::SUM_SQUARES, ReduceOp::MAX_ABS] {
            made.extend([Axes::ALL, Axes::ROWS, Axes::COLUMNS].map(|axes| a.reduce(op, axes).unwrap()));
        }
        // Read as the parameter is read: assigned to the host's value.
        let results = made.iter().map(|matrix| {
            let shape = matrix.shape();
            let handle = give(shape.map(|extent| extent as usize), 9);
            services.given(handle).unwrap().assign(matrix).unwrap();
            (shape, read(served.take(handle).unwrap()))
        });
        results.collect()
    }

    #[test]
    fn the_tensor_library_computes_what_plain_loops_do() {
        let device = Device::flex();
        let plain = Served::new(Plain);
        let expected =
            all_operations(&plain, |shape, values| PlainMatrix { shape, values }, |matrix| matrix.values);
        let served = Served::new(OnDevice(device.clone()));
        let tensor = |shape: [usize; 2], values| tensor::flat(values, &device).reshape(shape);
        let read = |tensor: Tensor<2>| {
            let elements = tensor.shape().num_elements();
            tensor::read_f32(tensor.reshape([elements])).unwrap()
        };
        let found = all_operations(&served, tensor, read);
        assert_eq!(found.len(), expected.len());
        for (i, ((shape, found), (expected_shape, expected))) in found.iter().zip(&expected).enumerate() {
            assert_eq!((shape, found.len()), (expected_shape, expected.len()), "result {i}");
            for (found, expected) in found.iter().zip(expected) {
                let close = (found - expected).abs() <= 1e-5 * expected.abs().max(1.0);
                assert!(close, "result {i}: {found}, expected {expected}");
            }
        }
    }
}

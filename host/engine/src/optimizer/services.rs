//! The services for optimizers, computed by the tensor library on the device of the parameter.
//!
//! `plugin-api` has handles, checks and guards. No data move between devices; states are tensors beside the parameter.

use std::sync::Arc;

use altgrad_base::diagnostic::Diagnostic;
use altgrad_loader::{OptimizerPlugin, calls, optimizer::ServiceUpdate};
use altgrad_plugin_api::{
    ErrorKind, Grid, MapOp, ParamInfo, PluginError, ReduceOp, StateSpec, StepScalars, ZipOp,
    services::table::{Compute, Served},
};
use burn::tensor::{Device, Tensor};

use crate::{
    tensor::{self, fp32},
    tensor_file::TensorElements,
};

/// The tensor library on a device. An optimizer calls it, but it executes the host's code only.
struct OnDevice(Device);

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
            _ => return None,
        })
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
    /// Learning rate and update count.
    pub scalars: StepScalars,
    /// The grid it is rounded to, if there is one.
    pub grid: Option<Grid<'a>>,
}

/// The states of a parameter that is updated with services.
pub(super) struct DeviceStates {
    /// The initial value of each.
    initial: Vec<f32>,
    /// Rows and columns.
    shape: [usize; 2],
    /// `[rows, columns]` each; made on the parameter's device by the first update.
    tensors: Vec<Tensor<2>>,
}

impl DeviceStates {
    /// States before the first update.
    pub(super) fn new(specs: &[StateSpec], shape: &[u64]) -> Self {
        let initial = specs.iter().map(|spec| spec.initial as f32).collect();
        let shape = match *shape {
            [rows, columns] => [rows, columns],
            _ => [1, shape.iter().product()],
        };
        Self { initial, shape: shape.map(|extent| extent as usize), tensors: Vec::new() }
    }

    /// Their elements, `[n]` each.
    ///
    /// # Errors
    /// The device failed.
    pub(super) fn values(&self) -> Result<Vec<TensorElements>, Diagnostic> {
        let elements = self.shape.iter().product();
        if self.tensors.len() == self.initial.len() {
            return self
                .tensors
                .iter()
                .map(|state| TensorElements::of(state.clone().reshape([elements])))
                .collect();
        }
        Ok(self.initial.iter().map(|&value| TensorElements::F32(Arc::new(vec![value; elements]))).collect())
    }

    /// The elements of one, `[n]`.
    ///
    /// # Errors
    /// The device failed.
    pub(super) fn read(&self, index: usize) -> Result<Vec<f32>, Diagnostic> {
        match self.tensors.get(index) {
            Some(state) => tensor::read_f32(state.clone().reshape([self.elements()])),
            None => Ok(vec![self.initial[index]; self.elements()]),
        }
    }

    /// Continues with these elements, `[n]` each.
    pub(super) fn restore(&mut self, values: Vec<Vec<f32>>, device: &Device) {
        let tensor = |values| tensor::flat(values, device).reshape(self.shape);
        self.tensors = values.into_iter().map(tensor).collect();
    }

    /// Elements of each.
    pub(super) fn elements(&self) -> usize {
        self.shape.iter().product()
    }

    /// Removes and returns their elements, `[n]` each.
    ///
    /// # Errors
    /// The device failed.
    pub(super) fn take(&mut self) -> Result<Vec<Vec<f32>>, Diagnostic> {
        let elements = self.elements();
        let tensors = std::mem::take(&mut self.tensors).into_iter();
        tensors.map(|state| tensor::read_f32(state.reshape([elements]))).collect()
    }

    /// Assigns these elements, `[n]`, to a state after the first update.
    pub(super) fn set(&mut self, index: usize, values: Tensor<1>) {
        if let Some(state) = self.tensors.get_mut(index) {
            *state = values.reshape(self.shape);
        }
    }

    /// Updates the parameter; returns its new value, `[n]`. If the plugin fails, the values that it assigned before are
    /// kept.
    ///
    /// # Errors
    /// The plugin failed; the value is kept as well.
    pub(super) fn step(
        &mut self,
        plugin: &OptimizerPlugin,
        update: Update<'_>,
    ) -> (Tensor<1>, Result<(), Diagnostic>) {
        let (device, elements) = (update.value.device(), update.value.dims()[0]);
        let (sizes, shape) = (self.shape, self.shape.map(|extent| extent as u64));
        if self.tensors.len() != self.initial.len() {
            self.tensors = self.initial.iter().map(|&value| Tensor::full(sizes, value, &device)).collect();
        }
        let served = Served::new(OnDevice(device));
        let kept = update.value.clone();
        let param = served.give(update.value.reshape(sizes), shape, true);
        let grad = served.give(update.grad.reshape(sizes), shape, false);
        let states: Vec<u64> = std::mem::take(&mut self.tensors)
            .into_iter()
            .map(|state| served.give(state, shape, true))
            .collect();
        let result = plugin.step_with_services(&ServiceUpdate {
            info: update.info,
            services: &served.object(),
            param_and_grad: [param, grad],
            states: &states,
            scalars: update.scalars,
            grid: update.grid,
        });
        // The table returns every given tensor that was not freed, and given tensors cannot be freed.
        self.tensors = states.into_iter().filter_map(|state| served.take(state)).collect();
        let value = served.take(param).map_or(kept, |value| value.reshape([elements]));
        (value, result)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use altgrad_plugin_api::{
        Axes, Matrix, Services,
        services::plain::{Plain, PlainMatrix},
    };

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
        for op in [ZipOp::ADD, ZipOp::SUB, ZipOp::MUL, ZipOp::DIV, ZipOp::MAX, ZipOp::MIN] {
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

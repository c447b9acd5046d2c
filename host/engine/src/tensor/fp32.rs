//! Matrix products of f32 tensors in f32 throughout, on every backend.
//!
//! The tensor library's own products may run on tensor cores, which round f32 operands to TF32 (10 stored significand
//! bits). In fp32 baselines and shadow gradients that would be an error of its own. These products use GPU kernels
//! without tensor cores.

use burn::backend::{
    Autodiff, Backend, Dispatch, Flex, TensorMetadata,
    autodiff::{
        checkpoint::{base::Checkpointer, strategy::CheckpointStrategy},
        grads::Gradients,
        ops::{Backward, Ops, OpsKind},
    },
    backend_extension,
    ops::FloatTensorOps as _,
    tensor::FloatTensor,
};
use burn::tensor::Tensor;

/// Matrix products in f32, for burn's backends.
#[backend_extension(Cube: cfg(feature = "gpu"), Flex, Autodiff, Fusion: cfg(feature = "gpu"))]
pub trait Fp32Ops: Backend {
    /// `a b` of the last two axes; the other axes are equal.
    #[fusion(meta = product_shape)]
    fn fp32_matmul(a: FloatTensor<Self>, b: FloatTensor<Self>) -> FloatTensor<Self>;
}

/// Shape of [`Fp32Ops::fp32_matmul`]'s result.
#[cfg(feature = "gpu")]
fn product_shape(
    a: &burn::backend::fusion::custom::TensorSpec,
    b: &burn::backend::fusion::custom::TensorSpec,
) -> burn::backend::fusion::custom::TensorSpec {
    let mut shape = a.shape.clone();
    let last = shape.num_dims() - 1;
    shape[last] = b.shape[last];
    burn::backend::fusion::custom::TensorSpec::new(shape, burn::tensor::DType::F32)
}

#[cfg(feature = "gpu")]
impl Fp32Ops for burn_cubecl::CubeBackend {
    /// By kernels whose threads multiply and add themselves, the first that the device can launch.
    fn fp32_matmul(a: FloatTensor<Self>, b: FloatTensor<Self>) -> FloatTensor<Self> {
        use cubecl::prelude::Scalar as _;
        use cubek::{
            matmul::{
                definition::{MatmulElems, MatmulGlobalElems},
                launch::launch_ref,
                multi_level::Strategy,
            },
            std::InputBinding,
        };
        #[cfg(feature = "cuda")]
        if let Some(y) = super::cublaslt::matmul(&a, &b) {
            return y;
        }
        let element = f32::elem_type_native();
        let y = burn_cubecl::kernel::matmul::init_matmul_output(&a, &b, burn::tensor::DType::F32);
        let launch = |strategy: Strategy| {
            let globals = MatmulGlobalElems { lhs: element, rhs: element, out: element };
            let [a, b] = [&a, &b].map(|x| InputBinding::new(x.clone().binding(), element));
            let mut types = MatmulElems::from_globals(&globals);
            launch_ref(&strategy.into(), &y.client, a, b, y.clone().binding(), &mut types)
        };
        let launched = launch(Strategy::DoubleUnit(Default::default()))
            .or_else(|_| launch(Strategy::SimpleUnit(Default::default())))
            .or_else(|_| launch(Strategy::Naive));
        match launched {
            Ok(()) => y,
            // As the tensor library does for its own products.
            Err(error) => panic!("a matrix product cannot be set up: {error:?}"),
        }
    }
}

impl Fp32Ops for Flex {
    fn fp32_matmul(a: FloatTensor<Self>, b: FloatTensor<Self>) -> FloatTensor<Self> {
        Self::float_matmul(a, b)
    }
}

/// `dL/da = g b^T`, `dL/db = a^T g`.
#[derive(Debug)]
struct Fp32Backward;

impl<B: Fp32Ops> Backward<B, 2> for Fp32Backward {
    type State = [FloatTensor<B>; 2];

    fn backward(self, ops: Ops<Self::State, 2>, grads: &mut Gradients, _: &mut Checkpointer) {
        let ([a, b], [a_parent, b_parent]) = (ops.state, ops.parents);
        let grad = grads.consume::<B>(&ops.node);
        let last = grad.shape().num_dims() - 1;
        if let Some(parent) = a_parent {
            let b = B::float_swap_dims(b, last - 1, last);
            grads.register::<B>(parent.id, B::fp32_matmul(grad.clone(), b));
        }
        if let Some(parent) = b_parent {
            let a = B::float_swap_dims(a, last - 1, last);
            grads.register::<B>(parent.id, B::fp32_matmul(a, grad));
        }
    }
}

impl<B: Fp32Ops, C: CheckpointStrategy> Fp32Ops for Autodiff<B, C> {
    fn fp32_matmul(a: FloatTensor<Self>, b: FloatTensor<Self>) -> FloatTensor<Self> {
        let nodes = [a.node(), b.node()];
        let [a, b] = [a, b].map(|x| x.into_primitive());
        let y = B::fp32_matmul(a.clone(), b.clone());
        match <Fp32Backward as Backward<B, 2>>::prepare::<C>(Fp32Backward, nodes).compute_bound().stateful() {
            OpsKind::Tracked(prep) => prep.finish([a, b], y),
            OpsKind::UnTracked(prep) => prep.finish(y),
        }
    }
}

/// `a b` of the last two axes, in f32 on every device. All other axes are equal.
#[must_use]
pub fn matmul<const D: usize>(a: Tensor<D>, b: Tensor<D>) -> Tensor<D> {
    Tensor::from_dispatch(<Dispatch as Fp32Ops>::fp32_matmul(a.into_dispatch(), b.into_dispatch()))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use altgrad_config::DeviceChoice;
    use altgrad_end_to_end::skipped;

    use super::*;
    use crate::{
        device::ComputeDevice,
        tensor::{flat, read_f32, testing::numbers},
    };

    /// Against f64, forward and backward, on each device that this build and machine have.
    #[test]
    fn products_and_gradients_are_those_in_f64() {
        let [batch, m, k, n] = [3, 17, 70, 33];
        let (a, b, g) = (numbers(1, batch * m * k), numbers(2, batch * k * n), numbers(3, batch * m * n));
        let sum = |terms: usize, term: &dyn Fn(usize) -> f64| (0..terms).map(term).sum::<f64>();
        let at = |x: &[f32], index: usize| f64::from(x[index]);
        for choice in [DeviceChoice::Cpu, DeviceChoice::Cuda(0), DeviceChoice::Wgpu] {
            let Ok(device) = ComputeDevice::open(choice) else {
                skipped(&format!("products in f32 on {choice}"), "no such device");
                continue;
            };
            let device = device.tensors;
            let leaf = |x: &[f32], shape| {
                Tensor::<1>::from_inner(flat(x.to_vec(), &device)).reshape::<3, _>(shape).require_grad()
            };
            let (x, w) = (leaf(&a, [batch, m, k]), leaf(&b, [batch, k, n]));
            let y = matmul(x.clone(), w.clone());
            let weights = flat(g.clone(), &device).reshape([batch, m, n]);
            let tape = (y.clone() * Tensor::from_inner(weights)).sum().backward();
            let read = |x: Tensor<3>| read_f32(x.flatten(0, 2)).unwrap();
            let (y, x, w) = (read(y.inner()), read(x.grad(&tape).unwrap()), read(w.grad(&tape).unwrap()));
            let near = |found: f32, expected: f64, terms: usize| {
                assert!((f64::from(found) - expected).abs() < 4e-7 * terms as f64, "{found}, {expected}");
            };
            for (at_y, y) in y.into_iter().enumerate() {
                let (row, j) = (at_y / n, at_y % n);
                let expected = sum(k, &|i| at(&a, row * k + i) * at(&b, (row / m * k + i) * n + j));
                near(y, expected, k);
            }
            for (at_x, x) in x.into_iter().enumerate() {
                let (row, i) = (at_x / k, at_x % k);
                near(x, sum(n, &|j| at(&g, row * n + j) * at(&b, (row / m * k + i) * n + j)), n);
            }
            for (at_w, w) in w.into_iter().enumerate() {
                let (row, j) = (at_w / n, at_w % n);
                let (sequence, i) = (row / k, row % k);
                let expected =
                    sum(m, &|t| at(&a, (sequence * m + t) * k + i) * at(&g, (sequence * m + t) * n + j));
                near(w, expected, m);
            }
        }
    }
}

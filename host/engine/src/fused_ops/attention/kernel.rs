//! Attention on GPUs: one kernel forward, two backward. A cube computes a tile of queries, or of keys, of one head.
//!
//! The normalized probabilities are what the second product multiplies, rounded in bf16, so that a first pass over the
//! keys finds the largest score and the sum of exponentials of each query. All sums have a fixed order.

use std::fmt;

use burn::tensor::Shape;
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use super::{
    backward_kernel::{gradient_of_keys_and_values, gradient_of_queries},
    forward_kernel::forward,
    head::AttentionShape,
    products::{Products, TensorCores, Units},
    tiling::Tiling,
};
use crate::{cube_parts::elements, fused_ops::device::empty};

/// The widest heads whose tiles fit into the shared memory that GPUs have, 32 KiB.
pub(super) const MAX_HEAD_WIDTH: usize = 128;
/// Most cubes of a launch: devices promise 65,535.
const MAX_CUBES: usize = 1 << 15;

/// What multiplies tiles, and their extents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kernels {
    /// The units of a cube, in f32.
    Units(Tiling),
    /// Tensor cores, in bf16.
    TensorCores(Tiling),
}

impl fmt::Display for Kernels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (what, tiling) = match self {
            Self::Units(tiling) => ("units", tiling),
            Self::TensorCores(tiling) => ("tensor cores", tiling),
        };
        write!(f, "{what}, tiles of {}", tiling.side)
    }
}

/// Attention from the stacked q, k and v, `[batch, block, 3 width]`, and, if it `has_mask`, a factor of each
/// probability, `[batch, heads, block, block]`.
#[derive(Debug, Clone, Copy)]
pub struct DeviceAttention {
    /// The extents.
    pub shape: AttentionShape,
    /// True if the second input is a mask.
    pub has_mask: bool,
    /// True if the operands of all products are rounded to bf16.
    pub to_bf16: bool,
}

impl DeviceAttention {
    /// The cubes of a launch over all tiles, and the units of each.
    fn cubes(&self, tiling: Tiling) -> (CubeCount, CubeDim) {
        let AttentionShape { batch, block, heads, .. } = self.shape;
        let cubes = (batch * heads * block.div_ceil(tiling.side)).min(MAX_CUBES);
        (CubeCount::new_1d(cubes as u32), CubeDim::new_1d(tiling.units as u32))
    }

    /// The forward pass by given kernels.
    pub(super) fn forward_by(&self, kernels: Kernels, inputs: [CubeTensor; 3], outputs: [CubeTensor; 2]) {
        match kernels {
            Kernels::Units(tiling) => self.launch_forward::<Units>(tiling, inputs, outputs),
            Kernels::TensorCores(tiling) => self.launch_forward::<TensorCores>(tiling, inputs, outputs),
        }
    }

    /// The backward pass by given kernels; writes the gradient of q, k and v.
    pub(super) fn backward_by(
        &self,
        kernels: Kernels,
        inputs: [CubeTensor; 3],
        (stats, grad): (CubeTensor, CubeTensor),
        to: CubeTensor,
    ) {
        match kernels {
            Kernels::Units(tiling) => self.launch_backward::<Units>(tiling, inputs, (stats, grad), to),
            Kernels::TensorCores(tiling) => {
                self.launch_backward::<TensorCores>(tiling, inputs, (stats, grad), to);
            }
        }
    }

    fn launch_forward<P: Products>(
        &self,
        tiling: Tiling,
        [qkv, mask, _]: [CubeTensor; 3],
        [y, stats]: [CubeTensor; 2],
    ) {
        let (client, elements) = (qkv.client.clone(), elements(&y));
        let (cubes, units) = self.cubes(tiling);
        forward::launch::<P>(
            &client,
            cubes,
            units,
            qkv.into_buffer_arg(),
            mask.into_buffer_arg(),
            y.into_buffer_arg(),
            stats.into_buffer_arg(),
            elements,
            self.shape.block as u32,
            self.shape.heads as u32,
            self.shape.scale(),
            tiling,
            self.has_mask,
            self.to_bf16,
        );
    }

    fn launch_backward<P: Products>(
        &self,
        tiling: Tiling,
        [qkv, mask, _]: [CubeTensor; 3],
        (stats, grad): (CubeTensor, CubeTensor),
        to: CubeTensor,
    ) {
        let AttentionShape { batch, block, heads, .. } = self.shape;
        let (client, elements) = (qkv.client.clone(), elements(&grad));
        let means = empty(&qkv, Shape::from([batch * heads * block]));
        let (cubes, units) = self.cubes(tiling);
        gradient_of_queries::launch::<P>(
            &client,
            cubes.clone(),
            units,
            qkv.clone().into_buffer_arg(),
            mask.clone().into_buffer_arg(),
            stats.clone().into_buffer_arg(),
            grad.clone().into_buffer_arg(),
            to.clone().into_buffer_arg(),
            means.clone().into_buffer_arg(),
            elements,
            block as u32,
            heads as u32,
            self.shape.scale(),
            tiling,
            self.has_mask,
            self.to_bf16,
        );
        gradient_of_keys_and_values::launch::<P>(
            &client,
            cubes,
            units,
            qkv.into_buffer_arg(),
            mask.into_buffer_arg(),
            stats.into_buffer_arg(),
            grad.into_buffer_arg(),
            means.into_buffer_arg(),
            to.into_buffer_arg(),
            elements,
            block as u32,
            heads as u32,
            self.shape.scale(),
            tiling,
            self.has_mask,
            self.to_bf16,
        );
    }
}

//! Which kernels compute attention on a GPU.
//!
//! Tiles are the largest that fit into the shared memory of a cube. In bf16, tensor cores multiply them where the
//! device has them; before they are used, their kernels must compute a small attention layer as the CPU does, forward
//! and backward. Choices depend on the shapes and the device only, so that equal runs compute the same bits.

use std::collections::{BTreeMap, BTreeSet};

use burn::tensor::Shape;
use burn_cubecl::{CubeBackend, CubeDevice, tensor::CubeTensor};
use cubecl::{features::MmaConfig, prelude::Scalar as _};
use half::bf16;
use parking_lot::Mutex;

use super::{
    Attention,
    head::AttentionShape,
    kernel::{DeviceAttention, Kernels},
    products::{PLANE, SIDE, TensorCores, Units},
    tiling::{STATS, Tiling},
};
use crate::{
    device_faults::catch_panic,
    fused_ops::{CpuFunction as _, device::DeviceFunction},
    kernel_text::{download, upload},
    tensor::cpu::{elements, from_elements},
};

/// Queries and keys of a tile, from the largest on.
const SIDES: [usize; 4] = [64, 32, 16, 8];
/// The largest difference from the CPU in a trial, as a share of the largest value. A sum that rounds to the next bf16
/// value differs by 2^-8 of itself.
const TOLERANCE: f32 = 1.0 / 64.0;

/// Attention layers that one kernel computes: precision, width of a head, the largest tile, whether there is a mask.
type Layers = (bool, usize, usize, bool);

/// The kernels so far: a process computes on one GPU.
static CHOICES: Mutex<BTreeMap<Layers, Kernels>> = Mutex::new(BTreeMap::new());

/// The kernels so far, as text.
pub(crate) fn choices() -> BTreeMap<String, String> {
    let text = |((to_bf16, width, side, has_mask), kernels): (&Layers, &Kernels)| {
        let precision = if *to_bf16 { "bf16" } else { "fp32" };
        let mask = if *has_mask { ", dropout" } else { "" };
        (
            format!("attention, {precision}, heads of {width}, up to {side} positions a tile{mask}"),
            kernels.to_string(),
        )
    };
    CHOICES.lock().iter().map(text).collect()
}

impl Kernels {
    /// The kernels of an attention layer on the device of its input.
    pub(super) fn of(layer: &DeviceAttention, qkv: &CubeTensor) -> Self {
        let width = layer.shape.head_width();
        // Larger tiles would be empty in part.
        let most = layer.shape.block.next_power_of_two().clamp(SIDES[SIDES.len() - 1], SIDES[0]);
        let layers = (layer.to_bf16, width, most, layer.has_mask);
        let known = CHOICES.lock().get(&layers).copied();
        known.unwrap_or_else(|| {
            let chosen = choose(layer, most, qkv);
            CHOICES.lock().insert(layers, chosen);
            chosen
        })
    }
}

/// The first kernels that compute right.
fn choose(layer: &DeviceAttention, most: usize, qkv: &CubeTensor) -> Kernels {
    let properties = qkv.client.properties();
    let (hardware, width) = (&properties.hardware, layer.shape.head_width());
    let fits = |tiling: &Tiling, operand| {
        tiling.bytes(operand) <= hardware.max_shared_memory_size
            && tiling.units <= hardware.max_units_per_cube as usize
    };
    let sides = || SIDES.into_iter().filter(|side| *side <= most);
    let has_cores = layer.to_bf16
        && hardware.plane_size_min as usize == PLANE
        && multiplies_bf16(&properties.features.matmul.cmma);
    if has_cores {
        let tilings = sides().filter(|side| *side >= SIDE).map(|side| TensorCores::tiling(width, side));
        if let Some(tiling) = tilings.into_iter().find(|tiling| fits(tiling, 2)) {
            let kernels = Kernels::TensorCores(tiling);
            match catch_panic(|| check(layer, kernels, tiling.side, &qkv.device)) {
                Ok(()) => return kernels,
                Err(why) => tracing::warn!("attention is not computed by {kernels}: {why}"),
            }
        }
    }
    let tiling = sides().map(|side| Units::tiling(width, side)).find(|tiling| fits(tiling, 4));
    // Devices have what the smallest tile needs.
    Kernels::Units(tiling.unwrap_or_else(|| Units::tiling(width, SIDES[SIDES.len() - 1])))
}

/// True if a device multiplies matrices of the kernels' size.
fn multiplies_bf16(cores: &BTreeSet<MmaConfig>) -> bool {
    let [bf16, f32] = [bf16::elem_type_native(), f32::elem_type_native()];
    let side = SIDE as u32;
    cores.contains(&MmaConfig { a_type: bf16, b_type: bf16, cd_type: f32, m: side, n: side, k: side })
}

/// Computes a small layer of the same kernels, with several tiles and a short last one, and compares it with the CPU's.
fn check(layer: &DeviceAttention, kernels: Kernels, side: usize, device: &CubeDevice) -> Result<(), String> {
    let (heads, block) = (2, 2 * side + 5);
    let shape = AttentionShape { batch: 1, block, heads, width: heads * layer.shape.head_width() };
    let width = shape.width;
    let trial = DeviceAttention { shape, ..*layer };
    // Multiples of 1/64 are exact in bf16.
    let numbers = |count: usize, of: usize| -> Vec<f32> {
        (0..count).map(|at| ((at * of + at / 97) % 129) as f32 / 64.0 - 1.0).collect()
    };
    let (qkv, grad) = (numbers(3 * block * width, 31), numbers(block * width, 43));
    // A factor of dropout, or none.
    let mask: Vec<f32> = match layer.has_mask {
        true => (0..heads * block * block).map(|at| f32::from(u8::from(at % 5 > 0))).collect(),
        false => vec![1.0],
    };
    let on_device =
        |values: &[f32]| upload::<CubeBackend>(device, Shape::from([values.len()]), values.to_vec());
    let inputs = || [on_device(&qkv), on_device(&mask), on_device(&[1.0])];
    // A launch that fails leaves NaN.
    let new = |count: usize| on_device(&vec![f32::NAN; count]);
    let (y, stats, to) = (new(block * width), new(heads * block * STATS), new(3 * block * width));
    trial.forward_by(kernels, inputs(), [y.clone(), stats.clone()]);
    trial.backward_by(kernels, inputs(), (stats, on_device(&grad)), to.clone());
    let found = [download::<CubeBackend>(y)?, download::<CubeBackend>(to)?];

    let on_cpu = |values: &[f32], shape: Shape| from_elements(values.to_vec(), shape);
    let function = Attention {
        shape,
        mask: layer.has_mask.then(|| mask.clone().into()),
        to_bf16: layer.to_bf16,
        measured: None,
    };
    let unused = || on_cpu(&[1.0], [1].into());
    let qkv = on_cpu(&qkv, [1, block, 3 * width].into());
    let (y, saved) = function.forward([qkv, unused(), unused()], true);
    let grad = on_cpu(&grad, [1, block, width].into());
    let [to, ..] = function.backward(saved, grad, [true, false, false]);
    let expected = [Some(y), to];
    for (what, (found, expected)) in ["result", "gradient"].into_iter().zip(found.iter().zip(&expected)) {
        let expected = expected.as_ref().map_or(&[][..], |expected| elements(expected));
        let largest = expected.iter().fold(0.0f32, |largest, x| largest.max(x.abs()));
        let off = found.iter().zip(expected).map(|(found, expected)| (found - expected).abs());
        // In this order NaN is the largest.
        let most = off.max_by(f32::total_cmp).unwrap_or(f32::NAN);
        if most.is_nan() || most > TOLERANCE * largest {
            return Err(format!("a {what} of a trial differs by {most}, the largest is {largest}"));
        }
    }
    Ok(())
}

impl DeviceFunction for DeviceAttention {
    fn inputs(&self) -> usize {
        1 + usize::from(self.has_mask)
    }

    fn shapes(&self, _: [&Shape; 3]) -> [Shape; 2] {
        let AttentionShape { batch, block, heads, width } = self.shape;
        [Shape::from([batch, block, width]), Shape::from([batch * heads * block * STATS])]
    }

    fn forward(&self, inputs: [CubeTensor; 3], outputs: [CubeTensor; 2], _: bool) {
        self.forward_by(Kernels::of(self, &inputs[0]), inputs, outputs);
    }

    /// The mask has no gradient: dropout draws it.
    fn backward(
        &self,
        inputs: [CubeTensor; 3],
        stats: CubeTensor,
        grad: CubeTensor,
        [to, ..]: [CubeTensor; 3],
    ) {
        self.backward_by(Kernels::of(self, &inputs[0]), inputs, (stats, grad), to);
    }
}

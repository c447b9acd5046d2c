//! Rounding of values with a format or by a cast, with the operations of training.

use std::sync::Arc;

use altgrad_base::diagnostic::Diagnostic;
use altgrad_casts::{Axis, Block, Cast, Range, Shape};
use altgrad_config::SteChoice;
use altgrad_loader::FormatPlugin;
use altgrad_plugin_api::{RandomKey, Rounding};
use burn::tensor::{Tensor, TensorData};

use crate::{
    device::ComputeDevice,
    quant::{
        CastParams, DeviceFormat, FakeQuantParams, History, QuantStats, Role, Rotation, ScaleRule,
        ScaleSource, Scaling, TensorQuantizer, cast, fake_quant,
    },
    setup::casts::{arithmetic, check_device, groups, mode, modes, open},
    tensor,
};

/// Options of rounding.
#[derive(Debug, Clone, Copy)]
pub struct QuantizeOptions {
    /// The rounding mode.
    pub rounding: Rounding,
    /// The factor before rounding; its inverse is the factor afterwards.
    pub scale: f32,
    /// Seed of stochastic rounding: step 0, tensor 0.
    pub seed: u64,
}

/// The rounded values and the statistics of their rounding.
///
/// # Errors
/// The format does not run on the device, or a call failed.
pub fn quantize(
    format: FormatPlugin,
    values: Vec<f32>,
    options: QuantizeOptions,
    device: &ComputeDevice,
) -> Result<(Vec<f32>, QuantStats), Diagnostic> {
    let QuantizeOptions { rounding, scale, seed } = options;
    let format = DeviceFormat::new(Arc::new(format), device, &[rounding])?;
    let call = FakeQuantParams {
        rounding,
        key: RandomKey { seed, ..RandomKey::default() },
        scale: ScaleSource::Fixed([scale, 1.0 / scale]),
        ..FakeQuantParams::unscaled(format)
    };
    let rounded = fake_quant::fake_quant(tensor::flat(values, &device.tensors), call);
    let seen = rounded.stats.read()?;
    Ok((tensor::read_f32(rounded.values)?, seen))
}

/// A matrix, row-major, and the axis of blocks and transforms.
#[derive(Debug, Clone)]
pub struct CastInput {
    /// Rows times columns elements.
    pub values: Vec<f32>,
    /// Rows and columns.
    pub shape: Shape,
    /// The contraction of the product that the matrix is for.
    pub axis: Axis,
}

/// The values of a matrix after a cast, row-major in its shape. `key` is that of stochastic rounding and of random
/// signs.
///
/// # Errors
/// The format does not run on the device, or a call failed.
pub fn apply_cast(
    format: Arc<FormatPlugin>,
    rule: &Cast,
    input: CastInput,
    key: RandomKey,
    device: &ComputeDevice,
) -> Result<Vec<f32>, Diagnostic> {
    let CastInput { values, shape, axis } = input;
    let matrix: Tensor<2> =
        Tensor::from_data(TensorData::new(values, [shape.rows, shape.columns]), &device.tensors);
    let along_rows = |matrix: Tensor<2>| match axis {
        Axis::Rows => matrix,
        Axis::Columns => matrix.swap_dims(0, 1),
    };
    let matrix = along_rows(matrix);
    let params = cast_params(format, rule, matrix.dims(), key, device)?;
    let rounded = cast(matrix, params);
    rounded.stats.read()?;
    tensor::read_f32(along_rows(rounded.values).reshape([-1]))
}

/// The parameters of a cast of a matrix of this many rows and columns.
fn cast_params(
    format: Arc<FormatPlugin>,
    rule: &Cast,
    shape: [usize; 2],
    key: RandomKey,
    device: &ComputeDevice,
) -> Result<CastParams, Diagnostic> {
    let ((rounding, _), arithmetic) = (mode(rule.rounding), arithmetic(rule));
    check_device(rule, &format, device)?;
    let format = open(rule, format, device, &modes(rule).collect::<Vec<_>>())?;
    let (group, tile) = groups(rule.block, shape, Role::Weight);
    let scaling = match rule.block {
        Block::None => Scaling::None,
        _ => {
            let range = rule.scaling.range(&Range::new(format.values(), &format.plugin().conventions));
            Scaling::Dynamic(ScaleRule { range, scaling: rule.scaling, group })
        }
    };
    let mut site =
        TensorQuantizer::new("matrix", Role::Weight, format, rounding, scaling, SteChoice::Identity);
    site.tile = tile;
    site.arithmetic = arithmetic;
    let rotation = rule.transform.map(|hadamard| Rotation { hadamard, key });
    Ok(CastParams {
        quant: site.fake_quant_params(key, &History::default()),
        arrangement: site.arrangement(),
        rotation,
        center: rule.center,
    })
}

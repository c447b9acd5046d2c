//! Fake quantization as one differentiable operation on every backend.
//!
//! Forward: the format plugin's function on the tensor's elements. Backward: straight through (the gradient
//! of the rounded tensor is passed on as the gradient of the tensor). The operation cannot return an error, so a
//! failed call leaves NaN in its result and the reason in the [`Quantizer`]; the step asks for it.

use std::sync::{Arc, Mutex, PoisonError};

use altgrad_plugin_api::{QuantParams, QuantStats};
use burn::backend::{
    Autodiff, Backend, Dispatch, Flex,
    autodiff::{
        checkpoint::{base::Checkpointer, strategy::CheckpointStrategy},
        grads::Gradients,
        ops::{Backward, Ops, OpsKind, unary},
    },
    backend_extension,
    tensor::FloatTensor,
};
use burn::tensor::{Tensor, TensorData};
use rayon::prelude::*;

use crate::{diagnostic::Diagnostic, plugins::FormatPlugin};

/// Elements a plugin call gets. Fixed, so that sums do not depend on the number of threads.
const PART: usize = 1 << 16;

/// A format, how to apply it, and what it has seen since it was last asked.
#[derive(Debug)]
pub struct Quantizer {
    format: Arc<FormatPlugin>,
    seen: Mutex<Seen>,
}

/// What the calls of a step left behind.
#[derive(Debug, Default)]
pub struct Seen {
    /// Elements quantized.
    pub elements: u64,
    /// Statistics over them.
    pub stats: QuantStats,
    /// The first call that failed, and why.
    pub fault: Option<Diagnostic>,
}

impl Quantizer {
    /// A quantizer that has seen nothing.
    #[must_use]
    pub fn new(format: Arc<FormatPlugin>) -> Self {
        Self { format, seen: Mutex::default() }
    }

    /// The format.
    #[must_use]
    pub fn format(&self) -> &FormatPlugin {
        &self.format
    }

    /// What was seen since the last call of this function.
    pub fn take_seen(&self) -> Seen {
        std::mem::take(&mut *self.seen.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Rounds `src` in parts, on all threads; NaN throughout if a part fails.
    fn quantize(&self, src: &[f32], params: &QuantParams) -> Vec<f32> {
        let mut dst = vec![f32::NAN; src.len()];
        let parts: Vec<Result<QuantStats, Diagnostic>> = src
            .par_chunks(PART)
            .zip(dst.par_chunks_mut(PART))
            .enumerate()
            .map(|(part, (src, dst))| {
                let mut params = *params;
                params.key.offset = (part * PART) as u64;
                self.format.fake_quant(src, dst, &params, &mut [])
            })
            .collect();
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.elements += src.len() as u64;
        for part in parts {
            match part {
                Ok(stats) => seen.stats.merge(&stats),
                Err(fault) => {
                    seen.fault.get_or_insert(fault);
                    dst.fill(f32::NAN);
                }
            }
        }
        dst
    }
}

/// The operation, as burn's backends see it.
#[backend_extension(Cube: cfg(feature = "gpu"), Flex, Autodiff, Fusion: cfg(feature = "gpu"))]
pub trait FormatOps: Backend {
    /// `x` rounded to the quantizer's grid, same shape. The default moves the elements to main memory and back,
    /// which costs nothing on the CPU.
    #[fusion(dtype = x, shape = x)]
    fn fake_quant(x: FloatTensor<Self>, quantizer: Arc<Quantizer>, params: QuantParams) -> FloatTensor<Self> {
        on_host::<Self>(x, &quantizer, &params)
    }
}

/// Rounds `x` to the quantizer's grid; straight-through gradient.
#[must_use]
pub fn fake_quant<const D: usize>(
    x: Tensor<D>,
    quantizer: &Arc<Quantizer>,
    params: QuantParams,
) -> Tensor<D> {
    let y = <Dispatch as FormatOps>::fake_quant(x.into_dispatch(), quantizer.clone(), params);
    Tensor::from_dispatch(y)
}

fn on_host<B: Backend>(x: FloatTensor<B>, quantizer: &Quantizer, params: &QuantParams) -> FloatTensor<B> {
    let device = burn::backend::TensorMetadata::device(&x);
    let shape = burn::backend::TensorMetadata::shape(&x);
    let elements = burn::tensor::read_sync(B::float_into_data(x))
        .map_err(|error| error.to_string())
        .and_then(|data| data.try_into_vec::<f32>().map_err(|error| format!("{error:?}")));
    let rounded = match elements {
        Ok(elements) => quantizer.quantize(&elements, params),
        Err(error) => {
            let mut seen = quantizer.seen.lock().unwrap_or_else(PoisonError::into_inner);
            seen.fault.get_or_insert(Diagnostic::run(format!("a weight cannot be read back: {error}")));
            vec![f32::NAN; shape.num_elements()]
        }
    };
    B::float_from_data(TensorData::new(rounded, shape), &device)
}

impl FormatOps for Flex {}

#[cfg(feature = "gpu")]
impl FormatOps for burn_cubecl::CubeBackend {}

/// The gradient goes straight through.
#[derive(Debug)]
struct StraightThrough;

impl<B: Backend> Backward<B, 1> for StraightThrough {
    type State = ();

    fn backward(self, ops: Ops<(), 1>, grads: &mut Gradients, _: &mut Checkpointer) {
        unary::<B, _>(ops.parents, ops.node, grads, |grad| grad);
    }
}

impl<B: Backend + FormatOps, C: CheckpointStrategy> FormatOps for Autodiff<B, C> {
    fn fake_quant(x: FloatTensor<Self>, quantizer: Arc<Quantizer>, params: QuantParams) -> FloatTensor<Self> {
        let node = x.node();
        let y = B::fake_quant(x.into_primitive(), quantizer, params);
        match <StraightThrough as Backward<B, 1>>::prepare::<C>(StraightThrough, [node])
            .compute_bound()
            .stateful()
        {
            OpsKind::Tracked(prep) => prep.finish((), y),
            OpsKind::UnTracked(prep) => prep.finish(y),
        }
    }
}

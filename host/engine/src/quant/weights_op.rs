//! Casts of several weights at once on GPUs, as operations: a few launches for all of them.
//!
//! The kernel of the format rounds all weights in one launch, because they lie in one buffer. An operation cannot
//! return an error: a failed call leaves NaN, and its reason in the format.

use std::sync::Arc;

use altgrad_plugin_api::{OVERFLOW_ULPS, PluginError, RandomKey, Rounding};
use burn::backend::{Backend, Dispatch, ExtensionType, TensorMetadata, backend_extension};
use burn::tensor::{DType, Shape, Tensor};
use burn_cubecl::{
    CubeBackend, kernel::into_contiguous, ops::numeric::empty_device_contiguous_dtype, tensor::CubeTensor,
};

use super::{
    DeviceFormat, ScaleRule,
    format_kernels::FormatKernels,
    scale_kernel,
    tally::{COUNTS, SUMS},
    weights_kernel::{self, BLOCK, Finished},
};
use crate::{
    kernel_text::{cubes, upload},
    tensor::{
        batch::{TensorBatch, TensorBatchMetadata, batch, unbatched},
        flat_places::part,
        gather_kernel::gather,
    },
    zero_words::zero_words,
};

/// One cast of several weights, each with one scale.
#[derive(Debug)]
pub struct WeightsCall {
    /// The format: a minifloat with kernels.
    pub format: Arc<DeviceFormat>,
    /// The rounding mode: one without random bits.
    pub rounding: Rounding,
    /// The rule of scales, without groups.
    pub rule: ScaleRule,
    /// True if products multiply codes as bf16.
    pub has_codes: bool,
}

/// Weights after a cast, one tensor each.
#[derive(Debug, ExtensionType)]
#[extension_type(fusion: cfg(feature = "gpu"))]
pub struct CastWeights<B: Backend> {
    /// The rounded values, `[n]`.
    #[extension_type]
    pub values: TensorBatch<B>,
    /// Their codes as bf16, `[n]`; none if they are not wanted.
    #[extension_type]
    pub codes: TensorBatch<B>,
    /// Scale and inverse, `[2]`.
    #[extension_type]
    pub scales: TensorBatch<B>,
    /// Words of the statistics, as the host counts them.
    #[extension_type]
    pub words: TensorBatch<B>,
    /// Sums of the statistics, as the host counts them.
    #[extension_type]
    pub sums: TensorBatch<B>,
}

/// The operations, for burn's backends.
#[backend_extension(Cube, Fusion)]
pub trait WeightOps: Backend {
    /// Casts weights `[n]`.
    #[fusion(meta = cast_specs)]
    fn cast_weights(
        #[extension_type] weights: TensorBatch<Self>,
        call: Arc<WeightsCall>,
    ) -> CastWeights<Self>;

    /// Weights `[n]` as bf16.
    #[fusion(meta = in_bf16)]
    fn weights_to_bf16(#[extension_type] weights: TensorBatch<Self>) -> TensorBatch<Self>;
}

fn cast_specs(weights: &TensorBatchMetadata, call: &Arc<WeightsCall>) -> CastWeightsMetadata {
    let of = |len: fn(usize) -> usize| TensorBatchMetadata::of_lens(weights.lens().map(len), DType::F32);
    let codes = weights.lens().filter(|_| call.has_codes);
    CastWeightsMetadata {
        values: of(|len| len),
        codes: TensorBatchMetadata::of_lens(codes, DType::BF16),
        scales: of(|_| 2),
        words: of(|_| COUNTS),
        sums: of(|len| SUMS * cubes(len)),
    }
}

fn in_bf16(weights: &TensorBatchMetadata) -> TensorBatchMetadata {
    TensorBatchMetadata::of_lens(weights.lens(), DType::BF16)
}

/// Weights in one buffer: the buffer, and place and length of each.
struct OneBuffer {
    values: CubeTensor,
    places: Vec<[usize; 2]>,
}

impl OneBuffer {
    /// These weights: where they are, if that is one buffer in which not much else lies between them, or copied.
    fn of(weights: Vec<CubeTensor>) -> Self {
        let weights: Vec<CubeTensor> = weights.into_iter().map(into_contiguous).collect();
        if let Some(found) = Self::in_place(&weights) {
            return found;
        }
        let mut next = 0;
        let place = |x: &CubeTensor| {
            let (place, len) = (next, x.shape().num_elements());
            next += len.next_multiple_of(BLOCK);
            [place, len]
        };
        let places: Vec<[usize; 2]> = weights.iter().map(place).collect();
        let values = empty(&weights[0], next, DType::F32);
        gather(places.iter().map(|[place, _]| *place).zip(weights).collect(), &values);
        Self { values, places }
    }

    fn in_place(weights: &[CubeTensor]) -> Option<Self> {
        let claims: Vec<_> = weights.iter().map(|x| x.handle.clone().binding().claim_key()).collect();
        let (memory, start, _) = *claims.first()?;
        let block = 4 * BLOCK as u64;
        let place = |(weight, &(of, first, _)): (&CubeTensor, &(_, u64, u64))| {
            let is_at_block = of == memory && first >= start && (first - start).is_multiple_of(block);
            is_at_block.then(|| [(first - start) as usize / 4, weight.shape().num_elements()])
        };
        let places: Vec<[usize; 2]> = weights.iter().zip(&claims).map(place).collect::<Option<_>>()?;
        let len = places.iter().map(|[place, len]| (place + len).next_multiple_of(BLOCK)).max()?;
        let used: usize = places.iter().map(|[_, len]| len).sum();
        let handle = &weights[0].handle;
        let room = (handle.size() - start) as usize / 4;
        if !start.is_multiple_of(block) || len > room || len > used + used / 4 + (1 << 16) {
            return None;
        }
        let mut whole = handle.clone();
        whole.offset_end = Some((4 * (room - len)) as u64);
        let values = CubeTensor::new_contiguous(
            weights[0].client.clone(),
            weights[0].device.clone(),
            Shape::from([len]),
            whole,
            DType::F32,
        );
        Some(Self { values, places })
    }
}

fn empty(beside: &CubeTensor, len: usize, dtype: DType) -> CubeTensor {
    empty_device_contiguous_dtype(beside.client.clone(), beside.device(), Shape::from([len]), dtype)
}

/// The parts of a buffer from these places on, of these lengths.
fn parts(of: &CubeTensor, parts: impl Iterator<Item = [usize; 2]>) -> TensorBatch<CubeBackend> {
    parts.map(|[place, len]| part(of, place, [len])).collect()
}

impl WeightOps for CubeBackend {
    fn cast_weights(weights: TensorBatch<Self>, call: Arc<WeightsCall>) -> CastWeights<Self> {
        let OneBuffer { values, places } = OneBuffer::of(weights.into_tensors());
        let count = places.len();
        let scales = empty(&values, count * BLOCK, DType::F32);
        let words = zero_words(&values.device(), count * BLOCK);
        let sums_of = |len: usize| SUMS * cubes(len);
        let sums = empty(&values, places.iter().map(|[_, len]| sums_of(*len)).sum(), DType::F32);
        let has_codes = call.has_codes;
        let codes = if has_codes {
            empty(&values, values.shape().num_elements(), DType::BF16)
        } else {
            empty(&values, 1, DType::F32)
        };
        let rounded = call.rounded(&values, &places, &scales).unwrap_or_else(|error| {
            call.format.set_fault(call.format.failure(&error));
            let shape = values.shape();
            upload::<Self>(&values.device(), shape.clone(), vec![f32::NAN; shape.num_elements()])
        });
        let buffers = Finished {
            values: [&values, &rounded],
            scales: &scales,
            codes: &codes,
            words: &words,
            sums: &sums,
        };
        let most = call.format.max_finite().to_bits() + OVERFLOW_ULPS;
        weights_kernel::finish(buffers, &places, most, has_codes);
        let mut slot = 0;
        let slots = places.iter().map(|[_, len]| {
            let slots = [slot, sums_of(*len)];
            slot += slots[1];
            slots
        });
        CastWeights {
            values: parts(&rounded, places.iter().copied()),
            codes: parts(&codes, places.iter().copied().filter(|_| has_codes)),
            scales: parts(&scales, (0..count).map(|weight| [weight * BLOCK, 2])),
            words: parts(&words, (0..count).map(|weight| [weight * BLOCK, COUNTS])),
            sums: parts(&sums, slots),
        }
    }

    fn weights_to_bf16(weights: TensorBatch<Self>) -> TensorBatch<Self> {
        let OneBuffer { values, places } = OneBuffer::of(weights.into_tensors());
        let to = empty(&values, values.shape().num_elements(), DType::BF16);
        weights_kernel::to_bf16(&values, &places, &to);
        parts(&to, places.into_iter())
    }
}

impl WeightsCall {
    /// The rounded values of a buffer; writes the scale of each weight.
    fn rounded(
        &self,
        x: &CubeTensor,
        places: &weights_kernel::Places,
        scales: &CubeTensor,
    ) -> Result<CubeTensor, PluginError> {
        let Some(texts) = self.format.kernels().and_then(FormatKernels::texts) else {
            return Err(PluginError::unsupported("it has no kernels for this device"));
        };
        let derivation = scale_kernel::derivation(&self.rule, x.shape().num_elements());
        let Some(derivation) = derivation else {
            return Err(PluginError::unsupported("kernels do not compute its scales"));
        };
        let keys = zero_words(&x.device(), places.len());
        weights_kernel::keys(x, places, &keys, derivation.poisons);
        let shape = Shape::from([x.shape().num_elements() / BLOCK, 2]);
        let pairs = empty_device_contiguous_dtype(x.client.clone(), x.device(), shape, DType::F32);
        weights_kernel::pairs(&keys, places, derivation, [&pairs, scales]);
        let key = RandomKey::default();
        let [rounded, _, _] = texts.fake_quant(self.format.plugin(), x, &pairs, self.rounding, &key)?;
        Ok(rounded)
    }
}

/// A weight after a cast with others.
#[derive(Debug)]
pub struct CastWeight {
    /// The rounded values, `[n]`.
    pub values: Tensor<1>,
    /// Their codes as bf16, if they are wanted.
    pub codes: Option<Tensor<1>>,
    /// Scale and inverse, `[2]`.
    pub scales: Tensor<1>,
    /// Words and sums of the statistics, as the host counts them.
    pub statistics: [Tensor<1>; 2],
}

/// Casts at most [`MOST`](crate::tensor::batch::MOST) weights.
#[must_use]
pub fn cast_weights(weights: Vec<Tensor<1>>, call: WeightsCall) -> Vec<CastWeight> {
    let cast = <Dispatch as WeightOps>::cast_weights(batch(weights), Arc::new(call));
    let CastWeights { values, codes, scales, words, sums } = cast;
    let mut codes = unbatched(codes);
    let others = unbatched(scales).zip(unbatched(words).zip(unbatched(sums)));
    let weight = |(values, (scales, (words, sums)))| CastWeight {
        values,
        codes: codes.next(),
        scales,
        statistics: [words, sums],
    };
    unbatched(values).zip(others).map(weight).collect()
}

/// At most [`MOST`](crate::tensor::batch::MOST) weights as bf16.
#[must_use]
pub fn weights_to_bf16(weights: Vec<Tensor<1>>) -> Vec<Tensor<1>> {
    unbatched(<Dispatch as WeightOps>::weights_to_bf16(batch(weights))).collect()
}

//! Weights that are cast together, before the passes of a step use them: on a GPU, in a few launches for all of them.
//!
//! These are weights with fp32 master weights that one scale rounds, without random bits and by the
//! identity as estimator, and weights that products multiply as bf16. A cast that something observes is computed where
//! it is used. Results are the same.

use std::{collections::BTreeMap, sync::Arc};

use altgrad_config::SteChoice;
use altgrad_plugin_api::{Rounding, ValueGrid};
use burn::tensor::Tensor;

use super::{
    CastParams, CountedBy, DeviceFormat, LayerId, PendingStats, ScaleRule, ScaleSource,
    saved_tensors::Encoding,
    scale_kernel,
    weights_op::{self, CastWeight, WeightsCall},
};
use crate::tensor::batch::MOST;

/// A weight that was cast with others, outside of any graph.
#[derive(Debug, Clone)]
pub(super) struct PreparedWeight {
    /// Its values and scales, `[1, 2]`, and the statistics, if a format rounds it.
    pub(super) rounded: Option<(Tensor<2>, Tensor<2>, PendingStats)>,
    /// The values times their scale as bf16, if products multiply it so.
    pub(super) in_bf16: Option<Tensor<2>>,
}

/// A weight `[n]` and its shape.
pub(super) type Weight = (LayerId, Tensor<1>, [usize; 2]);

/// A cast of several weights.
struct CastOfSeveral {
    format: Arc<DeviceFormat>,
    rounding: Rounding,
    rule: ScaleRule,
    weights: Vec<Weight>,
}

/// Casts weights that can be cast together: those of `rounded` by these parameters, and `unrounded` ones, which
/// products multiply as bf16. `fast_bf16`: whether the device multiplies bf16 fast.
pub(super) fn prepare(
    rounded: Vec<(Weight, CastParams)>,
    unrounded: &[Weight],
    fast_bf16: bool,
) -> BTreeMap<LayerId, PreparedWeight> {
    let mut prepared = BTreeMap::new();
    for weights in unrounded.chunks(MOST) {
        let cast = weights_op::weights_to_bf16(weights.iter().map(|(_, weight, _)| weight.clone()).collect());
        for ((layer, _, shape), in_bf16) in weights.iter().zip(cast) {
            let in_bf16 = Some(in_bf16.reshape(*shape));
            prepared.insert(*layer, PreparedWeight { rounded: None, in_bf16 });
        }
    }
    for CastOfSeveral { format, rounding, rule, weights } in alike(rounded) {
        let has_codes = fast_bf16 && Encoding::Codes(format.clone()).fits_bf16();
        for weights in weights.chunks(MOST) {
            let call = WeightsCall { format: format.clone(), rounding, rule, has_codes };
            let tensors = weights.iter().map(|(_, weight, _)| weight.clone()).collect();
            for ((layer, _, shape), cast) in weights.iter().zip(weights_op::cast_weights(tensors, call)) {
                let CastWeight { values, codes, scales, statistics: [words, sums] } = cast;
                let (elements, counted_by) = ((shape[0] * shape[1]) as u64, CountedBy::Host);
                let stats = PendingStats { format: format.clone(), counted_by, elements, words, sums };
                let rounded = Some((values.reshape(*shape), scales.reshape([1, 2]), stats));
                let in_bf16 = codes.map(|codes| codes.reshape(*shape));
                prepared.insert(*layer, PreparedWeight { rounded, in_bf16 });
            }
        }
    }
    prepared
}

/// The weights that can be cast together, by their casts.
fn alike(rounded: Vec<(Weight, CastParams)>) -> Vec<CastOfSeveral> {
    let mut all: Vec<CastOfSeveral> = Vec::new();
    for (weight, params) in rounded {
        let Some(rule) = rule_for_several(&params) else { continue };
        let (format, rounding) = (params.quant.format, params.quant.rounding);
        let is_alike = |other: &&mut CastOfSeveral| {
            Arc::ptr_eq(&other.format, &format) && (other.rounding, other.rule) == (rounding, rule)
        };
        match all.iter_mut().find(is_alike) {
            Some(others) => others.weights.push(weight),
            None => all.push(CastOfSeveral { format, rounding, rule, weights: vec![weight] }),
        }
    }
    all
}

/// The rule of a weight's scale, if it can be cast with others.
fn rule_for_several(params: &CastParams) -> Option<ScaleRule> {
    let quant = &params.quant;
    let ScaleSource::Dynamic(rule) = quant.scale else { return None };
    let has_one_scale = rule.group.is_none() && !rule.scaling.tensor && rule.scaling.choice.is_none();
    let is_plain = has_one_scale && scale_kernel::derivation(&rule, usize::MAX).is_some();
    let rounds_alone = params.rotation.is_none() && params.center.is_none();
    let has_texts = quant.format.kernels().is_some_and(|kernels| kernels.texts().is_some());
    let by_kernels = has_texts && quant.arithmetic.is_the_formats();
    let fits = matches!(quant.format.values(), ValueGrid::Minifloat(_));
    let is_random = quant.rounding == Rounding::STOCHASTIC;
    let passes = quant.ste == SteChoice::Identity;
    (is_plain && rounds_alone && by_kernels && fits && passes && !is_random).then_some(rule)
}

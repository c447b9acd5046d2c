//! Weights that are cast together, before the passes of a step use them: on a GPU, in a few launches for all of them.
//!
//! These are weights with fp32 master weights that one scale rounds by the plain rule, without random bits and by the
//! identity as estimator, and weights that products multiply as bf16. A cast that something observes is computed where
//! it is used. Results are the same.

use altgrad_config::{MasterWeightsChoice, PrecisionChoice, SteChoice};
use altgrad_plugin_api::{Rounding, ValueGrid};
use burn::tensor::Tensor;

use super::{
    CountedBy, LayerId, PendingStats, QuantPass, Role, ScaleRule, ScaleSource, TensorQuantizer,
    cast::with_values,
    operand::Operand,
    saved_tensors::Encoding,
    weight_scales::WeightScales,
    weights_op::{self, CastWeight, WeightsCall},
};
use crate::tensor::batch::MOST;

/// A weight that was cast with others, outside of any graph.
#[derive(Debug)]
pub(super) struct PreparedWeight {
    /// Its values and scales, `[1, 2]`, and the statistics, if a format rounds it.
    rounded: Option<(Tensor<2>, Tensor<2>, PendingStats)>,
    /// The values times their scale as bf16, if products multiply it so.
    in_bf16: Option<Tensor<2>>,
}

/// A weight `[n]` and its shape.
type Weight = (LayerId, Tensor<1>, [usize; 2]);
/// Weights of sites that are cast like this one, by this rule.
type CastAlike<'a> = (&'a TensorQuantizer, ScaleRule, Vec<Weight>);

impl QuantPass<'_> {
    /// Casts weights that can be cast together. `weights` are outside of any graph.
    pub fn prepare_weights(&self, weights: impl Iterator<Item = Weight>) {
        if self.plan().master_weights() != MasterWeightsChoice::Fp32 || !self.is_unobserved() {
            return;
        }
        let (mut unrounded, mut rounded): (Vec<Weight>, Vec<CastAlike<'_>>) = Default::default();
        for weight in weights {
            match self.site(weight.0, Role::Weight) {
                None => unrounded.push(weight),
                Some((_, site)) => {
                    let Some(rule) = self.rule_for_several(weight.0, site) else { continue };
                    let alike = |(other, other_rule, _): &&mut CastAlike<'_>| {
                        std::ptr::eq(&*other.format, &*site.format)
                            && (other.rounding, *other_rule) == (site.rounding, rule)
                    };
                    match rounded.iter_mut().find(alike) {
                        Some((_, _, weights)) => weights.push(weight),
                        None => rounded.push((site, rule, vec![weight])),
                    }
                }
            }
        }
        let fast_bf16 = self.plan().arithmetic().0;
        if self.precision() == PrecisionChoice::Bf16 && fast_bf16 {
            for weights in unrounded.chunks(MOST) {
                let cast = weights_op::weights_to_bf16(weights.iter().map(|(_, w, _)| w.clone()).collect());
                for ((layer, _, shape), in_bf16) in weights.iter().zip(cast) {
                    self.put(
                        *layer,
                        PreparedWeight { rounded: None, in_bf16: Some(in_bf16.reshape(*shape)) },
                    );
                }
            }
        }
        for (site, rule, weights) in rounded {
            let has_codes = fast_bf16 && Encoding::Codes(site.format.clone()).fits_bf16();
            for weights in weights.chunks(MOST) {
                let (format, rounding) = (site.format.clone(), site.rounding);
                let call = WeightsCall { format: format.clone(), rounding, rule, has_codes };
                let cast =
                    weights_op::cast_weights(weights.iter().map(|(_, w, _)| w.clone()).collect(), call);
                for ((layer, _, shape), cast) in weights.iter().zip(cast) {
                    let CastWeight { values, codes, scales, statistics: [words, sums] } = cast;
                    let (elements, counted_by) = ((shape[0] * shape[1]) as u64, CountedBy::Host);
                    let stats = PendingStats { format: format.clone(), counted_by, elements, words, sums };
                    let rounded = Some((values.reshape(*shape), scales.reshape([1, 2]), stats));
                    let in_bf16 = codes.map(|codes| codes.reshape(*shape));
                    self.put(*layer, PreparedWeight { rounded, in_bf16 });
                }
            }
        }
    }

    fn put(&self, layer: LayerId, weight: PreparedWeight) {
        self.prepared.borrow_mut().insert(layer, weight);
    }

    /// The rule of a weight's scale, if it can be cast with others.
    fn rule_for_several(&self, layer: LayerId, site: &TensorQuantizer) -> Option<ScaleRule> {
        let (id, _) = self.site(layer, Role::Weight)?;
        let params = self.cast_params(id, layer, self.key(id, 0));
        let ScaleSource::Dynamic(rule) = params.quant.scale else { return None };
        let is_plain = rule.is_plain() && rule.group.is_none();
        let rounds_alone = params.rotation.is_none() && params.center.is_none();
        let is_kernels = site.format.kernels().is_some() && site.arithmetic.is_the_formats();
        let fits = matches!(site.format.values(), ValueGrid::Minifloat(_));
        (is_plain
            && rounds_alone
            && is_kernels
            && fits
            && site.ste == SteChoice::Identity
            && site.rounding != Rounding::STOCHASTIC
            && self.plan().sum().is_none())
        .then_some(rule)
    }

    /// The operand of a weight that was cast with others.
    pub(super) fn prepared_operand(
        &self,
        layer: LayerId,
        weight: Tensor<2>,
        prepared: &PreparedWeight,
    ) -> Operand {
        let is_tracked = weight.device().is_autodiff();
        let constant = |x: &Tensor<2>| if is_tracked { Tensor::from_inner(x.clone()) } else { x.clone() };
        let in_bf16 = prepared.in_bf16.as_ref().map(constant);
        let Some((values, scales, stats)) = &prepared.rounded else {
            return Operand { in_bf16, ..Operand::unscaled(weight, Encoding::Bf16) };
        };
        if let Some((id, site)) = self.site(layer, Role::Weight) {
            self.weight_scales.borrow_mut().insert(id, WeightScales::new(scales.clone()));
            self.push(id, stats.clone());
            let has_codes = site.has_codes(weight.dims());
            let encoding = if has_codes { Encoding::Codes(site.format.clone()) } else { Encoding::F32 };
            let scales = Some(constant(scales));
            let values = with_values(weight, values.clone());
            return Operand { values, scales, encoding, codes: None, in_bf16 };
        }
        Operand { in_bf16, ..Operand::unscaled(weight, Encoding::Bf16) }
    }
}

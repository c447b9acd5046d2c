//! Quantized linear layers: the tensors that are rounded before and after their matrix products.
//!
//! Forward `y = Q_a(x) Q_w(W)^T`; backward, with `g = dL/dy`, `dL/dx = Q_g(g) Q_w'(W)` and `dL/dW = Q_g'(g)^T Q_a'(x)`.
//! The primed casts are those of second uses. By default they reuse the results of the first ones, because rounding and
//! product are separate operations (docs/numerics.md, section 5.2).

use std::{cell::RefCell, collections::BTreeMap, sync::Arc};

use altgrad_base::diagnostic::Diagnostic;
use altgrad_config::{MasterWeightsChoice, PrecisionChoice};
use altgrad_plugin_api::RandomKey;
use burn::backend::Dispatch;
use burn::tensor::{Gradients as Tape, Tensor};

use super::{
    CastParams, HistogramCollector, LayerId, PassStats, PendingStats, QuantPlan, QuantStats, Quantizer, Role,
    SiteId, TensorQuantizer, UseSource,
    cast::{cast, cast_at},
    limited::{AddendLayout, with_amax},
    observe::{ObservedSites, Observer},
    operand::{BackwardUses, GradientRounding, Operand},
    product::{self, GradientStats},
    saved_tensors::Encoding,
    weight_scales::WeightScales,
};
#[cfg(feature = "gpu")]
use super::{
    cast::with_values,
    prepared_weights::{self, PreparedWeight},
};
use crate::{
    read_back::ReadBack,
    tensor::{bf16::round_to_bf16, untracked},
    trace::TraceScope,
};

/// The measurements that subscribe to the casts of passes. They do not change the passes.
#[derive(Debug, Clone, Copy, Default)]
pub struct CastObservers<'a> {
    /// One collector per site, if histograms are collected; else empty.
    pub histograms: &'a [Arc<HistogramCollector>],
    /// The sites whose tensors are observed before rounding. Products that fuse one are computed as chains of
    /// operations.
    pub observed: Option<&'a ObservedSites>,
}

/// The casts and products of some passes, forward and backward, and the statistics of their rounding.
#[derive(Debug)]
pub struct QuantPass<'a> {
    quant: &'a Quantizer,
    histograms: &'a [Arc<HistogramCollector>],
    observer: Option<Observer<'a>>,
    /// The statistics of calls, in the order of the calls.
    stats: RefCell<Vec<(SiteId, CallStats)>>,
    /// The scales of weights.
    weight_scales: RefCell<BTreeMap<SiteId, WeightScales>>,
    /// Weights that were cast together.
    #[cfg(feature = "gpu")]
    prepared: RefCell<BTreeMap<LayerId, PreparedWeight>>,
}

/// The place of a call's statistics on the device.
#[derive(Debug)]
enum CallStats {
    /// In these tensors.
    Ready(PendingStats),
    /// In the gradients of a backward pass.
    AfterBackward(GradientStats),
}

impl<'a> QuantPass<'a> {
    /// Passes that nothing observes.
    #[must_use]
    pub fn new(quant: &'a Quantizer) -> Self {
        Self::observed(quant, CastObservers::default())
    }

    /// Passes with observers.
    #[must_use]
    pub fn observed(quant: &'a Quantizer, observers: CastObservers<'a>) -> Self {
        Self {
            quant,
            histograms: observers.histograms,
            observer: observers.observed.map(Observer::new),
            stats: RefCell::default(),
            weight_scales: RefCell::default(),
            #[cfg(feature = "gpu")]
            prepared: RefCell::default(),
        }
    }

    /// The rounded tensors.
    #[must_use]
    pub fn plan(&self) -> &'a QuantPlan {
        &self.quant.plan
    }

    /// The precision of operands that no format rounds.
    #[must_use]
    pub fn precision(&self) -> PrecisionChoice {
        self.plan().precision()
    }

    /// The observer of the passes.
    pub(super) fn observer(&self) -> Option<&Observer<'a>> {
        self.observer.as_ref()
    }

    /// True if one of these sites is observed.
    pub(super) fn observes(&self, layer: LayerId, roles: &[Role]) -> bool {
        self.observer().is_some_and(|observer| roles.iter().any(|role| observer.has(layer, *role)))
    }

    /// Ends a backward pass that left `tape`: takes the statistics of rounded gradients from it, and observes
    /// gradients.
    pub fn end_backward(&self, tape: &Tape) {
        if let Some(observer) = self.observer() {
            observer.collect(tape);
        }
        for (_, call) in self.stats.borrow_mut().iter_mut() {
            if let CallStats::AfterBackward(gradient) = call
                && let Some(stats) = gradient.read(tape)
            {
                *call = CallStats::Ready(stats);
            }
        }
    }

    /// Ends the passes.
    ///
    /// # Errors
    /// An observation failed.
    pub fn finish(self) -> Result<PassStats, Diagnostic> {
        let ready = self.stats.into_inner().into_iter().filter_map(|(id, call)| match call {
            CallStats::Ready(stats) => Some((id, stats)),
            CallStats::AfterBackward(_) => None,
        });
        Ok(PassStats {
            stats: ready.collect(),
            weight_scales: self.weight_scales.into_inner(),
            observed: self.observer.map(Observer::finish).transpose()?,
        })
    }

    /// Ends passes that do not belong to a step, and reads the statistics of their rounding, by site: one
    /// synchronisation.
    ///
    /// # Errors
    /// A call, an observation or the device failed.
    pub fn read_stats(self) -> Result<Vec<Option<QuantStats>>, Diagnostic> {
        let mut quant = self.quant.clone();
        quant.begin_update();
        let mut read_back = ReadBack::default();
        let requested = quant.request(self.finish()?, &mut read_back);
        quant.read(&requested, &read_back.read())
    }

    /// `x W^T` with the layer's rounding. Shapes: `x` `[tokens, in]`, `weight` `[out, in]`, result `[tokens, out]`.
    /// `micro_batch` counts within the step. Records the operands as the product uses them, forward and backward,
    /// rounded or not.
    #[must_use]
    pub fn linear(
        &self,
        layer: LayerId,
        x: Tensor<2>,
        weight: Tensor<2>,
        micro_batch: u64,
        scope: TraceScope<'_>,
    ) -> Tensor<2> {
        let device = x.device();
        if let Some(observer) = self.observer() {
            observer.operands(layer, &x, &weight, micro_batch);
        }
        let is_tracked = device.is_autodiff();
        // Before the first uses: after their copies, nothing else uses `x`, which its first use rounds in place.
        let second = |role, tensor: &Tensor<2>, micro_batch| {
            if is_tracked { self.second_use(layer, role, tensor, micro_batch, scope) } else { None }
        };
        let (second_x, second_weight) =
            (second(Role::ActivationWgrad, &x, micro_batch), second(Role::WeightDgrad, &weight, 0));
        let (x, weight) = self.operands(layer, x, weight, micro_batch, scope);
        let of_first = |second: Option<Operand>, role, first: &Operand, micro_batch| {
            second.or_else(|| self.second_use_of_values(layer, role, first, micro_batch))
        };
        let backward = if is_tracked {
            BackwardUses {
                input: of_first(second_x, Role::ActivationWgrad, &x, micro_batch),
                weight: of_first(second_weight, Role::WeightDgrad, &weight, 0),
                gradient: self.gradient_rounding(layer, Role::Grad, micro_batch),
                gradient_for_weight: self.second_gradient(layer, micro_batch),
            }
        } else {
            BackwardUses::default()
        };
        let recorded = [("input for wgrad", &backward.input), ("weight for dgrad", &backward.weight)];
        for (what, operand) in recorded {
            operand.iter().for_each(|operand| scope.record(what, &operand.values));
        }
        let probe = scope.gradient_probe("rounded gradient", &device);
        let (y, stats) = product::product(
            x,
            weight,
            backward,
            self.plan().arithmetic(),
            (probe, self.plan().zero(&device)),
        );
        let y = match self.observer() {
            Some(observer) => observer.output(layer, y),
            None => y,
        };
        scope.record("product", &y);
        for (role, stats) in [Role::Grad, Role::GradWgrad].into_iter().zip(stats) {
            if let Some(((id, _), stats)) = self.site(layer, role).zip(stats) {
                self.push_gradient(id, stats);
            }
        }
        y
    }

    /// True if the backward pass of a layer's product casts the gradient, has operands of its own, or is observed.
    #[must_use]
    pub fn casts_backward(&self, layer: LayerId) -> bool {
        let others = [Role::Grad, Role::GradWgrad, Role::ActivationWgrad, Role::WeightDgrad];
        let differs = |role| self.site(layer, role).is_some() || self.plan().is_unrounded(layer, role);
        others.into_iter().any(differs) || self.observes(layer, &Role::LINEAR)
    }

    /// The rounding of the gradient in a use that does not reuse another.
    fn gradient_rounding(&self, layer: LayerId, role: Role, micro_batch: u64) -> GradientRounding {
        match self.site(layer, role) {
            Some((id, _)) => {
                GradientRounding::Cast(Box::new(self.cast_params(id, layer, self.key(id, micro_batch))))
            }
            None if self.precision() == PrecisionChoice::Bf16 => GradientRounding::Bf16,
            None => GradientRounding::None,
        }
    }

    /// The rounding of the gradient for the product of the weight's gradient, if it differs from that for the input's.
    fn second_gradient(&self, layer: LayerId, micro_batch: u64) -> Option<(GradientRounding, bool)> {
        let role = Role::GradWgrad;
        let site = self.site(layer, role);
        let is_own = site.is_some() || self.plan().is_unrounded(layer, role);
        let from_first = site.is_some_and(|(_, site)| site.source == UseSource::Dequantized);
        is_own.then(|| (self.gradient_rounding(layer, role, micro_batch), from_first))
    }

    /// The second use of an operand, transposed, where it is made from the tensor in high precision, `x`.
    fn second_use(
        &self,
        layer: LayerId,
        role: Role,
        x: &Tensor<2>,
        micro_batch: u64,
        scope: TraceScope<'_>,
    ) -> Option<Operand> {
        let transposed = || untracked(x.clone()).swap_dims(0, 1);
        if self.plan().is_unrounded(layer, role) {
            return Some(self.unrounded_operand(transposed(), scope));
        }
        let (id, _) = self.site(layer, role).filter(|(_, site)| site.source == UseSource::HighPrecision)?;
        Some(self.rounded_operand(id, layer, transposed(), micro_batch))
    }

    /// As [`Self::second_use`], where it is made from the values of the first use.
    fn second_use_of_values(
        &self,
        layer: LayerId,
        role: Role,
        first: &Operand,
        micro_batch: u64,
    ) -> Option<Operand> {
        let (id, _) = self.site(layer, role).filter(|(_, site)| site.source == UseSource::Dequantized)?;
        let values = untracked(first.values.clone());
        // Those of an operand that the product itself rounds are not rounded yet.
        let values = if matches!(first.encoding, Encoding::Bf16) { round_to_bf16(values) } else { values };
        Some(self.rounded_operand(id, layer, values.swap_dims(0, 1), micro_batch))
    }

    /// The operands of a layer's product, as [`Self::linear`] rounds them.
    #[must_use]
    pub fn operands(
        &self,
        layer: LayerId,
        x: Tensor<2>,
        weight: Tensor<2>,
        micro_batch: u64,
        scope: TraceScope<'_>,
    ) -> (Operand, Operand) {
        scope.record("weight", &weight);
        let weight = match self.plan().master_weights() {
            // A weight is the same in all micro-batches of a step, and rounded the same.
            #[cfg(feature = "gpu")]
            MasterWeightsChoice::Fp32 if let Some(prepared) = self.prepared.borrow().get(&layer) => {
                self.prepared_operand(layer, weight, prepared)
            }
            MasterWeightsChoice::Fp32 => self.operand(layer, Role::Weight, weight, 0, scope),
            MasterWeightsChoice::None if self.site(layer, Role::Weight).is_some() => {
                self.collect_weight_histogram(layer, &weight);
                Operand::unscaled(weight, Encoding::F32)
            }
            MasterWeightsChoice::None => self.unrounded_operand(weight, scope),
        };
        let weight = Operand { values: scope.observe("rounded weight", weight.values), ..weight };
        let x = self.operand(layer, Role::Activation, x, micro_batch, scope);
        let x = Operand { values: scope.observe("rounded input", x.values), ..x };
        (x, weight)
    }

    /// Casts weights that can be cast together, before passes that nothing observes. `weights` are outside of any
    /// graph.
    #[cfg(feature = "gpu")]
    pub fn prepare_weights(&self, weights: impl Iterator<Item = (LayerId, Tensor<1>, [usize; 2])>) {
        let is_observed = !self.histograms.is_empty() || self.observer.is_some();
        if self.plan().master_weights() != MasterWeightsChoice::Fp32 || is_observed {
            return;
        }
        let (fast_bf16, sum) = self.plan().arithmetic();
        let in_bf16 = fast_bf16 && self.precision() == PrecisionChoice::Bf16;
        let (mut rounded, mut unrounded) = (Vec::new(), Vec::new());
        for weight in weights {
            match self.site(weight.0, Role::Weight) {
                Some((id, _)) if sum.is_none() => {
                    let params = self.cast_params(id, weight.0, self.key(id, 0));
                    rounded.push((weight, params));
                }
                None if in_bf16 => unrounded.push(weight),
                _ => {}
            }
        }
        *self.prepared.borrow_mut() = prepared_weights::prepare(rounded, &unrounded, fast_bf16);
    }

    /// The operand of a weight that was cast with others.
    #[cfg(feature = "gpu")]
    fn prepared_operand(&self, layer: LayerId, weight: Tensor<2>, prepared: &PreparedWeight) -> Operand {
        let is_tracked = weight.device().is_autodiff();
        let constant = |x: &Tensor<2>| if is_tracked { Tensor::from_inner(x.clone()) } else { x.clone() };
        let in_bf16 = prepared.in_bf16.as_ref().map(constant);
        let (Some((values, scales, stats)), Some((id, site))) =
            (&prepared.rounded, self.site(layer, Role::Weight))
        else {
            return Operand { in_bf16, ..Operand::unscaled(weight, Encoding::Bf16) };
        };
        self.weight_scales.borrow_mut().insert(id, WeightScales::new(scales.clone()));
        self.push(id, stats.clone());
        let has_codes = site.has_codes(weight.dims());
        let encoding = if has_codes { Encoding::Codes(site.format.clone()) } else { Encoding::F32 };
        let (values, scales) = (with_values(weight, values.clone()), Some(constant(scales)));
        Operand { values, scales, encoding, codes: None, in_bf16 }
    }

    /// An operand that no format rounds. Where the device multiplies bf16 fast, the product rounds it, unless a trace
    /// records the values.
    fn unrounded_operand(&self, x: Tensor<2>, scope: TraceScope<'_>) -> Operand {
        match self.precision() {
            PrecisionChoice::Fp32 => Operand::unscaled(x, Encoding::F32),
            PrecisionChoice::Bf16 if self.plan().arithmetic().0 && !scope.is_on() => {
                Operand::unscaled(x, Encoding::Bf16)
            }
            PrecisionChoice::Bf16 => Operand::unscaled(round_to_bf16(x), Encoding::Bf16),
        }
    }

    fn operand(
        &self,
        layer: LayerId,
        role: Role,
        x: Tensor<2>,
        micro_batch: u64,
        scope: TraceScope<'_>,
    ) -> Operand {
        match self.site(layer, role) {
            Some((id, _)) => self.rounded_operand(id, layer, x, micro_batch),
            None => self.unrounded_operand(x, scope),
        }
    }

    /// An operand that a site rounds; blocks run along its rows.
    fn rounded_operand(&self, id: SiteId, layer: LayerId, x: Tensor<2>, micro_batch: u64) -> Operand {
        let site = &self.plan().sites()[id];
        let has_codes = site.has_codes(x.dims());
        let params = self.cast_params(id, layer, self.key(id, micro_batch));
        let codes = self.plan().sum().map(|sum| AddendLayout::of_cast(&params, &sum));
        let rounded = cast(x, params);
        if site.role == Role::Weight {
            self.weight_scales.borrow_mut().insert(id, WeightScales::new(rounded.scales.clone()));
        }
        let needs_amax = codes.is_some_and(|codes| codes.needs_amax());
        let scales = if needs_amax {
            let words = rounded.stats.words.clone();
            let is_tracked = rounded.scales.device().is_autodiff();
            let words = if is_tracked { Tensor::from_inner(words) } else { words };
            let scales = with_amax::<Dispatch>(rounded.scales.into_dispatch(), words.into_dispatch());
            Tensor::from_dispatch(scales)
        } else {
            rounded.scales
        };
        self.push(id, rounded.stats);
        let is_coded = has_codes && !needs_amax;
        let encoding = if is_coded { Encoding::Codes(site.format.clone()) } else { Encoding::F32 };
        Operand { values: rounded.values, scales: Some(scales), encoding, codes, in_bf16: None }
    }

    /// The rounded gradient of a layer's weight, if it is rounded. Shape: `[out, in]`.
    #[must_use]
    pub fn round_weight_gradient(&self, layer: LayerId, grad: Tensor<2>, micro_batch: u64) -> Tensor<2> {
        if let Some(observer) = self.observer() {
            observer.value(layer, Role::WeightGrad, &grad);
        }
        let Some((id, _)) = self.site(layer, Role::WeightGrad) else { return grad };
        let rounded = cast(grad, self.cast_params(id, layer, self.key(id, micro_batch)));
        self.push(id, rounded.stats);
        rounded.values
    }

    /// True if the gradient of a layer's weight is rounded, or observed in the current pass.
    #[must_use]
    pub fn rounds_weight_gradient(&self, layer: LayerId) -> bool {
        self.site(layer, Role::WeightGrad).is_some() || self.observes(layer, &[Role::WeightGrad])
    }

    /// The site of a role of a layer, if it is rounded.
    pub(super) fn site(&self, layer: LayerId, role: Role) -> Option<(SiteId, &'a TensorQuantizer)> {
        self.plan().site(layer, role)
    }

    /// The key of the random bits of a site's tensor.
    pub(super) fn key(&self, site: SiteId, micro_batch: u64) -> RandomKey {
        self.plan().key(site, self.quant.state.step, micro_batch)
    }

    /// The parameters of a cast at a site of a layer.
    pub(super) fn cast_params(&self, id: SiteId, layer: LayerId, key: RandomKey) -> CastParams {
        self.quant.cast_params(id, layer, key, self.histograms.get(id).cloned())
    }

    /// Adds the statistics of a call.
    pub(super) fn push(&self, site: SiteId, stats: PendingStats) {
        self.stats.borrow_mut().push((site, CallStats::Ready(stats)));
    }

    /// Adds statistics that a backward pass will compute.
    pub(super) fn push_gradient(&self, site: SiteId, stats: GradientStats) {
        self.stats.borrow_mut().push((site, CallStats::AfterBackward(stats)));
    }

    /// Adds a weight that was rounded at the end of its update to its histogram, on steps that collect one. Values on
    /// the grid are rounded to themselves.
    fn collect_weight_histogram(&self, layer: LayerId, weight: &Tensor<2>) {
        if self.histograms.is_empty() {
            return;
        }
        let Some((id, _)) = self.site(layer, Role::Weight) else { return };
        let Some(kept) = self.quant.state.weight_scales.get(&id) else { return };
        let params = self.cast_params(id, 0, self.key(id, 0));
        drop(cast_at(untracked(weight.clone()), kept.pairs.clone(), params));
    }
}

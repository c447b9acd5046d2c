//! Quantized linear layers: the tensors that are rounded before and after their matrix products.
//!
//! Forward `y = Q_a(x) Q_w(W)^T`; backward, with `g = dL/dy`, `dL/dx = Q_g(g) Q_w'(W)` and `dL/dW = Q_g'(g)^T Q_a'(x)`. The primed
//! casts are those of second uses. By default they reuse the results of the first ones, because rounding and product are separate
//! operations (docs/numerics.md, section 5.2).

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use altgrad_config::{MasterWeightsChoice, PrecisionChoice};
use altgrad_loader::FormatPlugin;
use altgrad_plugin_api::RandomKey;
use burn::tensor::Tensor;
use parking_lot::Mutex;

use super::{
    CastParams, FakeQuantOutput, FakeQuantParams, HistogramCollector, LayerId, PendingStats, QuantStats,
    Role, Rotation, Site, UseSource,
    cast::{arranged_scales, cast, cast_at},
    observe::Observation,
    operand::{BackwardUses, GradientRounding, Operand},
    product::{self, GradientStats},
    saved_tensors::Encoding,
    weight_scales::WeightScales,
};
use crate::{
    tensor::{bf16::round_to_bf16, untracked},
    trace::TraceScope,
};

/// Index of a site in [`QuantContext::sites`].
pub type SiteId = usize;

/// The quantization of a model: the rounded tensors of its linear layers, and the statistics of the rounding.
#[derive(Debug)]
pub struct QuantContext {
    pub(super) sites: Vec<Site>,
    /// The sites of a layer.
    pub(super) layers: BTreeMap<(LayerId, Role), SiteId>,
    /// Storage of weights: rounded from f32 each step, or kept on the grids of their formats.
    master_weights: MasterWeightsChoice,
    precision: PrecisionChoice,
    /// Second uses of operands that are not rounded though their first uses are.
    unrounded: BTreeSet<(LayerId, Role)>,
    /// True if the device multiplies bf16 fast.
    fast_bf16: bool,
    seed: u64,
    step: u64,
    /// One collector per site on steps that collect histograms, else empty.
    pub(super) histograms: Vec<Arc<HistogramCollector>>,
    /// Statistics of forward and backward passes that were not read yet.
    pub(super) pending: Mutex<Vec<(SiteId, StatsSource)>>,
    /// Statistics of [`Self::round_to_grid`] since the last reading of a training step.
    pub(super) grid_stats: Mutex<Vec<(SiteId, PendingStats)>>,
    /// The statistics taken by the last reading.
    pub(super) read_grid_stats: Mutex<Vec<(SiteId, PendingStats)>>,
    /// The observation, if there is one.
    pub(super) observation: Option<Box<Observation>>,
    /// The scales of the last rounding of each weight.
    pub(super) weight_scales: Mutex<BTreeMap<SiteId, WeightScales>>,
}

/// The place of a call's statistics on the device.
#[derive(Debug)]
pub(super) enum StatsSource {
    /// In these tensors.
    Ready(PendingStats),
    /// In the gradients of a backward pass.
    AfterBackward(GradientStats),
}

impl QuantContext {
    /// No rounding.
    #[must_use]
    pub fn off() -> Self {
        Self::new(Vec::new(), MasterWeightsChoice::Fp32, PrecisionChoice::Fp32, 0)
    }

    /// Rounding at these sites; each belongs to a layer.
    #[must_use]
    pub fn new(
        sites: Vec<(LayerId, Site)>,
        master_weights: MasterWeightsChoice,
        precision: PrecisionChoice,
        seed: u64,
    ) -> Self {
        let layers = sites.iter().enumerate().map(|(id, (layer, site))| ((*layer, site.role), id)).collect();
        let sites = sites.into_iter().map(|(_, site)| site).collect();
        Self {
            sites,
            layers,
            master_weights,
            precision,
            unrounded: BTreeSet::new(),
            fast_bf16: false,
            seed,
            step: 0,
            histograms: Vec::new(),
            pending: Mutex::default(),
            grid_stats: Mutex::default(),
            read_grid_stats: Mutex::default(),
            observation: None,
            weight_scales: Mutex::default(),
        }
    }

    /// The same context with these second uses of operands in high precision. All others without a site reuse the first uses.
    #[must_use]
    pub fn with_unrounded(self, unrounded: BTreeSet<(LayerId, Role)>) -> Self {
        Self { unrounded, ..self }
    }

    /// The same context on a device that multiplies bf16 fast or not.
    #[must_use]
    pub fn with_fast_bf16(self, fast_bf16: bool) -> Self {
        Self { fast_bf16, ..self }
    }

    /// The sites, in the order of [`Self::read_stats`]'s results.
    #[must_use]
    pub fn sites(&self) -> &[Site] {
        &self.sites
    }

    /// The storage of weights: the optimizer updates them in f32 or on the grids of their formats.
    #[must_use]
    pub fn master_weights(&self) -> MasterWeightsChoice {
        self.master_weights
    }

    /// The precision of operands that no format rounds.
    #[must_use]
    pub fn precision(&self) -> PrecisionChoice {
        self.precision
    }

    /// The rounded tensors in one line: `weights E4M3, activations E4M3, gradients E5M2`.
    #[must_use]
    pub fn summary(&self) -> String {
        let mut parts = Vec::new();
        for role in Role::ALL {
            let of_role = self.sites.iter().filter(|site| site.role == role);
            let formats: BTreeSet<&str> =
                of_role.map(|site| site.format.plugin().identity.name.as_str()).collect();
            if !formats.is_empty() {
                let formats: Vec<&str> = formats.into_iter().collect();
                let bare = role == Role::Weight && self.master_weights == MasterWeightsChoice::None;
                let masters = if bare { " without master weights" } else { "" };
                parts.push(format!("{} {}{masters}", role.plural(), formats.join("/")));
            }
        }
        match (parts.is_empty(), self.precision) {
            (true, PrecisionChoice::Fp32) => "unquantized fp32".into(),
            (true, PrecisionChoice::Bf16) => "unquantized bf16".into(),
            (false, PrecisionChoice::Fp32) => parts.join(", "),
            (false, PrecisionChoice::Bf16) => format!("{}, other operands bf16", parts.join(", ")),
        }
    }

    /// The run's seed.
    #[must_use]
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Sets the step of the next calls. Stochastic rounding draws other bits in each step.
    pub fn begin_step(&mut self, step: u64) {
        self.step = step;
    }

    /// The current step.
    #[must_use]
    pub fn step(&self) -> u64 {
        self.step
    }

    /// `x W^T` with the layer's rounding. Shapes: `x` `[tokens, in]`, `weight` `[out, in]`, result `[tokens, out]`.
    /// `micro_batch` counts within the step. Records the operands as the product uses them, forward and backward, rounded
    /// or not.
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
        self.observe_operands(layer, &x, &weight, micro_batch);
        let is_tracked = device.is_autodiff();
        // Before the first uses: after their copies, nothing else uses `x`, which its first use rounds in place.
        let second = |role, tensor: &Tensor<2>, micro_batch| {
            if is_tracked { self.second_use(layer, role, tensor, micro_batch) } else { None }
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
        let (y, stats) = product::product(x, weight, backward, self.fast_bf16, probe);
        let y = self.observe_output(layer, y);
        scope.record("product", &y);
        for (role, stats) in [Role::Grad, Role::GradWgrad].into_iter().zip(stats) {
            if let Some(((id, _), stats)) = self.site(layer, role).zip(stats) {
                self.push_pending(id, StatsSource::AfterBackward(stats));
            }
        }
        y
    }

    /// True if the backward pass of a layer's product casts the gradient, has operands of its own, or is observed.
    #[must_use]
    pub fn casts_backward(&self, layer: LayerId) -> bool {
        let others = [Role::Grad, Role::GradWgrad, Role::ActivationWgrad, Role::WeightDgrad];
        let differs = |role| self.site(layer, role).is_some() || self.unrounded.contains(&(layer, role));
        others.into_iter().any(differs) || self.observes(layer, &Role::LINEAR)
    }

    /// The rounding of the gradient in a use that does not reuse another.
    fn gradient_rounding(&self, layer: LayerId, role: Role, micro_batch: u64) -> GradientRounding {
        match self.site(layer, role) {
            Some((id, _)) => {
                GradientRounding::Cast(Box::new(self.cast_params(id, layer, self.key(id, micro_batch))))
            }
            None if self.precision == PrecisionChoice::Bf16 => GradientRounding::Bf16,
            None => GradientRounding::None,
        }
    }

    /// The rounding of the gradient for the product of the weight's gradient, if it differs from that for the input's.
    fn second_gradient(&self, layer: LayerId, micro_batch: u64) -> Option<(GradientRounding, bool)> {
        let role = Role::GradWgrad;
        let site = self.site(layer, role);
        let is_own = site.is_some() || self.unrounded.contains(&(layer, role));
        let from_first = site.is_some_and(|(_, site)| site.source == UseSource::Dequantized);
        is_own.then(|| (self.gradient_rounding(layer, role, micro_batch), from_first))
    }

    /// The second use of an operand, transposed, where it is made from the tensor in high precision, `x`.
    fn second_use(&self, layer: LayerId, role: Role, x: &Tensor<2>, micro_batch: u64) -> Option<Operand> {
        let transposed = || untracked(x.clone()).swap_dims(0, 1);
        if self.unrounded.contains(&(layer, role)) {
            return Some(self.unrounded_operand(transposed()));
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
        Some(self.rounded_operand(id, layer, untracked(first.values.clone()).swap_dims(0, 1), micro_batch))
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
        let weight = match self.master_weights {
            // A weight is the same in all micro-batches of a step, and rounded the same.
            MasterWeightsChoice::Fp32 => self.operand(layer, Role::Weight, weight, 0),
            MasterWeightsChoice::None if self.site(layer, Role::Weight).is_some() => {
                self.collect_weight_histogram(layer, &weight);
                Operand::unscaled(weight, Encoding::F32)
            }
            MasterWeightsChoice::None => self.unrounded_operand(weight),
        };
        let weight = Operand { values: scope.observe("rounded weight", weight.values), ..weight };
        let x = self.operand(layer, Role::Activation, x, micro_batch);
        let x = Operand { values: scope.observe("rounded input", x.values), ..x };
        (x, weight)
    }

    /// An operand that no format rounds.
    fn unrounded_operand(&self, x: Tensor<2>) -> Operand {
        match self.precision {
            PrecisionChoice::Fp32 => Operand::unscaled(x, Encoding::F32),
            PrecisionChoice::Bf16 => Operand::unscaled(round_to_bf16(x), Encoding::Bf16),
        }
    }

    fn operand(&self, layer: LayerId, role: Role, x: Tensor<2>, micro_batch: u64) -> Operand {
        match self.site(layer, role) {
            Some((id, _)) => self.rounded_operand(id, layer, x, micro_batch),
            None => self.unrounded_operand(x),
        }
    }

    /// An operand that a site rounds; blocks run along its rows.
    fn rounded_operand(&self, id: SiteId, layer: LayerId, x: Tensor<2>, micro_batch: u64) -> Operand {
        let site = &self.sites[id];
        let has_codes = site.has_codes(x.dims());
        let rounded = cast(x, self.cast_params(id, layer, self.key(id, micro_batch)));
        if site.role == Role::Weight {
            self.keep_scales(id, &rounded.scales);
        }
        self.push_pending(id, StatsSource::Ready(rounded.stats));
        let encoding = if has_codes { Encoding::Codes(site.format.clone()) } else { Encoding::F32 };
        Operand { values: rounded.values, scales: rounded.scales, encoding }
    }

    /// A weight for use at `step`: without master weights rounded to the grid of its format, at its last scales or at new ones by
    /// its scaling, else unchanged. Shape: `[out, in]`.
    #[must_use]
    pub fn round_to_grid(&self, layer: LayerId, value: Tensor<2>, step: u64) -> Tensor<2> {
        let Some((id, site)) = self.site(layer, Role::Weight).filter(|_| self.is_stored_on_grid(layer))
        else {
            return value;
        };
        let key = RandomKey { step, ..self.key(id, 0) };
        let scales = self.next_scales(id, arranged_scales(&value, site));
        let rounded = self.round_at(id, value, scales, key);
        self.keep_scales(id, &rounded.scales);
        self.grid_stats.lock().push((id, rounded.stats));
        rounded.values
    }

    /// The rounded gradient of a layer's weight, if it is rounded. Shape: `[out, in]`.
    #[must_use]
    pub fn round_weight_gradient(&self, layer: LayerId, grad: Tensor<2>, micro_batch: u64) -> Tensor<2> {
        self.observe_value(layer, Role::WeightGrad, &grad);
        let Some((id, _)) = self.site(layer, Role::WeightGrad) else { return grad };
        let rounded = cast(grad, self.cast_params(id, layer, self.key(id, micro_batch)));
        self.push_pending(id, StatsSource::Ready(rounded.stats));
        rounded.values
    }

    /// True if the gradient of a layer's weight is rounded, or observed in the current pass.
    #[must_use]
    pub fn rounds_weight_gradient(&self, layer: LayerId) -> bool {
        self.site(layer, Role::WeightGrad).is_some() || self.observes(layer, &[Role::WeightGrad])
    }

    /// The site of a use of a layer's tensor, if it has a cast of its own.
    #[must_use]
    pub fn site_of(&self, layer: LayerId, role: Role) -> Option<&Site> {
        self.site(layer, role).map(|(_, site)| site)
    }

    /// True if a second use is in high precision though the first is rounded.
    #[must_use]
    pub fn is_unrounded(&self, layer: LayerId, role: Role) -> bool {
        self.unrounded.contains(&(layer, role))
    }

    /// The site of a role of a layer, if it is rounded.
    pub(super) fn site(&self, layer: LayerId, role: Role) -> Option<(SiteId, &Site)> {
        let id = *self.layers.get(&(layer, role))?;
        Some((id, &self.sites[id]))
    }

    /// The key of the random bits of a site's tensor.
    pub(super) fn key(&self, site: SiteId, micro_batch: u64) -> RandomKey {
        let tensor = micro_batch * self.sites.len() as u64 + site as u64;
        RandomKey { seed: self.seed, step: self.step, tensor, offset: 0 }
    }

    /// The parameters of a cast at a site of a layer.
    pub(super) fn cast_params(&self, id: SiteId, layer: LayerId, key: RandomKey) -> CastParams {
        let site = &self.sites[id];
        let histogram = self.histograms.get(id).cloned();
        let quant = FakeQuantParams { histogram, ..site.fake_quant_params(key) };
        let rotation =
            site.transform.map(|hadamard| Rotation { hadamard, key: self.sign_key(layer, site.role) });
        CastParams { quant, arrangement: site.arrangement(), rotation }
    }

    /// The key of random signs: the same for both operands of a product, for all micro-batches of a step.
    fn sign_key(&self, layer: LayerId, role: Role) -> RandomKey {
        let tensor = u64::MAX - (4 * layer as u64 + u64::from(role.product().unwrap_or(3)));
        RandomKey { seed: self.seed, step: self.step, tensor, offset: 0 }
    }

    /// Rounds a weight at these scales.
    fn round_at(&self, id: SiteId, x: Tensor<2>, scales: Tensor<2>, key: RandomKey) -> FakeQuantOutput<2> {
        let params = self.cast_params(id, 0, key);
        cast_at(x, scales, params)
    }

    /// Adds a weight that was rounded at the end of its update to its histogram, on steps that collect one. Values on the
    /// grid are rounded to themselves.
    fn collect_weight_histogram(&self, layer: LayerId, weight: &Tensor<2>) {
        if self.histograms.is_empty() {
            return;
        }
        let Some((id, _)) = self.site(layer, Role::Weight) else { return };
        let Some(scales) = self.weight_scales.lock().get(&id).map(|kept| kept.pairs.clone()) else { return };
        drop(self.round_at(id, untracked(weight.clone()), scales, self.key(id, 0)));
    }

    /// Records the largest magnitudes of a training step, for the scales of later steps.
    pub fn record_amax(&self, stats: &[Option<QuantStats>]) {
        for (site, stats) in self.sites.iter().zip(stats) {
            if let Some(stats) = stats {
                site.record_amax(stats);
            }
        }
    }

    /// The site of a layer's weight that is rounded to a grid: one that is transformed first lies on none.
    pub(super) fn weight_on_grid(&self, layer: LayerId) -> Option<&Site> {
        self.site_of(layer, Role::Weight).filter(|site| site.transform.is_none())
    }

    /// The format to whose grid a layer's weight is rounded, if it is.
    #[must_use]
    pub fn weight_format(&self, layer: LayerId) -> Option<&FormatPlugin> {
        Some(self.weight_on_grid(layer)?.format.plugin())
    }

    /// True if a layer's weight is stored on the grid of its format: [`Self::round_to_grid`] rounds it.
    #[must_use]
    pub fn is_stored_on_grid(&self, layer: LayerId) -> bool {
        self.master_weights == MasterWeightsChoice::None && self.site(layer, Role::Weight).is_some()
    }

    /// True if a layer's weight is rounded to a grid with one scale.
    #[must_use]
    pub fn has_one_scale(&self, layer: LayerId) -> bool {
        self.weight_on_grid(layer).is_some_and(Site::has_one_scale)
    }
}

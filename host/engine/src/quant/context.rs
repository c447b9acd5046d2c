//! Quantized linear layers: which tensors are rounded before and after their matrix products.
//!
//! Forward `y = Q_a(x) Q_w(W)^T`; backward, with `g = Q_g(dL/dy)` rounded once, `dL/dx = g Q_w(W)` and
//! `dL/dW = g^T Q_a(x)`. The backward pass uses the rounded operands, because rounding and product are separate operations
//! (docs/numerics.md, section 5.2).

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
    FakeQuantOutput, FakeQuantParams, HistogramCollector, LayerId, PendingStats, QuantStats, Role, Site,
    fake_quant::{fake_quant_at, scales_of},
    operand::{GradientRounding, Operand},
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

/// The quantization of a model: which tensors of its linear layers are rounded, and the statistics of the rounding.
#[derive(Debug)]
pub struct QuantContext {
    pub(super) sites: Vec<Site>,
    /// The sites of a layer.
    pub(super) layers: BTreeMap<(LayerId, Role), SiteId>,
    /// Whether weights are rounded from f32 each step, or stored on the grids of their formats.
    master_weights: MasterWeightsChoice,
    precision: PrecisionChoice,
    /// Whether the device multiplies bf16 fast.
    fast_bf16: bool,
    seed: u64,
    step: u64,
    /// One collector per site on steps that collect histograms, else empty.
    pub(super) histograms: Vec<Arc<HistogramCollector>>,
    /// Statistics of forward and backward passes that were not read yet.
    pub(super) pending: Mutex<Vec<(SiteId, StatsSource)>>,
    /// Statistics of [`Self::round_to_grid`] since the last reading of a training step.
    pub(super) grid_stats: Mutex<Vec<(SiteId, PendingStats)>>,
    /// The scales of the last rounding of each weight.
    pub(super) weight_scales: Mutex<BTreeMap<SiteId, WeightScales>>,
}

/// Where on the device the statistics of a call are.
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
            fast_bf16: false,
            seed,
            step: 0,
            histograms: Vec::new(),
            pending: Mutex::default(),
            grid_stats: Mutex::default(),
            weight_scales: Mutex::default(),
        }
    }

    /// The same on a device that multiplies bf16 fast or not.
    #[must_use]
    pub fn with_fast_bf16(self, fast_bf16: bool) -> Self {
        Self { fast_bf16, ..self }
    }

    /// The sites, in the order of [`Self::read_stats`]'s results.
    #[must_use]
    pub fn sites(&self) -> &[Site] {
        &self.sites
    }

    /// Whether the optimizer updates weights in f32 or on the grids of their formats.
    #[must_use]
    pub fn master_weights(&self) -> MasterWeightsChoice {
        self.master_weights
    }

    /// The precision of operands that no format rounds.
    #[must_use]
    pub fn precision(&self) -> PrecisionChoice {
        self.precision
    }

    /// What is rounded, in one line: `weights E4M3, activations E4M3, gradients E5M2`.
    #[must_use]
    pub fn summary(&self) -> String {
        let plural = |role| match role {
            Role::Weight => "weights",
            Role::Activation => "activations",
            Role::Grad => "gradients",
        };
        let mut parts = Vec::new();
        for role in Role::ALL {
            let of_role = self.sites.iter().filter(|site| site.role == role);
            let formats: BTreeSet<&str> =
                of_role.map(|site| site.format.plugin().identity.name.as_str()).collect();
            if !formats.is_empty() {
                let formats: Vec<&str> = formats.into_iter().collect();
                let bare = role == Role::Weight && self.master_weights == MasterWeightsChoice::None;
                let masters = if bare { " without master weights" } else { "" };
                parts.push(format!("{} {}{masters}", plural(role), formats.join("/")));
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
        let (x, weight) = self.operands(layer, x, weight, micro_batch, scope);
        let grad = self.site(layer, Role::Grad);
        let rounding = match grad {
            Some((id, site)) => {
                let [tokens, outputs] = [x.values.dims()[0], weight.values.dims()[0]];
                let padding = site.padding(outputs);
                let params = self.fake_quant_params(id, self.key(id, micro_batch), tokens * padding);
                GradientRounding::Format(params, padding)
            }
            None if self.precision == PrecisionChoice::Bf16 => GradientRounding::Bf16,
            None => GradientRounding::None,
        };
        let probe = scope.gradient_probe("rounded gradient", &x.values.device());
        let (y, stats) = product::product(x, weight, rounding, self.fast_bf16, probe);
        scope.record("product", &y);
        if let (Some((id, _)), Some(stats)) = (grad, stats) {
            self.push_pending(id, StatsSource::AfterBackward(stats));
        }
        y
    }

    /// Whether the gradient of a layer's product is used without rounding.
    #[must_use]
    pub fn has_unrounded_gradient(&self, layer: LayerId) -> bool {
        self.site(layer, Role::Grad).is_none() && self.precision == PrecisionChoice::Fp32
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
        let Some((id, site)) = self.site(layer, role) else { return self.unrounded_operand(x) };
        let width = x.dims()[1];
        let rounded = self.round(id, x, self.key(id, micro_batch));
        if role == Role::Weight {
            self.keep_scales(id, &rounded.scales);
        }
        self.push_pending(id, StatsSource::Ready(rounded.stats));
        let values = without_padding(rounded.values, width);
        // Where rows were padded, groups are no longer consecutive elements.
        let has_codes = site.padding(width) == 0 && !site.format.decoded().is_empty();
        let encoding = if has_codes { Encoding::Codes(site.format.clone()) } else { Encoding::F32 };
        Operand { values, scales: rounded.scales, encoding }
    }

    /// A weight as it is used at `step`: without master weights rounded to the grid of its format, at its last scales or
    /// new ones as its scaling says, else unchanged. Shape: `[out, in]`.
    #[must_use]
    pub fn round_to_grid(&self, layer: LayerId, value: Tensor<2>, step: u64) -> Tensor<2> {
        let Some((id, site)) = self.site(layer, Role::Weight).filter(|_| self.is_stored_on_grid(layer))
        else {
            return value;
        };
        let width = value.dims()[1];
        let padded = with_padding(value, site.padding(width));
        let scales = self.next_scales(id, scales_of(&padded, site.scale()));
        let rounded = self.round_at(id, (padded, width), scales, RandomKey { step, ..self.key(id, 0) });
        self.keep_scales(id, &rounded.scales);
        self.grid_stats.lock().push((id, rounded.stats));
        without_padding(rounded.values, width)
    }

    /// The site of a role of a layer, if it is rounded.
    pub(super) fn site(&self, layer: LayerId, role: Role) -> Option<(SiteId, &Site)> {
        let id = *self.layers.get(&(layer, role))?;
        Some((id, &self.sites[id]))
    }

    /// The key of the random bits of a site's tensor.
    fn key(&self, site: SiteId, micro_batch: u64) -> RandomKey {
        let tensor = micro_batch * self.sites.len() as u64 + site as u64;
        RandomKey { seed: self.seed, step: self.step, tensor, offset: 0 }
    }

    /// The parameters of rounding at a site. `padding_elements` of the elements are zeros that pad rows.
    fn fake_quant_params(&self, id: SiteId, key: RandomKey, padding_elements: usize) -> FakeQuantParams {
        let histogram = self.histograms.get(id).cloned();
        FakeQuantParams { histogram, padding_elements, ..self.sites[id].fake_quant_params(key) }
    }

    /// Rounds a site's tensor, whose rows are padded to whole blocks.
    fn round(&self, id: SiteId, x: Tensor<2>, key: RandomKey) -> FakeQuantOutput<2> {
        let (site, width) = (&self.sites[id], x.dims()[1]);
        let padded = with_padding(x, site.padding(width));
        let scales = scales_of(&padded, site.scale());
        self.round_at(id, (padded, width), scales, key)
    }

    /// Rounds a site's tensor, padded from rows of `width`, at these scales.
    fn round_at(
        &self,
        id: SiteId,
        (padded, width): (Tensor<2>, usize),
        scales: Tensor<2>,
        key: RandomKey,
    ) -> FakeQuantOutput<2> {
        let [rows, padded_width] = padded.dims();
        let params = self.fake_quant_params(id, key, rows * (padded_width - width));
        let rounded = fake_quant_at(padded, scales, params);
        // The zeros of the padding change no statistic but the number of elements.
        let stats = PendingStats { elements: (rows * width) as u64, ..rounded.stats };
        FakeQuantOutput { stats, ..rounded }
    }

    /// Adds a weight that was rounded at the end of its update to its histogram, on steps that collect one. Values on the
    /// grid are rounded to themselves.
    fn collect_weight_histogram(&self, layer: LayerId, weight: &Tensor<2>) {
        if self.histograms.is_empty() {
            return;
        }
        let Some((id, site)) = self.site(layer, Role::Weight) else { return };
        let Some(scales) = self.weight_scales.lock().get(&id).map(|kept| kept.pairs.clone()) else { return };
        let width = weight.dims()[1];
        let padded = with_padding(untracked(weight.clone()), site.padding(width));
        drop(self.round_at(id, (padded, width), scales, self.key(id, 0)));
    }

    /// Records the largest magnitudes of a training step, for the scales of later steps.
    pub fn record_amax(&self, stats: &[Option<QuantStats>]) {
        for (site, stats) in self.sites.iter().zip(stats) {
            if let Some(stats) = stats {
                site.record_amax(stats);
            }
        }
    }

    /// The format of a layer's weight, if it is rounded.
    #[must_use]
    pub fn weight_format(&self, layer: LayerId) -> Option<&FormatPlugin> {
        Some(self.site(layer, Role::Weight)?.1.format.plugin())
    }

    /// Whether a layer's weight is stored on the grid of its format: [`Self::round_to_grid`] rounds it.
    #[must_use]
    pub fn is_stored_on_grid(&self, layer: LayerId) -> bool {
        self.master_weights == MasterWeightsChoice::None && self.site(layer, Role::Weight).is_some()
    }

    /// Whether a layer's weight is rounded with one scale.
    #[must_use]
    pub fn has_one_scale(&self, layer: LayerId) -> bool {
        self.site(layer, Role::Weight).is_some_and(|(_, site)| site.has_one_scale())
    }
}

/// `x` with `columns` columns of zeros appended.
fn with_padding(x: Tensor<2>, columns: usize) -> Tensor<2> {
    if columns == 0 {
        return x;
    }
    let zeros = Tensor::zeros([x.dims()[0], columns], &x.device());
    Tensor::cat(vec![x, zeros], 1)
}

/// The first `width` columns.
fn without_padding(x: Tensor<2>, width: usize) -> Tensor<2> {
    if x.dims()[1] == width { x } else { x.narrow(1, 0, width) }
}

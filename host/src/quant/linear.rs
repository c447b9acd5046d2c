//! Quantized linear layers: what is rounded before and after their matrix products.
//!
//! Forward `y = Q_a(x) Q_w(W)^T`; backward, with `g = Q_g(dL/dy)` rounded once, `dL/dx = g Q_w(W)` and
//! `dL/dW = g^T Q_a(x)`: the rounded operands are the ones the backward pass uses, because rounding and product are
//! separate operations (NUMERICS section 4).

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, PoisonError},
};

use altgrad_plugin_api::RandomKey;
use burn::tensor::Tensor;

use super::{
    Call, Seen, Unread, Watch,
    gather::Pending,
    keep::Form,
    op::{self, Rounded},
    product::{self, Operand, Rounding},
    site::{Role, Site},
};
use crate::{model::layout::ParamId, plugins::FormatPlugin, trace::At};

/// Place of a site in [`Quant::sites`].
pub type SiteId = usize;

/// How linear layers compute: which of their tensors are rounded, and what rounding saw.
#[derive(Debug, Default)]
pub struct Quant {
    pub(super) sites: Vec<Site>,
    /// The sites of a layer, by its weight.
    layers: BTreeMap<(ParamId, Role), SiteId>,
    /// Whether weights live on their formats' grids, or are rounded from fp32 each step.
    master_weights: MasterWeights,
    precision: Precision,
    /// Whether the device multiplies bf16 fast.
    fast_bf16: bool,
    seed: u64,
    step: u64,
    /// One a site while distributions are watched, else empty.
    pub(super) watches: Vec<Arc<Watch>>,
    /// Calls of passes since the last reading.
    pub(super) pending: Mutex<Vec<(SiteId, Pending)>>,
    /// Calls of [`Self::settle`] since the last reading of a training step.
    pub(super) settled: Mutex<Vec<(SiteId, Unread)>>,
}

/// What the optimizer updates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MasterWeights {
    /// Weights in fp32; layers use a rounded copy.
    #[default]
    Fp32,
    /// Weights on their formats' grids: each update ends with one rounding.
    None,
}

/// What matrix products multiply; they add in f32.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Precision {
    /// f32.
    #[default]
    Fp32,
    /// Operands rounded to bf16, unless a format has rounded them: those are exact in bf16 up to their scales.
    Bf16,
}

impl Quant {
    /// Linear layers without rounding.
    #[must_use]
    pub fn off() -> Self {
        Self::default()
    }

    /// Rounding at these sites; each belongs to a layer, given by its weight.
    #[must_use]
    pub fn new(
        sites: Vec<(ParamId, Site)>,
        master_weights: MasterWeights,
        precision: Precision,
        seed: u64,
    ) -> Self {
        let layers =
            sites.iter().enumerate().map(|(id, (weight, site))| ((*weight, site.role), id)).collect();
        let sites = sites.into_iter().map(|(_, site)| site).collect();
        Self { sites, layers, master_weights, precision, seed, ..Self::default() }
    }

    /// The same on a device that multiplies bf16 fast, if it does.
    #[must_use]
    pub fn with_fast_bf16(self, fast_bf16: bool) -> Self {
        Self { fast_bf16, ..self }
    }

    /// The sites, in the order of [`Self::seen`]'s results.
    #[must_use]
    pub fn sites(&self) -> &[Site] {
        &self.sites
    }

    /// What the optimizer updates.
    #[must_use]
    pub fn master_weights(&self) -> MasterWeights {
        self.master_weights
    }

    /// What matrix products multiply.
    #[must_use]
    pub fn precision(&self) -> Precision {
        self.precision
    }

    /// What is rounded, in a line for people: `weights E4M3, activations E4M3, gradients E5M2`.
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
                let bare = role == Role::Weight && self.master_weights == MasterWeights::None;
                let masters = if bare { " without master weights" } else { "" };
                parts.push(format!("{} {}{masters}", plural(role), formats.join("/")));
            }
        }
        match (parts.is_empty(), self.precision) {
            (true, Precision::Fp32) => "unquantized fp32".into(),
            (true, Precision::Bf16) => "unquantized bf16".into(),
            (false, Precision::Fp32) => parts.join(", "),
            (false, Precision::Bf16) => format!("{}, other operands bf16", parts.join(", ")),
        }
    }

    /// Says which step the next calls belong to: stochastic rounding draws anew each step.
    pub fn begin_step(&mut self, step: u64) {
        self.step = step;
    }

    /// The step that calls belong to.
    #[must_use]
    pub fn step(&self) -> u64 {
        self.step
    }

    /// `x W^T` with the layer's rounding. Shapes: `x` `[tokens, in]`, `weight` `[out, in]`, result `[tokens, out]`.
    /// `micro_batch` counts within the step. Shows `at` the operands as the product uses them, forward and backward,
    /// rounded or not.
    #[must_use]
    pub fn linear(
        &self,
        layer: ParamId,
        x: Tensor<2>,
        weight: Tensor<2>,
        micro_batch: u64,
        at: At<'_>,
    ) -> Tensor<2> {
        let (x, weight) = self.operands(layer, x, weight, micro_batch, at);
        let grad = self.site(layer, Role::Grad);
        let rounding = match grad {
            Some((id, site)) => {
                let [tokens, outputs] = [x.values.dims()[0], weight.values.dims()[0]];
                let padding = site.padding(outputs);
                Rounding::Format(self.call(id, self.key(id, micro_batch), tokens * padding), padding)
            }
            None if self.precision == Precision::Bf16 => Rounding::Bf16,
            None => Rounding::None,
        };
        let shown = at.probe("rounded gradient", &x.values.device());
        let (y, probe) = product::product(x, weight, rounding, self.fast_bf16, shown);
        at.value("product", &y);
        if let (Some((id, _)), Some(probe)) = (grad, probe) {
            self.note(id, Pending::AfterBackward(probe));
        }
        y
    }

    /// Whether the gradient of a layer's product is used as it comes.
    #[must_use]
    pub fn passes_gradient(&self, layer: ParamId) -> bool {
        self.site(layer, Role::Grad).is_none() && self.precision == Precision::Fp32
    }

    /// The operands of a layer's product, as [`Self::linear`] rounds them.
    #[must_use]
    pub fn operands(
        &self,
        layer: ParamId,
        x: Tensor<2>,
        weight: Tensor<2>,
        micro_batch: u64,
        at: At<'_>,
    ) -> (Operand, Operand) {
        at.value("weight", &weight);
        let weight = match self.master_weights {
            // A weight is the same in all micro-batches of a step, and rounded the same.
            MasterWeights::Fp32 => self.operand(layer, Role::Weight, weight, 0),
            MasterWeights::None if self.site(layer, Role::Weight).is_some() => {
                self.show_settled(layer, &weight);
                Operand::plain(weight, Form::F32)
            }
            MasterWeights::None => self.plain_operand(weight),
        };
        let weight = Operand { values: at.point("rounded weight", weight.values), ..weight };
        let x = self.operand(layer, Role::Activation, x, micro_batch);
        let x = Operand { values: at.point("rounded input", x.values), ..x };
        (x, weight)
    }

    /// `a b` as the precision asks, outside of linear layers.
    #[must_use]
    pub fn matmul(&self, a: Tensor<4>, b: Tensor<4>) -> Tensor<4> {
        match self.precision {
            Precision::Fp32 => a.matmul(b),
            Precision::Bf16 => product::bf16_gradient(product::bf16(a).matmul(product::bf16(b))),
        }
    }

    /// An operand that no format rounds.
    fn plain_operand(&self, x: Tensor<2>) -> Operand {
        match self.precision {
            Precision::Fp32 => Operand::plain(x, Form::F32),
            Precision::Bf16 => Operand::plain(product::bf16(x), Form::Bf16),
        }
    }

    fn operand(&self, layer: ParamId, role: Role, x: Tensor<2>, micro_batch: u64) -> Operand {
        let Some((id, site)) = self.site(layer, role) else { return self.plain_operand(x) };
        let width = x.dims()[1];
        let rounded = self.round(id, x, self.key(id, micro_batch));
        self.note(id, Pending::Here(rounded.seen));
        let values = cut(rounded.values, width);
        // Where rows were filled up, groups are no longer consecutive elements.
        let whole = site.padding(width) == 0 && !site.format.decoded().is_empty();
        let form = if whole { Form::Codes(site.format.clone()) } else { Form::F32 };
        Operand { values, scales: rounded.scales, form }
    }

    /// A weight as it is used at `step`: on its format's grid without master weights, as it is otherwise.
    /// Shape: `[out, in]`.
    #[must_use]
    pub fn settle(&self, weight: ParamId, value: Tensor<2>, step: u64) -> Tensor<2> {
        let Some((id, _)) = self.site(weight, Role::Weight).filter(|_| self.settles(weight)) else {
            return value;
        };
        let width = value.dims()[1];
        let rounded = self.round(id, value, RandomKey { step, ..self.key(id, 0) });
        self.settled.lock().unwrap_or_else(PoisonError::into_inner).push((id, rounded.seen));
        cut(rounded.values, width)
    }

    fn site(&self, layer: ParamId, role: Role) -> Option<(SiteId, &Site)> {
        let id = *self.layers.get(&(layer, role))?;
        Some((id, &self.sites[id]))
    }

    fn key(&self, site: SiteId, micro_batch: u64) -> RandomKey {
        let tensor = micro_batch * self.sites.len() as u64 + site as u64;
        RandomKey { seed: self.seed, step: self.step, tensor, offset: 0 }
    }

    /// A call of a site, `filling` of whose elements are zeros that fill up rows.
    fn call(&self, id: SiteId, key: RandomKey, filling: usize) -> Call {
        Call { watch: self.watches.get(id).cloned(), filling, ..self.sites[id].call(key) }
    }

    /// Rounds a site's tensor, rows filled up to whole blocks.
    fn round(&self, id: SiteId, x: Tensor<2>, key: RandomKey) -> Rounded<2> {
        let [rows, width] = x.dims();
        let padding = self.sites[id].padding(width);
        let rounded = op::fake_quant(padded(x, padding), self.call(id, key, rows * padding));
        // The zeros that fill up change no statistic but the number of elements.
        Rounded { seen: Unread { elements: (rows * width) as u64, ..rounded.seen }, ..rounded }
    }

    /// Lets a watch see a weight that was rounded where its update ended: what lies on the grid is rounded to itself.
    fn show_settled(&self, layer: ParamId, weight: &Tensor<2>) {
        if let Some((id, _)) = self.site(layer, Role::Weight).filter(|_| !self.watches.is_empty()) {
            let weight = if weight.device().is_autodiff() { weight.clone().inner() } else { weight.clone() };
            drop(self.round(id, weight, self.key(id, 0)));
        }
    }

    /// Remembers what a training step saw, for the scales of later steps.
    pub fn record(&self, seen: &[Option<Seen>]) {
        for (site, seen) in self.sites.iter().zip(seen) {
            if let Some(seen) = seen {
                site.record(seen);
            }
        }
    }

    /// The format a weight is rounded to and its scale at a step that saw `seen`, if it is rounded with one scale.
    #[must_use]
    pub fn stored(&self, weight: ParamId, seen: &[Option<Seen>]) -> Option<(&FormatPlugin, f32)> {
        let (id, site) = self.site(weight, Role::Weight)?;
        let scale = site.used_scale(seen.get(id)?.as_ref()?)?;
        Some((site.format.plugin(), scale))
    }

    /// The format a weight is rounded to, if it is.
    #[must_use]
    pub fn weight_format(&self, weight: ParamId) -> Option<&FormatPlugin> {
        Some(self.site(weight, Role::Weight)?.1.format.plugin())
    }

    /// Whether [`Self::settle`] rounds a weight.
    #[must_use]
    pub fn settles(&self, weight: ParamId) -> bool {
        self.master_weights == MasterWeights::None && self.site(weight, Role::Weight).is_some()
    }

    /// Whether a weight is rounded with one scale.
    #[must_use]
    pub fn has_one_scale(&self, weight: ParamId) -> bool {
        self.site(weight, Role::Weight).is_some_and(|(_, site)| site.used_scale(&Seen::default()).is_some())
    }
}

/// `x` with `columns` columns of zeros behind.
fn padded(x: Tensor<2>, columns: usize) -> Tensor<2> {
    if columns == 0 {
        return x;
    }
    let zeros = Tensor::zeros([x.dims()[0], columns], &x.device());
    Tensor::cat(vec![x, zeros], 1)
}

/// The first `width` columns.
fn cut(x: Tensor<2>, width: usize) -> Tensor<2> {
    if x.dims()[1] == width { x } else { x.narrow(1, 0, width) }
}

//! The rounding that a run file selects: which tensors are rounded, and how. It does not change during a phase of
//! casts.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::OnceLock,
};

use altgrad_base::diagnostic::Diagnostic;
use altgrad_casts::LimitedSum;
use altgrad_config::{MasterWeightsChoice, PrecisionChoice};
use altgrad_loader::FormatPlugin;
use altgrad_plugin_api::RandomKey;
#[cfg(feature = "gpu")]
use altgrad_plugin_api::Rounding;
use burn::tensor::{Device, Tensor};

use super::{LayerId, Role, SiteId, TensorQuantizer, WeightGrid};
use crate::tensor::{flat, untracked};

/// The rounded tensors of a model.
#[derive(Debug)]
pub struct QuantPlan {
    sites: Vec<TensorQuantizer>,
    /// The number of each site in keys of random bits, and their number: those of casts that `quant.unrounded` leaves
    /// out count too.
    numbers: Vec<u64>,
    numbered: u64,
    /// The sites of a layer.
    layers: BTreeMap<(LayerId, Role), SiteId>,
    /// Storage of weights: rounded from f32 each step, or kept on the grids of their formats.
    master_weights: MasterWeightsChoice,
    precision: PrecisionChoice,
    /// Second uses of operands that are not rounded though their first uses are.
    unrounded: BTreeSet<(LayerId, Role)>,
    /// True if the device multiplies bf16 fast.
    fast_bf16: bool,
    /// The sums of products of codes, if they are not f32.
    sum: Option<LimitedSum>,
    seed: u64,
    /// A zero on the device of the passes.
    zero: OnceLock<Tensor<1>>,
}

impl QuantPlan {
    /// No rounding.
    #[must_use]
    pub fn off() -> Self {
        Self::new(Vec::new(), MasterWeightsChoice::Fp32, PrecisionChoice::Fp32, 0)
    }

    /// Rounding at these sites; each belongs to a layer.
    #[must_use]
    pub fn new(
        sites: Vec<(LayerId, TensorQuantizer)>,
        master_weights: MasterWeightsChoice,
        precision: PrecisionChoice,
        seed: u64,
    ) -> Self {
        let layers = sites.iter().enumerate().map(|(id, (layer, site))| ((*layer, site.role), id)).collect();
        let sites: Vec<_> = sites.into_iter().map(|(_, site)| site).collect();
        let numbered = sites.len() as u64;
        Self {
            sites,
            numbers: (0..numbered).collect(),
            numbered,
            layers,
            master_weights,
            precision,
            unrounded: BTreeSet::new(),
            fast_bf16: false,
            sum: None,
            seed,
            zero: OnceLock::new(),
        }
    }

    /// The same plan with these numbers of its sites among `numbered`.
    #[must_use]
    pub fn with_numbers(self, numbers: Vec<u64>, numbered: u64) -> Self {
        Self { numbers, numbered, ..self }
    }

    /// The same plan with these second uses of operands in high precision. All others without a site reuse the first
    /// uses.
    #[must_use]
    pub fn with_unrounded(self, unrounded: BTreeSet<(LayerId, Role)>) -> Self {
        Self { unrounded, ..self }
    }

    /// The same plan on a device that multiplies bf16 fast or not.
    #[must_use]
    pub fn with_fast_bf16(self, fast_bf16: bool) -> Self {
        Self { fast_bf16, ..self }
    }

    /// The same plan with these sums of products both of whose operands have formats.
    #[must_use]
    pub fn with_sum(self, sum: Option<LimitedSum>) -> Self {
        Self { sum, ..self }
    }

    /// The sites.
    #[must_use]
    pub fn sites(&self) -> &[TensorQuantizer] {
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

    /// The sums of products of codes, if they are not f32.
    #[must_use]
    pub fn sum(&self) -> Option<LimitedSum> {
        self.sum
    }

    /// True if the device multiplies bf16 fast, and the sums of products of codes.
    pub(super) fn arithmetic(&self) -> (bool, Option<LimitedSum>) {
        (self.fast_bf16, self.sum)
    }

    /// The run's seed.
    #[must_use]
    pub fn seed(&self) -> u64 {
        self.seed
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

    /// The site of a role of a layer, if it is rounded.
    pub(super) fn site(&self, layer: LayerId, role: Role) -> Option<(SiteId, &TensorQuantizer)> {
        let id = *self.layers.get(&(layer, role))?;
        Some((id, &self.sites[id]))
    }

    /// The site of a use of a layer's tensor, if it has a cast of its own.
    #[must_use]
    pub fn site_of(&self, layer: LayerId, role: Role) -> Option<&TensorQuantizer> {
        self.site(layer, role).map(|(_, site)| site)
    }

    /// True if a second use is in high precision though the first is rounded.
    #[must_use]
    pub fn is_unrounded(&self, layer: LayerId, role: Role) -> bool {
        self.unrounded.contains(&(layer, role))
    }

    /// The pairs of sites of the same uses in this plan and another.
    pub(super) fn shared_sites(&self, other: &Self) -> Vec<(SiteId, SiteId)> {
        self.layers.iter().filter_map(|(key, id)| Some((*id, *other.layers.get(key)?))).collect()
    }

    /// What kernels of casts get from the host in each step otherwise than by memory of the device, so that a replay of
    /// recorded launches would not have it.
    #[cfg(feature = "gpu")]
    #[must_use]
    pub fn varies_by(&self) -> Option<&'static str> {
        let has_old_kernels =
            |site: &TensorQuantizer| site.rounding == Rounding::STOCHASTIC && !site.format.reads_step();
        // Blocks lie under the largest magnitude of an earlier step, which is a scalar.
        let has_blocks = |site: &TensorQuantizer| site.has_history() && site.group().is_some();
        if self.sites.iter().any(has_old_kernels) {
            return Some("stochastic rounding in kernels that do not read the step from memory");
        }
        self.sites.iter().any(has_blocks).then_some("scales of blocks from earlier steps")
    }

    /// A zero, `[1]`, outside of any autodiff graph: the value of every leaf. All passes are on one device.
    pub(super) fn zero(&self, device: &Device) -> &Tensor<1> {
        self.zero.get_or_init(|| untracked(flat(vec![0.0], device)))
    }

    /// The key of the random bits of a site's tensor.
    pub(super) fn key(&self, site: SiteId, step: u64, micro_batch: u64) -> RandomKey {
        let tensor = micro_batch * self.numbered + self.numbers[site];
        RandomKey { seed: self.seed, step, tensor, offset: 0 }
    }

    /// The key of random signs: the same for both operands of a product, for all micro-batches of a step.
    pub(super) fn sign_key(&self, layer: LayerId, role: Role, step: u64) -> RandomKey {
        let tensor = u64::MAX - (4 * layer as u64 + u64::from(role.product().unwrap_or(3)));
        RandomKey { seed: self.seed, step, tensor, offset: 0 }
    }

    /// The site of a layer's weight that is rounded to a grid: one that is transformed first, or cast as a whole, lies
    /// on none.
    fn weight_on_grid(&self, layer: LayerId) -> Option<&TensorQuantizer> {
        self.site_of(layer, Role::Weight).filter(|site| site.transform.is_none() && !site.needs_matrix())
    }

    /// The format to whose grid a layer's weight is rounded, if it is.
    #[must_use]
    pub fn weight_format(&self, layer: LayerId) -> Option<&FormatPlugin> {
        Some(self.weight_on_grid(layer)?.format.plugin())
    }

    /// True if a layer's weight is stored on the grid of its format:
    /// [`Quantizer::round_to_grid`](super::Quantizer::round_to_grid) rounds it.
    #[must_use]
    pub fn is_stored_on_grid(&self, layer: LayerId) -> bool {
        self.master_weights == MasterWeightsChoice::None && self.site(layer, Role::Weight).is_some()
    }

    /// True if a layer's weight is rounded to a grid with one scale.
    #[must_use]
    pub fn has_one_scale(&self, layer: LayerId) -> bool {
        self.weight_on_grid(layer).is_some_and(TensorQuantizer::has_one_scale)
    }

    /// The grid of a layer's weight of this shape in steps to come, whose scales are not known yet; if it is rounded. A
    /// weight that is transformed first lies on no grid.
    #[must_use]
    pub fn future_weight_grid(&self, layer: LayerId, shape: &[usize]) -> Option<WeightGrid<'_>> {
        self.weight_on_grid(layer).map(|site| WeightGrid::in_future(site, shape))
    }

    /// The grid that a layer's weight of this shape would lie on if it were not transformed; if it is.
    #[must_use]
    pub fn weight_grid_before_transform(&self, layer: LayerId, shape: &[usize]) -> Option<WeightGrid<'_>> {
        let site = self.site_of(layer, Role::Weight).filter(|site| site.transform.is_some())?;
        Some(WeightGrid::in_future(site, shape))
    }

    /// A layer whose weight is stored otherwise in `other`: on a grid in one only, or on different grids.
    #[must_use]
    pub fn stored_otherwise(&self, other: &Self) -> Option<LayerId> {
        let layers = self.layers.keys().chain(other.layers.keys()).map(|(layer, _)| *layer);
        let mut layers = layers.filter(|&layer| match (self.stored_site(layer), other.stored_site(layer)) {
            (None, None) => false,
            (Some(own), Some(others)) => !stores_alike(own, others),
            _ => true,
        });
        layers.next()
    }

    /// The site whose grid a layer's weight lies on, if it does.
    fn stored_site(&self, layer: LayerId) -> Option<&TensorQuantizer> {
        self.site_of(layer, Role::Weight).filter(|_| self.is_stored_on_grid(layer))
    }

    /// Returns the first failed call of a format since the last check: tensor operations cannot return an error.
    ///
    /// # Errors
    /// That failure.
    pub fn check(&self) -> Result<(), Diagnostic> {
        self.sites.iter().find_map(|site| site.format.take_fault()).map_or(Ok(()), Err)
    }
}

/// True if both sites store a weight on the same grid.
fn stores_alike(a: &TensorQuantizer, b: &TensorQuantizer) -> bool {
    let name = |site: &TensorQuantizer| site.format.plugin().identity.name.clone();
    let how = |site: &TensorQuantizer| (site.rounding, site.scaling, site.tile, site.arithmetic);
    name(a) == name(b) && how(a) == how(b)
}

//! Measures parameters at the optimizer's step: their gradients, the effect of the step, and at intervals the
//! distribution of their weights.
//!
//! [`UpdateMetrics`] subscribes to the optimizer's updates (`update_subscriber`). State between
//! steps is here: the time that elements have been dead, the last codes, the initial weights; `update_state` passes it
//! to checkpoints.

use altgrad_base::diagnostic::Diagnostic;
use altgrad_config::MetricsSection;
use altgrad_loader::FormatPlugin;
use altgrad_plugin_api::ValueGrid;

#[cfg(feature = "gpu")]
use super::device_counts::DeviceCounts;
use super::{
    attention,
    dead_gradients::DeadGradients,
    grid_ends::GridEnds,
    initial_weights::InitialWeights,
    ranks,
    scale_changes::ScaleChanges,
    scale_regret::{self, Regret},
    ulp_distance::UlpDistance,
    ulp_from_init::{self, FromInit},
    update_counts::{Counting, UpdateCounts},
    update_distances,
    update_loss::UpdateLoss,
    updates::{ParameterUpdate, PastCodes, Stored, Update},
    weights::WeightStatistics,
};
use crate::{
    device::ComputeDevice,
    model::{Layout, layout::ParamSpec},
    optimizer::{UpdateEvent, UpdatedValues},
    quant::WeightGrid,
};

/// The measurements that are due at a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DueMetrics {
    /// Gradients and updates by parameter.
    pub parameters: bool,
    /// Attention.
    pub attention: bool,
    /// Distributions: codes, weights, spectra.
    pub distributions: bool,
    /// Kurtosis of rounded tensors.
    pub kurtosis: bool,
    /// Ranks of weights.
    pub ranks: bool,
}

impl DueMetrics {
    /// The measurements that a run file requests at a step.
    #[must_use]
    pub fn at(config: &MetricsSection, step: u64) -> Self {
        let due = |every: u64| every > 0 && step.is_multiple_of(every);
        Self {
            parameters: due(config.every),
            attention: due(config.every) && config.attention,
            distributions: due(config.histograms_every),
            kurtosis: due(config.kurtosis_every) || due(config.histograms_every),
            ranks: due(config.rank_every),
        }
    }

    fn of_parameters(self) -> bool {
        self.parameters || self.distributions || self.ranks
    }
}

/// Measures the parameters of a run.
#[derive(Debug)]
pub struct UpdateMetrics {
    config: MetricsSection,
    step: u64,
    due: DueMetrics,
    /// The factor by which clipping multiplied the step's gradients.
    clipped: f32,
    pub(super) dead: DeadGradients,
    pub(super) past: Vec<PastCodes>,
    /// The seed that draws the initial weights of a run without `model.init`.
    seed: u64,
    /// Weights before the first step; stored for distributions only.
    pub(super) initial: Vec<InitialWeights>,
    measured: StepMeasurements,
    /// The counting on a GPU.
    #[cfg(feature = "gpu")]
    pub(super) device: Option<DeviceCounts>,
}

/// A grid with one scale, and distances on it.
struct MeasuredGrid<'a> {
    format: &'a FormatPlugin,
    scale: f32,
    distance: UlpDistance,
}

impl<'a> MeasuredGrid<'a> {
    /// `None` for a grid with several scales.
    fn new(grid: &'a WeightGrid<'_>) -> Option<Self> {
        let (format, scale) = grid.one_scale()?;
        Some(Self { format, scale, distance: UlpDistance::new(format.values().ok()?, scale) })
    }

    fn stored(&self) -> Stored<'_> {
        Stored { format: self.format, distance: &self.distance, scale: self.scale }
    }
}

/// The measurements of a step, one entry per parameter, or none if not due.
#[derive(Debug, Default)]
struct StepMeasurements {
    updates: Vec<Update>,
    ends: Vec<Option<GridEnds>>,
    scale_changes: Vec<Option<ScaleChanges>>,
    weights: Vec<WeightStatistics>,
    regret: Vec<Regret>,
    from_init: Vec<FromInit>,
    ranks: Vec<Option<[f64; 2]>>,
    qk_entropy: Vec<Option<f64>>,
}

impl UpdateMetrics {
    /// The state before the first measurement, in a run with this seed.
    #[must_use]
    pub fn new(config: MetricsSection, params: usize, seed: u64) -> Self {
        // The run file's range is a u16's.
        let window = if config.every > 0 { config.dead_neuron_window as u16 } else { 0 };
        Self {
            config,
            step: 0,
            due: DueMetrics::default(),
            clipped: 1.0,
            dead: DeadGradients::new(window, config.dead_gradient_threshold as f32, params),
            past: (0..params).map(|_| PastCodes::default()).collect(),
            seed,
            initial: Vec::new(),
            measured: StepMeasurements::default(),
            #[cfg(feature = "gpu")]
            device: None,
        }
    }

    /// The same measurements on a device: a GPU counts there.
    #[must_use]
    #[cfg_attr(not(feature = "gpu"), allow(unused_mut, unused_variables))]
    pub fn on_device(mut self, device: &ComputeDevice) -> Self {
        #[cfg(feature = "gpu")]
        if matches!(device.tensors.as_dispatch(), burn::backend::DispatchDevice::Cube(_)) {
            self.device = Some(DeviceCounts::new(device.tensors.clone(), self.past.len()));
        }
        self
    }

    /// Never measures.
    #[must_use]
    pub fn off() -> Self {
        Self::new(MetricsSection::default().off(), 0, 0)
    }

    /// Begins a step whose gradients clipping multiplied by `clipped`.
    pub fn begin(&mut self, step: u64, clipped: f64) {
        self.step = step;
        self.due = DueMetrics::at(&self.config, step);
        self.clipped = clipped as f32;
        self.measured = StepMeasurements::default();
    }

    /// Discards the codes of weights, because the next ones are of other formats.
    pub fn forget_codes(&mut self) {
        self.past.iter_mut().for_each(|past| *past = PastCodes::default());
    }

    /// Begins a step that is skipped: it measures nothing. `weights` reads the parameters.
    ///
    /// # Errors
    /// The device failed.
    pub fn skip(
        &mut self,
        step: u64,
        layout: &Layout,
        weights: impl FnOnce() -> Result<Vec<Vec<f32>>, Diagnostic>,
    ) -> Result<(), Diagnostic> {
        if step == 0 && self.config.histograms_every > 0 {
            let values = weights()?.into_iter().zip(&layout.specs).enumerate();
            let initial = |(param, (values, spec)): (usize, (Vec<f32>, &ParamSpec))| {
                InitialWeights::of(&values, spec, param, self.seed)
            };
            self.initial = values.map(initial).collect();
        }
        self.step = step;
        self.due = DueMetrics::default();
        self.measured = StepMeasurements::default();
        Ok(())
    }

    /// True if the step's weights are needed.
    #[must_use]
    pub fn wants_weights(&self) -> bool {
        self.due.of_parameters()
    }

    /// True if every step's gradients are needed.
    #[must_use]
    pub fn wants_gradients(&self) -> bool {
        self.dead.counts()
    }

    /// Records a parameter's gradient, as the optimizer receives it; call it every step.
    pub fn gradient(&mut self, param: usize, grad: &[f32]) {
        self.dead.count(param, grad, self.clipped);
    }

    /// Records the update of a parameter, of parameters in the layout's order.
    pub(super) fn update(&mut self, event: &UpdateEvent<'_>, values: &UpdatedValues<'_>) {
        let (param, spec) = (event.id, event.spec);
        let UpdatedValues { before, intended, after, is_rounded, grids: [old, new], .. } = *values;
        if self.due.parameters {
            let step = ParameterUpdate { before, after, grad: event.grad };
            // A return over three steps is detected only for consecutive steps.
            let past = self.past.get_mut(param).filter(|_| self.config.every == 1);
            let mut update = match new.or(old).and_then(MeasuredGrid::new) {
                Some(grid) => Update::stored(step, grid.stored(), past),
                None => Update::unstored(step),
            };
            update.lost = is_rounded.then(|| UpdateLoss::of(before, intended, after, values.residuals));
            put(&mut self.measured.updates, param, update);
            let grid = old.filter(|_| is_rounded || values.has_grid_rule);
            let ends = grid.and_then(|grid| GridEnds::of(intended, grid, values.momentum));
            put(&mut self.measured.ends, param, ends);
        }
        self.scales([old, new], param, spec.len(), || Some(before.to_vec()));
        self.measure_weights(param, spec, (before, event.grad), old);
    }

    /// Compares the grids of a parameter before and after its step; `before` gives its values before.
    pub fn scales(
        &mut self,
        grids: [Option<&WeightGrid<'_>>; 2],
        param: usize,
        elements: usize,
        before: impl FnOnce() -> Option<Vec<f32>>,
    ) {
        if let ([Some(old), Some(new)], true) = (grids, self.due.parameters) {
            let changes = ScaleChanges::of([old, new], elements, before);
            put(&mut self.measured.scale_changes, param, Some(changes));
        }
    }

    /// Measures a parameter before its step, and its gradient, if that is due; `grid` is the one that it was rounded
    /// to.
    pub fn measure_weights(
        &mut self,
        param: usize,
        spec: &ParamSpec,
        (before, grad): (&[f32], &[f32]),
        grid: Option<&WeightGrid<'_>>,
    ) {
        let (whole, grid) = (grid, grid.filter(|_| self.measures_weights()).and_then(MeasuredGrid::new));
        let distance = grid.as_ref().map(|grid| &grid.distance);
        if self.due.distributions {
            if self.step == 0 {
                let initial = InitialWeights::of(before, spec, param, self.seed);
                put(&mut self.initial, param, initial);
            }
            put(&mut self.measured.weights, param, WeightStatistics::of(before, grad, distance));
            let regret = grid.as_ref().map(|grid| scale_regret::of(before, grid.format, grid.scale));
            put(&mut self.measured.regret, param, regret.unwrap_or_default());
            let initial = self.initial.get(param).filter(|_| whole.is_some());
            let from_init = initial.and_then(|initial| initial.values(spec, param)).map(|w_0| FromInit {
                distance: distance.and_then(|distance| ulp_from_init::mean_distance(before, &w_0, distance)),
                lost: whole.and_then(|grid| ulp_from_init::movement(before, &w_0, grid)),
            });
            put(&mut self.measured.from_init, param, from_init.unwrap_or_default());
        }
        if let Some(heads) = spec.attention_heads.filter(|_| self.due.distributions) {
            let entropy = spec.shape.last().and_then(|width| attention::qk_entropy(before, *width, heads));
            put(&mut self.measured.qk_entropy, param, entropy);
        }
        if self.due.ranks {
            let ranks = match spec.shape[..] {
                [rows, columns] => ranks::ranks(before, rows, columns),
                _ => None,
            };
            put(&mut self.measured.ranks, param, ranks);
        }
    }

    /// The counting of a device in a parameter's step, every step, instead of `gradient` and `update`; `None` if it
    /// cannot count.
    #[must_use]
    pub fn counting(&self, param: usize, stored: Option<(&FormatPlugin, f32)>) -> Option<Counting> {
        let mut counting = Counting::default();
        if self.config.every > 0 && param < self.past.len() {
            let values = Counting::values();
            let codes = match stored {
                None => values,
                Some((format, scale)) => match format.values() {
                    Ok(ValueGrid::Minifloat(grid)) => values.codes(&grid, scale)?,
                    _ => return None,
                },
            };
            if self.due.parameters {
                counting = if self.config.every == 1 { codes.past() } else { codes };
            }
        }
        Some(self.dead.counting(counting, self.clipped))
    }

    /// True if [`Self::measure_weights`] needs the step's weights and gradients.
    #[must_use]
    pub fn measures_weights(&self) -> bool {
        self.due.distributions || self.due.ranks
    }

    /// Records that a device counts a parameter's gradient; call it every step.
    pub fn gradient_on_device(&mut self, param: usize) {
        self.dead.count_on_device(param);
    }

    /// Adds a device's counts of a parameter's step; with `stored` those of codes too.
    pub fn counted(&mut self, param: usize, spec: &ParamSpec, counts: &UpdateCounts, stored: bool) {
        let elements = spec.len() as u64;
        let past = self.past.get_mut(param).filter(|_| self.config.every == 1);
        put(&mut self.measured.updates, param, Update::counted(elements, counts, stored, past));
        self.dead.counted(param, counts.dead, elements);
    }

    /// Adds the rounding loss of a parameter's update, after its counts.
    #[cfg(feature = "gpu")]
    pub(super) fn lost(&mut self, param: usize, lost: UpdateLoss) {
        if let Some(update) = self.measured.updates.get_mut(param) {
            update.lost = Some(lost);
        }
    }

    /// The measurements that are due at the step.
    #[must_use]
    pub fn due(&self) -> DueMetrics {
        self.due
    }

    /// The counts of each parameter's step, if due.
    pub(super) fn updates(&self) -> Option<&[Update]> {
        self.due.parameters.then_some(self.measured.updates.as_slice())
    }

    /// The ends of the grids that each parameter's step reached; empty if not due.
    pub(super) fn grid_ends(&self) -> &[Option<GridEnds>] {
        &self.measured.ends
    }

    /// The distance of each parameter's step, if due.
    pub(super) fn distances(&self) -> Option<update_distances::DistanceInputs<'_>> {
        let distances = || self.measured.updates.iter().map(Update::distances).collect();
        let histograms = self.due.distributions;
        self.due.parameters.then(|| update_distances::DistanceInputs { distances: distances(), histograms })
    }

    /// The changes of each stored parameter's scales, if due.
    pub(super) fn scale_changes(&self) -> Option<&[Option<ScaleChanges>]> {
        self.due.parameters.then_some(self.measured.scale_changes.as_slice())
    }

    /// The number of steps that elements have been without a gradient, if due.
    pub(super) fn dead_gradients(&self) -> Option<&DeadGradients> {
        self.due.parameters.then_some(&self.dead)
    }

    /// The weights, by parameter; empty if that is not due.
    pub(super) fn weights(&self) -> &[WeightStatistics] {
        &self.measured.weights
    }

    /// Signal to noise at other scales, by parameter; empty if that is not due.
    pub(super) fn regret(&self) -> &[Regret] {
        &self.measured.regret
    }

    /// Changes since the initial weights, by parameter; empty if that is not due.
    pub(super) fn distances_from_init(&self) -> &[FromInit] {
        &self.measured.from_init
    }

    /// Entropies of query-key forms, by parameter; empty if that is not due.
    pub(super) fn qk_entropy(&self) -> &[Option<f64>] {
        &self.measured.qk_entropy
    }

    /// Ranks, by parameter; empty if that is not due.
    pub(super) fn ranks(&self) -> &[Option<[f64; 2]>] {
        &self.measured.ranks
    }
}

/// Sets an entry; those before that were not set are empty.
pub(super) fn put<T: Default>(list: &mut Vec<T>, at: usize, value: T) {
    if list.len() <= at {
        list.resize_with(at + 1, T::default);
    }
    list[at] = value;
}

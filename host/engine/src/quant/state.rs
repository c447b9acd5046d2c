//! The state of quantization between two steps, for checkpoints: largest magnitudes of past steps, and statistics of weights
//! that were rounded at the end of their update.

use altgrad_base::diagnostic::Diagnostic;
use burn::tensor::Tensor;
use serde::{Deserialize, Serialize};

use super::{History, PendingStats, QuantContext, SiteId, weight_scales::WeightScales};
use crate::{read_back::ReadBack, tensor};

/// The state in main memory, as a checkpoint stores it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct SavedQuantState {
    /// The sites whose scaling needs largest magnitudes of past steps.
    #[serde(default)]
    pub history: Vec<AmaxHistory>,
    /// The weights that were rounded at the end of their update, in the order of the updates: the next step reads their
    /// statistics.
    #[serde(default, rename = "settled")]
    pub weights: Vec<SavedWeightStats>,
}

/// The largest magnitudes of a site.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AmaxHistory {
    /// Name of the layer's weight.
    pub layer: String,
    /// `weight`, `activation` or `grad`.
    pub role: String,
    /// Largest finite magnitudes of past steps, the newest last: f32 values.
    pub amax: Vec<f64>,
    /// The largest of the last window that was not all zero.
    #[serde(default)]
    pub kept: f64,
}

/// The statistics of a weight's last rounding, in the words of its format.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedWeightStats {
    /// Name of the weight.
    pub layer: String,
    /// The grid of its codes, as [`Site::grid_name`](super::Site::grid_name) has it; empty in checkpoints that lack it.
    #[serde(default)]
    pub grid: String,
    /// Number of rounded elements.
    pub elements: u64,
    /// Counters, as u32 words.
    pub words: Vec<u32>,
    /// Sums, as the bits of f32.
    pub sums: Vec<u32>,
    /// Scales with their inverses, as the bits of f32.
    pub scales: Vec<u32>,
}

/// The state, partly on the device. Taking it reads nothing back.
#[derive(Debug, Clone)]
pub struct QuantState {
    history: Vec<AmaxHistory>,
    weights: Vec<StoredWeight>,
}

/// [`SavedWeightStats`], partly on the device.
#[derive(Debug, Clone)]
struct StoredWeight {
    layer: String,
    grid: String,
    stats: PendingStats,
    scales: Option<Tensor<1>>,
}

impl QuantContext {
    /// The state between two steps.
    #[must_use]
    pub fn state(&self) -> QuantState {
        let history = self.sites.iter().filter_map(|site| {
            let History { amax, kept } = site.amax_history()?;
            Some(AmaxHistory {
                layer: site.layer.clone(),
                role: site.role.name().to_string(),
                amax: amax.into_iter().map(f64::from).collect(),
                kept: f64::from(kept),
            })
        });
        let (grid_stats, scales) = (self.grid_stats.lock(), self.weight_scales.lock());
        let weights = grid_stats.iter().map(|(id, stats)| {
            let (site, scales) = (&self.sites[*id], scales.get(id).map(WeightScales::flat));
            StoredWeight { layer: site.layer.clone(), grid: site.grid_name(), stats: stats.clone(), scales }
        });
        QuantState { history: history.collect(), weights: weights.collect() }
    }

    /// Restores the state of a checkpoint. A fork of its run, with other casts, takes the parts that it uses: sites whose scales
    /// record magnitudes that the checkpoint lacks start again.
    ///
    /// # Errors
    /// The checkpoint is of a run with other sites, and this is no fork; or it has no scales for weights without master weights, or
    /// those of another grid.
    pub fn restore(&self, state: &SavedQuantState, fork: bool) -> Result<(), Diagnostic> {
        match self.restore_history(state) {
            Err(_) if fork => {}
            restored => restored?,
        }
        let mut grid_stats = self.grid_stats.lock();
        if fork && grid_stats.is_empty() {
            return Ok(());
        }
        if grid_stats.len() != state.weights.len() {
            return Err(misfit("other weights are rounded where their updates end"));
        }
        for ((id, stats), saved) in grid_stats.iter_mut().zip(&state.weights) {
            self.check_grid(*id, saved)?;
            self.restore_weight_stats(*id, stats, saved)
                .ok_or_else(|| misfit(&format!("`{}`", saved.layer)))?;
        }
        Ok(())
    }

    /// Restores the part that a pass needs: the recorded magnitudes of scales, of all sites that have them.
    ///
    /// # Errors
    /// The checkpoint lacks the state of a site.
    pub fn restore_history(&self, state: &SavedQuantState) -> Result<(), Diagnostic> {
        let mut lacks = None;
        for site in &self.sites {
            let own =
                |history: &&AmaxHistory| history.layer == site.layer && history.role == site.role.name();
            match (site.amax_history(), state.history.iter().find(own)) {
                (None, _) => {}
                (Some(_), Some(history)) => {
                    let amax = history.amax.iter().map(|&amax| amax as f32).collect();
                    site.set_amax_history(History { amax, kept: history.kept as f32 });
                }
                (Some(_), None) => {
                    lacks = lacks.or(Some(misfit(&format!(
                        "no scales of `{}`, {}",
                        site.layer,
                        site.role.name()
                    ))));
                }
            }
        }
        lacks.map_or(Ok(()), Err)
    }

    /// Refuses a weight that was stored on another grid: its scales would be those of other codes.
    fn check_grid(&self, id: SiteId, saved: &SavedWeightStats) -> Result<(), Diagnostic> {
        let (site, was) = (&self.sites[id], &saved.grid);
        let is = site.grid_name();
        if site.layer != saved.layer || was.is_empty() || *was == is {
            return Ok(());
        }
        Err(misfit(&format!("`{}` is stored as {is}, was {was}", site.layer)))
    }

    /// `None` if the statistics are those of another weight, or have another size.
    fn restore_weight_stats(
        &self,
        id: SiteId,
        stats: &mut PendingStats,
        saved: &SavedWeightStats,
    ) -> Option<()> {
        let device = stats.words.device();
        let fits = self.sites[id].layer == saved.layer
            && stats.elements == saved.elements
            && stats.words.dims() == [saved.words.len()]
            && stats.sums.dims() == [saved.sums.len()];
        let values = |bits: &[u32]| bits.iter().copied().map(f32::from_bits).collect();
        let own = self.weight_scales.lock().get(&id)?.pairs.dims();
        let fits = fits && saved.scales.len() == own.iter().product::<usize>();
        fits.then(|| {
            stats.words = tensor::flat(values(&saved.words), &device);
            stats.sums = tensor::flat(values(&saved.sums), &device);
            self.keep_scales(id, &tensor::flat(values(&saved.scales), &device).reshape(own));
        })
    }
}

fn misfit(what: &str) -> Diagnostic {
    Diagnostic::config(format!("the checkpoint's rounding does not fit: {what}"))
}

impl QuantState {
    /// Reads the part on the device: one synchronisation.
    ///
    /// # Errors
    /// The device failed.
    pub fn read(self) -> Result<SavedQuantState, Diagnostic> {
        let mut read_back = ReadBack::default();
        let requested: Vec<_> = self
            .weights
            .into_iter()
            .map(|StoredWeight { layer, grid, stats, scales }| {
                let (words, sums) = (read_back.ask(stats.words), read_back.ask(stats.sums));
                let scales = scales.map(|scales| read_back.ask(scales));
                (layer, grid, stats.elements, words, sums, scales)
            })
            .collect();
        let values = read_back.read()?;
        let bits = |slot| -> Result<Vec<u32>, Diagnostic> {
            Ok(values.get(slot)?.iter().map(|value| value.to_bits()).collect())
        };
        let weights = requested.into_iter().map(|(layer, grid, elements, words, sums, scales)| {
            let scales = scales.map_or(Ok(Vec::new()), bits)?;
            Ok(SavedWeightStats { layer, grid, elements, words: bits(words)?, sums: bits(sums)?, scales })
        });
        Ok(SavedQuantState { history: self.history, weights: weights.collect::<Result<_, Diagnostic>>()? })
    }
}

//! The state of rounding in a checkpoint: largest magnitudes of past steps, and statistics of weights that were rounded
//! at the end of their update.

use altgrad_base::diagnostic::Diagnostic;
use serde::{Deserialize, Serialize};

use super::{History, QuantState, Quantizer, SiteId, weight_scales::WeightScales};
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
    /// The grid of its codes, as [`TensorQuantizer::grid_name`](super::TensorQuantizer::grid_name) has it; empty in
    /// checkpoints that lack it.
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

impl Quantizer {
    /// The largest magnitudes of past steps, of the sites whose scales follow from them.
    #[must_use]
    pub fn history(&self) -> Vec<AmaxHistory> {
        let sites = self.plan.sites().iter().zip(&self.state.histories);
        let history = sites.filter(|(site, _)| site.has_history()).map(|(site, history)| AmaxHistory {
            layer: site.layer.clone(),
            role: site.role.name().to_string(),
            amax: history.amax.iter().copied().map(f64::from).collect(),
            kept: f64::from(history.kept),
        });
        history.collect()
    }

    /// The state as a checkpoint stores it. Reads the part on the device: one synchronisation.
    ///
    /// # Errors
    /// The device failed.
    pub fn save(&self) -> Result<SavedQuantState, Diagnostic> {
        let mut read_back = ReadBack::default();
        let requested: Vec<_> = self
            .state
            .stored
            .iter()
            .map(|(id, stats)| {
                let (words, sums) =
                    (read_back.request(stats.words.clone()), read_back.request(stats.sums.clone()));
                let scales = self.state.weight_scales.get(id).map(|scales| read_back.request(scales.flat()));
                (*id, stats.elements, words, sums, scales)
            })
            .collect();
        let values = read_back.read()?;
        let bits = |slot| -> Result<Vec<u32>, Diagnostic> {
            Ok(values.get(slot)?.iter().map(|value| value.to_bits()).collect())
        };
        let weights = requested.into_iter().map(|(id, elements, words, sums, scales)| {
            let site = &self.plan.sites()[id];
            let (layer, grid) = (site.layer.clone(), site.grid_name());
            let scales = scales.map_or(Ok(Vec::new()), bits)?;
            Ok(SavedWeightStats { layer, grid, elements, words: bits(words)?, sums: bits(sums)?, scales })
        });
        Ok(SavedQuantState { history: self.history(), weights: weights.collect::<Result<_, Diagnostic>>()? })
    }

    /// Restores the state of a checkpoint. A fork of its run, with other casts, takes the parts that it uses: sites
    /// whose scales record magnitudes that the checkpoint lacks start again.
    ///
    /// # Errors
    /// The checkpoint is of a run with other sites, and this is no fork; or it has no scales for weights without master
    /// weights, or those of another grid.
    pub fn restore(&mut self, state: &SavedQuantState, fork: bool) -> Result<(), Diagnostic> {
        match self.restore_history(&state.history) {
            Err(_) if fork => {}
            restored => restored?,
        }
        if fork && self.state.stored.is_empty() {
            return Ok(());
        }
        if self.state.stored.len() != state.weights.len() {
            return Err(misfit("other weights are rounded where their updates end"));
        }
        for (index, saved) in state.weights.iter().enumerate() {
            self.check_grid(self.state.stored[index].0, saved)?;
            self.restore_weight(index, saved).ok_or_else(|| misfit(&format!("`{}`", saved.layer)))?;
        }
        Ok(())
    }

    /// Restores the part that a pass needs: the recorded magnitudes of scales, of all sites that have them.
    ///
    /// # Errors
    /// The saved state lacks that of a site.
    pub fn restore_history(&mut self, saved: &[AmaxHistory]) -> Result<(), Diagnostic> {
        let mut lacks = None;
        let sites = self.plan.sites().iter().zip(&mut self.state.histories);
        for (site, history) in sites.filter(|(site, _)| site.has_history()) {
            let own = |saved: &&AmaxHistory| saved.layer == site.layer && saved.role == site.role.name();
            match saved.iter().find(own) {
                Some(saved) => {
                    let amax = saved.amax.iter().map(|&amax| amax as f32).collect();
                    *history = History { amax, kept: saved.kept as f32 };
                }
                None => {
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
        let (site, was) = (&self.plan.sites()[id], &saved.grid);
        let is = site.grid_name();
        if site.layer != saved.layer || was.is_empty() || *was == is {
            return Ok(());
        }
        Err(misfit(&format!("`{}` is stored as {is}, was {was}", site.layer)))
    }

    /// `None` if the statistics are those of another weight, or have another size.
    fn restore_weight(&mut self, index: usize, saved: &SavedWeightStats) -> Option<()> {
        let QuantState { stored, weight_scales, .. } = &mut self.state;
        let (id, stats) = stored.get_mut(index)?;
        let id = *id;
        let device = stats.words.device();
        let own = weight_scales.get(&id)?.pairs.dims();
        let fits = self.plan.sites()[id].layer == saved.layer
            && stats.elements == saved.elements
            && stats.words.dims() == [saved.words.len()]
            && stats.sums.dims() == [saved.sums.len()]
            && saved.scales.len() == own.iter().product::<usize>();
        let values = |bits: &[u32]| bits.iter().copied().map(f32::from_bits).collect();
        fits.then(|| {
            stats.words = tensor::flat(values(&saved.words), &device);
            stats.sums = tensor::flat(values(&saved.sums), &device);
            let pairs = tensor::flat(values(&saved.scales), &device).reshape(own);
            weight_scales.insert(id, WeightScales::new(pairs));
        })
    }
}

fn misfit(what: &str) -> Diagnostic {
    Diagnostic::config(format!("the checkpoint's rounding does not fit: {what}"))
}

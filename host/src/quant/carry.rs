//! What rounding carries from one step to the next, for checkpoints: largest magnitudes of past steps, and what was seen
//! of weights that were rounded where their update ended.

use std::sync::PoisonError;

use serde::{Deserialize, Serialize};

use super::{Quant, SiteId, Unread};
use crate::{diagnostic::Diagnostic, model::params, read_back::ReadBack};

/// All of it, in numbers.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Carry {
    /// Sites that remember largest magnitudes.
    #[serde(default)]
    pub history: Vec<History>,
    /// Weights that were rounded where their update ended, in the order of the updates: what the next step reads.
    #[serde(default)]
    pub settled: Vec<Settled>,
}

/// A site's memory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct History {
    /// Name of the layer's weight.
    pub layer: String,
    /// `weight`, `activation` or `grad`.
    pub role: String,
    /// Largest finite magnitudes of past steps, the newest last: f32 values.
    pub amax: Vec<f64>,
}

/// Statistics of a weight's last rounding, as its format keeps them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settled {
    /// Name of the weight.
    pub layer: String,
    /// Elements rounded.
    pub elements: u64,
    /// Counters, as bits.
    pub words: Vec<u32>,
    /// Sums: f32 as bits.
    pub sums: Vec<u32>,
}

/// All of it, some of it on the device: made without reading anything.
#[derive(Debug, Clone)]
pub struct Carried {
    history: Vec<History>,
    settled: Vec<(String, Unread)>,
}

impl Quant {
    /// What the next step will need, between two steps.
    #[must_use]
    pub fn carried(&self) -> Carried {
        let history = self.sites.iter().filter_map(|site| {
            let amax = site.remembered()?.into_iter().map(f64::from).collect();
            Some(History { layer: site.layer.clone(), role: site.role.name().to_string(), amax })
        });
        let settled = self.settled.lock().unwrap_or_else(PoisonError::into_inner);
        let settled = settled.iter().map(|(id, unread)| (self.sites[*id].layer.clone(), unread.clone()));
        Carried { history: history.collect(), settled: settled.collect() }
    }

    /// Goes on from there.
    ///
    /// # Errors
    /// It is not of a run that rounds in the same places.
    pub fn restore(&self, carry: &Carry) -> Result<(), Diagnostic> {
        let misfit =
            |what: &str| Diagnostic::config(format!("the checkpoint's rounding does not fit: {what}"));
        for site in &self.sites {
            let own = |history: &&History| history.layer == site.layer && history.role == site.role.name();
            match (site.remembered(), carry.history.iter().find(own)) {
                (None, _) => {}
                (Some(_), Some(history)) => site.remember(history.amax.iter().map(|&amax| amax as f32)),
                (Some(_), None) => {
                    return Err(misfit(&format!("no scales of `{}`, {}", site.layer, site.role.name())));
                }
            }
        }
        let mut settled = self.settled.lock().unwrap_or_else(PoisonError::into_inner);
        if settled.len() != carry.settled.len() {
            return Err(misfit("other weights are rounded where their updates end"));
        }
        for ((id, unread), saved) in settled.iter_mut().zip(&carry.settled) {
            self.restore_settled(*id, unread, saved).ok_or_else(|| misfit(&format!("`{}`", saved.layer)))?;
        }
        Ok(())
    }

    /// `None` if it is another weight's, or another format's.
    fn restore_settled(&self, id: SiteId, unread: &mut Unread, saved: &Settled) -> Option<()> {
        let device = unread.words.device();
        let fits = self.sites[id].layer == saved.layer
            && unread.elements == saved.elements
            && unread.words.dims() == [saved.words.len()]
            && unread.sums.dims() == [saved.sums.len()];
        let values = |bits: &[u32]| bits.iter().copied().map(f32::from_bits).collect();
        fits.then(|| {
            unread.words = params::flat(values(&saved.words), &device);
            unread.sums = params::flat(values(&saved.sums), &device);
        })
    }
}

impl Carried {
    /// Reads what is on the device: one synchronisation.
    ///
    /// # Errors
    /// The device failed.
    pub fn read(self) -> Result<Carry, Diagnostic> {
        let mut read_back = ReadBack::default();
        let asked: Vec<_> = self
            .settled
            .into_iter()
            .map(|(layer, unread)| {
                let (words, sums) = (read_back.ask(unread.words), read_back.ask(unread.sums));
                (layer, unread.elements, words, sums)
            })
            .collect();
        let values = read_back.read()?;
        let bits = |slot| -> Result<Vec<u32>, Diagnostic> {
            Ok(values.get(slot)?.iter().map(|value| value.to_bits()).collect())
        };
        let settled = asked.into_iter().map(|(layer, elements, words, sums)| {
            Ok(Settled { layer, elements, words: bits(words)?, sums: bits(sums)? })
        });
        Ok(Carry { history: self.history, settled: settled.collect::<Result<_, Diagnostic>>()? })
    }
}

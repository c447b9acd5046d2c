//! The training loss over a window of steps: its median and noise, and the lowest median so far.

use std::collections::VecDeque;

use altgrad_base::statistics::median;
use serde::{Deserialize, Serialize};

/// Steps of a window: a tenth of the run so far, within these. The standard error of the difference of two medians of n
/// normal losses is 1.2533 sqrt(2 / n) standard deviations. One deviation is at least 4.5 errors: of ten windows, two
/// differ by more in less than one run of a thousand. Windows of a constant length would, in a long run, with
/// certainty.
const LENGTHS: [usize; 2] = [64, 1000];
/// A normal distribution's standard deviation over its median absolute deviation.
const DEVIATIONS: f64 = 1.4826;
/// Least rise that counts, as a part of the lowest median.
const LEAST_RISE: f64 = 0.02;
/// A loss below this is that of a corpus with nothing left to learn, nats per token: its changes are noise.
pub(super) const LEARNED: f64 = 0.01;

/// Losses of the last steps, in nats per token.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct LossWindow {
    last: VecDeque<f64>,
    lowest: Option<Lowest>,
}

/// The window with the lowest median.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
struct Lowest {
    step: u64,
    median: f64,
    /// The standard deviation of its losses, estimated from their median absolute deviation.
    noise: f64,
}

/// A median that lies above the lowest by more than the noise.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Rise {
    pub median: f64,
    /// Steps of the window.
    pub steps: usize,
    pub lowest: f64,
    /// The last step of the lowest window.
    pub since: u64,
}

impl LossWindow {
    /// Takes a step's loss. Returns the median of the window once it has its least length. A loss that is not finite is
    /// another alert's matter.
    pub(super) fn add(&mut self, step: u64, loss: f64) -> Option<f64> {
        if !loss.is_finite() {
            return None;
        }
        self.last.push_back(loss);
        let [least, most] = LENGTHS;
        let length = usize::try_from(step / 10).map_or(most, |steps| steps.clamp(least, most));
        self.last.drain(..self.last.len().saturating_sub(length));
        if self.last.len() < least {
            return None;
        }
        let center = median(self.last.iter().copied())?;
        if self.lowest.is_none_or(|lowest| center < lowest.median) {
            self.lowest = Some(Lowest { step, median: center, noise: noise(&self.last, center)? });
        }
        Some(center)
    }

    /// The rise of a median, if it is more than `limit` times the noise of the lowest window and of the last one, and
    /// counts as one.
    pub(super) fn rise(&self, median: f64, limit: f64) -> Option<Rise> {
        let lowest = self.lowest?;
        let noise = lowest.noise.max(noise(&self.last, median)?);
        let is_rise = median - lowest.median > limit * noise && has_risen(median, lowest.median);
        let steps = self.last.len();
        is_rise.then_some(Rise { median, steps, lowest: lowest.median, since: lowest.step })
    }

    /// True if the median has risen above the lowest one by more than the noise; `None` until there are enough losses.
    pub(super) fn has_risen(&self) -> Option<bool> {
        self.lowest?;
        Some(self.rise(median(self.last.iter().copied())?, 1.0).is_some())
    }

    /// Refuses a window that no run of `steps` steps can have: the error has the field, and its value with the reason.
    pub(super) fn check(&self, steps: u64) -> Result<(), (String, String)> {
        let [_, most] = LENGTHS;
        if self.last.len() > most {
            return Err((
                "training_loss.last".into(),
                format!("{} losses, more than {most}", self.last.len()),
            ));
        }
        let lowest = self.lowest.iter().flat_map(|lowest| [lowest.median, lowest.noise]);
        if let Some(value) = self.last.iter().copied().chain(lowest).find(|value| !value.is_finite()) {
            return Err(("training_loss".into(), format!("{value}, which is not finite")));
        }
        match self.lowest.filter(|lowest| lowest.step > steps) {
            Some(lowest) => {
                Err(("training_loss.lowest.step".into(), format!("{}, after the run", lowest.step)))
            }
            None => Ok(()),
        }
    }
}

/// True if a loss with something left to learn lies above an earlier one by more than a fiftieth of that.
pub(super) fn has_risen(loss: f64, before: f64) -> bool {
    loss >= LEARNED && loss - before > LEAST_RISE * before.abs()
}

/// The standard deviation of a window of this median, estimated from its median absolute deviation.
fn noise(losses: &VecDeque<f64>, center: f64) -> Option<f64> {
    Some(DEVIATIONS * median(losses.iter().map(|loss| (loss - center).abs()))?)
}

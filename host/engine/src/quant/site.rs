//! One place where values are rounded: a role of a linear layer, with its format, rounding and scales.

use std::{collections::VecDeque, sync::Arc};

use altgrad_config::SteChoice;
pub use altgrad_metrics::Role;
use altgrad_plugin_api::{Blocks, RandomKey, Rounding};
use parking_lot::{Mutex, MutexGuard};

use super::{DeviceFormat, FakeQuantParams, QuantStats, ScaleRule, ScaleSource};
/// A linear layer, by the index of its weight in the model's table of parameters.
pub type LayerId = usize;

/// How scales are chosen.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Scaling {
    /// Scale 1.
    None,
    /// From the values to be rounded.
    Dynamic(ScaleRule),
    /// From the largest amax of the last `window` steps; the step's own is recorded after use. The first step is
    /// dynamic.
    Delayed {
        /// How a scale follows from amax.
        rule: ScaleRule,
        /// Steps remembered.
        window: usize,
    },
    /// From this amax for good; without one, the first step's.
    Static {
        /// How the scale follows from amax.
        rule: ScaleRule,
        /// The amax, if given.
        amax: Option<f32>,
    },
    /// Of a weight without master weights: state, set from the initial values by `rule`.
    Stored {
        /// How a scale follows from amax where it is set.
        rule: ScaleRule,
        /// When it is set again.
        change: ScaleChange,
    },
}

/// When a scale that is state is set again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScaleChange {
    /// Never.
    Never,
    /// Where the values have left the range that it was set for, as a power of two.
    Hysteresis,
}

/// A place where values are rounded.
#[derive(Debug)]
pub struct Site {
    /// Name of the layer's weight: `h.0.attn.c_attn.weight`.
    pub layer: String,
    /// Which tensor of the layer.
    pub role: Role,
    /// The format.
    pub format: Arc<DeviceFormat>,
    /// The rounding mode.
    pub rounding: Rounding,
    /// How scales are chosen.
    pub scaling: Scaling,
    /// The straight-through estimator; gradients ignore it.
    pub ste: SteChoice,
    /// Largest magnitudes of past steps, the newest last.
    history: Mutex<VecDeque<f32>>,
}

impl Site {
    /// A site without a history.
    #[must_use]
    pub fn new(
        layer: &str,
        role: Role,
        format: Arc<DeviceFormat>,
        rounding: Rounding,
        scaling: Scaling,
        ste: SteChoice,
    ) -> Self {
        Self { layer: layer.to_string(), role, format, rounding, scaling, ste, history: Mutex::default() }
    }

    /// The parameters of the next rounding.
    #[must_use]
    pub fn fake_quant_params(&self, key: RandomKey) -> FakeQuantParams {
        FakeQuantParams {
            format: self.format.clone(),
            rounding: self.rounding,
            key,
            scale: self.scale(),
            ste: self.ste,
            padding_elements: 0,
            histogram: None,
        }
    }

    /// Where scales come from at this step.
    #[must_use]
    pub fn scale(&self) -> ScaleSource {
        let past = || self.history().iter().copied().reduce(f32::max);
        let (rule, amax) = match self.scaling {
            Scaling::None => return ScaleSource::ONE,
            Scaling::Dynamic(rule) | Scaling::Stored { rule, .. } => return ScaleSource::Dynamic(rule),
            Scaling::Delayed { rule, .. } => (rule, past()),
            Scaling::Static { rule, amax } => (rule, amax.or_else(past)),
        };
        amax.map_or(ScaleSource::Dynamic(rule), |amax| ScaleSource::Fixed(rule.scale(amax)))
    }

    /// Elements that share a scale, if not the whole tensor does.
    fn group(&self) -> Option<usize> {
        match self.scaling {
            Scaling::Dynamic(rule) | Scaling::Stored { rule, .. } => rule.group,
            Scaling::None | Scaling::Delayed { .. } | Scaling::Static { .. } => None,
        }
    }

    /// Columns to add to rows of `width`, so that blocks divide them.
    #[must_use]
    pub fn padding(&self, width: usize) -> usize {
        self.group().map_or(0, |group| width.next_multiple_of(group) - width)
    }

    /// Whether one scale is that of all elements.
    #[must_use]
    pub fn has_one_scale(&self) -> bool {
        self.group().is_none()
    }

    /// Which elements of a tensor with rows of `width` share a scale.
    #[must_use]
    pub fn blocks(&self, width: usize) -> Blocks {
        self.group().map_or(Blocks::WHOLE, |group| Blocks {
            columns: width as u64,
            block_rows: 1,
            block_columns: group as u64,
        })
    }

    /// Adds the largest magnitude of a training step to the history, for later scales.
    pub fn record_amax(&self, stats: &QuantStats) {
        let window = match self.scaling {
            Scaling::Delayed { window, .. } => window,
            Scaling::Static { amax: None, .. } if self.history().is_empty() => 1,
            _ => return,
        };
        let mut history = self.history();
        history.push_back(stats.stats.amax);
        let excess = history.len().saturating_sub(window);
        history.drain(..excess);
    }

    /// The largest magnitudes of past steps, the newest last; `None` if the scaling needs none.
    #[must_use]
    pub fn amax_history(&self) -> Option<Vec<f32>> {
        let needs = matches!(self.scaling, Scaling::Delayed { .. } | Scaling::Static { amax: None, .. });
        needs.then(|| self.history().iter().copied().collect())
    }

    /// Replaces the history.
    pub fn set_amax_history(&self, amax: impl Iterator<Item = f32>) {
        *self.history() = amax.collect();
    }

    fn history(&self) -> MutexGuard<'_, VecDeque<f32>> {
        self.history.lock()
    }
}

//! One place where values are rounded: a role of a linear layer, with its format, rounding and scales.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
};

pub use altgrad_metrics::Role;
use altgrad_plugin_api::{RandomKey, Rounding};

use super::{Call, DeviceFormat, ScaleRule, ScaleSource, Seen, Ste};

/// How scales are chosen.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Scaling {
    /// Scale 1.
    None,
    /// From the values at hand.
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
}

/// A place where values are rounded.
#[derive(Debug)]
pub struct Site {
    /// Name of the layer's weight: `h.0.attn.c_attn.weight`.
    pub layer: String,
    /// What of it.
    pub role: Role,
    /// The format.
    pub format: Arc<DeviceFormat>,
    /// The rounding mode.
    pub rounding: Rounding,
    /// How scales are chosen.
    pub scaling: Scaling,
    /// The gradient past the rounding; of no meaning for gradients.
    pub ste: Ste,
    /// Largest magnitudes of past steps, the newest last.
    history: Mutex<VecDeque<f32>>,
}

impl Site {
    /// A site that has seen nothing.
    #[must_use]
    pub fn new(
        layer: &str,
        role: Role,
        format: Arc<DeviceFormat>,
        rounding: Rounding,
        scaling: Scaling,
        ste: Ste,
    ) -> Self {
        Self { layer: layer.to_string(), role, format, rounding, scaling, ste, history: Mutex::default() }
    }

    /// The next call.
    #[must_use]
    pub fn call(&self, key: RandomKey) -> Call {
        Call {
            format: self.format.clone(),
            rounding: self.rounding,
            key,
            scale: self.scale(),
            ste: self.ste,
            filling: 0,
            watch: None,
        }
    }

    /// Where scales come from at this step.
    #[must_use]
    pub fn scale(&self) -> ScaleSource {
        let past = || self.history().iter().copied().reduce(f32::max);
        let (rule, amax) = match self.scaling {
            Scaling::None => return ScaleSource::ONE,
            Scaling::Dynamic(rule) => return ScaleSource::Dynamic(rule),
            Scaling::Delayed { rule, .. } => (rule, past()),
            Scaling::Static { rule, amax } => (rule, amax.or_else(past)),
        };
        amax.map_or(ScaleSource::Dynamic(rule), |amax| ScaleSource::Fixed(rule.scale(amax)))
    }

    /// Columns to add to rows of `width`, so that blocks divide them.
    #[must_use]
    pub fn padding(&self, width: usize) -> usize {
        match self.scaling {
            Scaling::Dynamic(ScaleRule { group: Some(group), .. }) => width.next_multiple_of(group) - width,
            _ => 0,
        }
    }

    /// The one scale that a call which saw `seen` used; `None` if there were several.
    #[must_use]
    pub fn used_scale(&self, seen: &Seen) -> Option<f32> {
        match self.scale() {
            ScaleSource::Fixed([scale, _]) => Some(scale),
            ScaleSource::Dynamic(rule) if rule.group.is_none() => Some(rule.scale(seen.stats.amax)[0]),
            ScaleSource::Dynamic(_) => None,
        }
    }

    /// Remembers what a training step saw, for later scales.
    pub fn record(&self, seen: &Seen) {
        let window = match self.scaling {
            Scaling::Delayed { window, .. } => window,
            Scaling::Static { amax: None, .. } if self.history().is_empty() => 1,
            _ => return,
        };
        let mut history = self.history();
        history.push_back(seen.stats.amax);
        let excess = history.len().saturating_sub(window);
        history.drain(..excess);
    }

    /// The largest magnitudes of past steps, the newest last; `None` if its scales need none.
    #[must_use]
    pub fn remembered(&self) -> Option<Vec<f32>> {
        let needs = matches!(self.scaling, Scaling::Delayed { .. } | Scaling::Static { amax: None, .. });
        needs.then(|| self.history().iter().copied().collect())
    }

    /// Goes on with these.
    pub fn remember(&self, amax: impl Iterator<Item = f32>) {
        *self.history() = amax.collect();
    }

    fn history(&self) -> std::sync::MutexGuard<'_, VecDeque<f32>> {
        self.history.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

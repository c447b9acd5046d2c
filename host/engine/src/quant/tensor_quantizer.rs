//! One place where values are rounded: a role of a linear layer, with its format, rounding and scales.

use std::{collections::VecDeque, sync::Arc};

use altgrad_casts::{Axis, Block, Hadamard, Rule};
use altgrad_config::SteChoice;
pub use altgrad_metrics::Role;
use altgrad_plugin_api::{Blocks, RandomKey, Rounding};

#[cfg(feature = "gpu")]
use super::scale_kernel;
use super::{Arithmetic, Arrangement, DeviceFormat, FakeQuantParams, QuantStats, ScaleRule, ScaleSource};
use crate::device::ComputeDevice;

/// A linear layer, by the index of its weight in the model's table of parameters.
pub type LayerId = usize;

/// The choice of scales.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Scaling {
    /// Scale 1.
    None,
    /// Computed from the values to be rounded.
    Dynamic(ScaleRule),
    /// From the largest amax of the last `window` steps; the step's own is recorded after use.
    Delayed {
        /// The derivation of the scale from amax.
        rule: ScaleRule,
        /// Steps remembered.
        window: usize,
        /// The scale of the first step and of steps after zeros.
        start: DelayedStart,
    },
    /// Computed from this amax permanently; without one, from the first step's.
    Static {
        /// The derivation of the scale from amax.
        rule: ScaleRule,
        /// The amax, if given.
        amax: Option<f32>,
    },
    /// The scale of a weight without master weights: state, set from the initial values by `rule`.
    Stored {
        /// The derivation of the scale from amax where it is set.
        rule: ScaleRule,
        /// When it is set again.
        change: ScaleChange,
    },
}

/// Delayed scaling without a usable history.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DelayedStart {
    /// True if the first step has scale 1, as in Transformer Engine. Otherwise it is dynamic.
    pub first_is_one: bool,
    /// True if the last scale is kept while all magnitudes of the window are 0, as in Transformer Engine. Otherwise it
    /// is 1.
    pub keeps_over_zeros: bool,
}

/// The source of the values of a second use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum UseSource {
    /// The tensor in high precision.
    #[default]
    HighPrecision,
    /// The values of the first use.
    Dequantized,
}

/// When a scale that is state is set again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScaleChange {
    /// Never.
    Never,
    /// The scale changes only where the values have left its range, as a power of two.
    Hysteresis,
}

/// The rounding at one site: a role of a layer.
#[derive(Debug)]
pub struct TensorQuantizer {
    /// Name of the layer's weight: `h.0.attn.c_attn.weight`.
    pub layer: String,
    /// The role of the tensor in the layer.
    pub role: Role,
    /// The format.
    pub format: Arc<DeviceFormat>,
    /// The rounding mode.
    pub rounding: Rounding,
    /// The choice of scales.
    pub scaling: Scaling,
    /// The straight-through estimator; gradients ignore it.
    pub ste: SteChoice,
    /// The elements that share a scale as the cast has them, if a cast does: blocks may be larger than a tensor.
    pub block: Option<Block>,
    /// Rows and columns of a tile that shares a scale, where blocks are no parts of rows. The scaling's groups are its
    /// elements.
    pub tile: Option<[usize; 2]>,
    /// A rotation of rows before all else.
    pub transform: Option<Hadamard>,
    /// The axis of a mean that is subtracted and rounded by itself.
    pub center: Option<Axis>,
    /// The difference of the rounding from the format's own.
    pub arithmetic: Arithmetic,
    /// The source of the values, for a second use.
    pub source: UseSource,
}

/// The past of a site.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct History {
    /// Largest magnitudes of past steps, the newest last.
    pub amax: VecDeque<f32>,
    /// The largest of the last window that was not all zero; 0 before.
    pub kept: f32,
}

impl TensorQuantizer {
    /// A site of whole tensors or consecutive groups, without a transform.
    #[must_use]
    pub fn new(
        layer: &str,
        role: Role,
        format: Arc<DeviceFormat>,
        rounding: Rounding,
        scaling: Scaling,
        ste: SteChoice,
    ) -> Self {
        Self {
            layer: layer.to_string(),
            role,
            format,
            rounding,
            scaling,
            ste,
            block: None,
            tile: None,
            transform: None,
            center: None,
            arithmetic: Arithmetic::default(),
            source: UseSource::default(),
        }
    }

    /// The parameters of the next rounding, after this history.
    #[must_use]
    pub fn fake_quant_params(&self, key: RandomKey, history: &History) -> FakeQuantParams {
        FakeQuantParams {
            format: self.format.clone(),
            rounding: self.rounding,
            key,
            scale: self.scale(history),
            site: None,
            arithmetic: self.arithmetic,
            ste: self.ste,
            padding_elements: 0,
            histogram: None,
        }
    }

    /// The source of scales after this history.
    #[must_use]
    pub fn scale(&self, history: &History) -> ScaleSource {
        let past = |window: usize| history.amax.iter().rev().take(window).copied().reduce(f32::max);
        // An amax of 0 stands for scale 1.
        let (rule, amax) = match self.scaling {
            Scaling::None => return ScaleSource::ONE,
            Scaling::Dynamic(rule) | Scaling::Stored { rule, .. } => return ScaleSource::Dynamic(rule),
            Scaling::Delayed { rule, window, start } => match past(window) {
                None if start.first_is_one => (rule, Some(0.0)),
                Some(0.0) if start.keeps_over_zeros => (rule, Some(history.kept)),
                past => (rule, past),
            },
            Scaling::Static { rule, amax } => (rule, amax.or_else(|| past(1))),
        };
        let Some(amax) = amax else { return ScaleSource::Dynamic(rule) };
        match rule.group {
            None if amax == 0.0 => ScaleSource::ONE,
            None => ScaleSource::Fixed(rule.scale(amax)),
            // Blocks lie under a scale of the tensor, which has this amax.
            Some(_) => {
                let scaling = altgrad_casts::Scaling { amax: Some(amax), ..rule.scaling };
                ScaleSource::Dynamic(ScaleRule { scaling, ..rule })
            }
        }
    }

    /// The scale of a tensor with this largest magnitude, if it has one that is not state and follows from it. The
    /// history is that before the tensor's step.
    #[must_use]
    pub fn scale_for(&self, amax: f32, history: &History) -> Option<f32> {
        let is_of_amax = !self.format.plugin().conventions.has_own_blocks();
        if !self.has_one_scale() || !is_of_amax || matches!(self.scaling, Scaling::Stored { .. }) {
            return None;
        }
        match self.scale(history) {
            ScaleSource::Fixed([scale, _]) => Some(scale),
            // The largest magnitude does not give the deviation.
            ScaleSource::Dynamic(rule)
                if matches!(rule.scaling.rule, Rule::Rms { .. }) || rule.scaling.choice.is_some() =>
            {
                None
            }
            ScaleSource::Dynamic(rule) => Some(rule.scale(amax)[0]),
        }
    }

    /// True if a device casts by itself, without main memory.
    #[must_use]
    pub fn runs_on(&self, device: &ComputeDevice) -> bool {
        #[cfg(feature = "gpu")]
        let by_kernels = match self.scale(&History::default()) {
            ScaleSource::Dynamic(rule) => scale_kernel::derivation(&rule, usize::MAX).is_some(),
            ScaleSource::Fixed(_) => true,
        };
        #[cfg(not(feature = "gpu"))]
        let by_kernels = false;
        self.format.runs_on_device(device) && (by_kernels || device.is_cpu())
    }

    /// Elements that share a scale, if not the whole tensor does.
    pub(super) fn group(&self) -> Option<usize> {
        match self.scaling {
            Scaling::Dynamic(rule)
            | Scaling::Stored { rule, .. }
            | Scaling::Delayed { rule, .. }
            | Scaling::Static { rule, .. } => rule.group,
            Scaling::None => None,
        }
    }

    /// The tiles of a matrix that share a scale.
    #[must_use]
    pub fn arrangement(&self) -> Arrangement {
        match (self.tile, self.group()) {
            (Some(tile), _) => Arrangement { tile },
            (None, Some(group)) => Arrangement::along(group),
            (None, None) => Arrangement::NONE,
        }
    }

    /// True if the rounded values are those of codes times inverses of scales, in the order of the tensor.
    #[must_use]
    pub fn has_codes(&self, shape: [usize; 2]) -> bool {
        self.arrangement().is_identity(shape)
            && self.arithmetic.is_the_formats()
            && !self.needs_matrix()
            && !self.format.decoded().is_empty()
    }

    /// True if the cast needs the whole matrix, so that only the CPU computes it, and values are not those of codes
    /// times one factor for each block.
    #[must_use]
    pub fn needs_matrix(&self) -> bool {
        let of_format = self.format.plugin().conventions.has_own_blocks();
        let of_scales = matches!(self.scale(&History::default()), ScaleSource::Dynamic(rule) if of_format || rule.scaling.needs_matrix());
        self.center.is_some() || of_scales
    }

    /// True if all elements share one scale.
    #[must_use]
    pub fn has_one_scale(&self) -> bool {
        self.group().is_none()
    }

    /// The blocks of elements that share a scale, in a tensor with rows of `width`.
    #[must_use]
    pub fn blocks(&self, width: usize) -> Blocks {
        if self.has_one_scale() {
            return Blocks::WHOLE;
        }
        let [rows, columns] = self.arrangement().tile;
        Blocks { columns: width as u64, block_rows: rows as u64, block_columns: columns as u64 }
    }

    /// The grid of a weight in words, the value of its scale left out: `E4M3 with a scale per 1x32 elements`.
    #[must_use]
    pub fn grid_name(&self) -> String {
        let scales = match self.scaling {
            Scaling::None => "without scales".to_string(),
            _ if self.has_one_scale() => "with one scale".to_string(),
            _ => {
                let [rows, columns] = self.arrangement().tile;
                format!("with a scale per {rows}x{columns} elements")
            }
        };
        format!("{} {scales}", self.format.plugin().identity.name)
    }

    /// Adds the largest magnitude of a training step to the history, for later scales.
    pub fn record_amax(&self, stats: &QuantStats, history: &mut History) {
        let window = match self.scaling {
            Scaling::Delayed { window, .. } => window,
            Scaling::Static { amax: None, .. } if history.amax.is_empty() => 1,
            _ => return,
        };
        history.amax.push_back(stats.stats.amax);
        let excess = history.amax.len().saturating_sub(window);
        history.amax.drain(..excess);
        let largest = history.amax.iter().copied().fold(0.0, f32::max);
        if largest > 0.0 {
            history.kept = largest;
        }
    }

    /// True if the scaling needs largest magnitudes of past steps.
    #[must_use]
    pub fn has_history(&self) -> bool {
        matches!(self.scaling, Scaling::Delayed { .. } | Scaling::Static { amax: None, .. })
    }
}

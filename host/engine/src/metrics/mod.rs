//! Metrics: one record a step, names with `/`, missing values absent.
//!
//! A family's names and values are made in one file: [`train`], [`gradients`], [`dead`], [`quant`], [`codes`],
//! [`updates`], [`ulps`], [`weights`], [`regret`], [`ranks`]. The [`meter`] measures those of parameters at the optimizer's step.
//! Names and definitions follow the project's numerics page.

pub mod codes;
pub mod dead;
pub mod gradients;
pub mod memory;
pub mod meter;
pub mod ops;
pub mod quant;
pub mod ranks;
pub mod regret;
pub mod ruler;
pub mod singular;
pub mod spacings;
pub mod spectrum;
pub mod train;
pub mod ulps;
pub mod updates;
pub mod weights;

use std::borrow::Cow;

use altgrad_config::MetricsSection;

use crate::{model::Layout, quant::QuantContext};

/// Whether a metric measures the run or the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Nature {
    /// Equal in equal runs, to the bit on one machine.
    Reproducible,
    /// Time, rate, memory: differs between equal runs.
    Timing,
}

/// A metric's name and nature.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MetricName {
    /// `train/loss`.
    pub name: Cow<'static, str>,
    /// What it measures.
    pub nature: Nature,
}

impl MetricName {
    /// A metric that is equal in equal runs.
    #[must_use]
    pub fn value(name: impl Into<Cow<'static, str>>) -> Self {
        Self { name: name.into(), nature: Nature::Reproducible }
    }

    /// The same, for constants.
    #[must_use]
    pub const fn constant(name: &'static str) -> Self {
        Self { name: Cow::Borrowed(name), nature: Nature::Reproducible }
    }

    /// A metric that measures this machine.
    #[must_use]
    pub const fn timing(name: &'static str) -> Self {
        Self { name: Cow::Borrowed(name), nature: Nature::Timing }
    }
}

/// The metrics of one step. What could not be computed is not in it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct MetricRecord {
    /// The step, from 0.
    pub step: u64,
    /// Values in the order they were recorded.
    pub values: Vec<(MetricName, f64)>,
    /// Distributions, on the steps that measure some.
    pub histograms: Vec<Histogram>,
}

/// A distribution, as sinks get it.
#[derive(Debug, Clone, PartialEq)]
pub struct Histogram {
    /// `weights/hist/h.0.attn.c_attn.weight`.
    pub name: String,
    /// Edges of the bins, ascending, one more than `counts`.
    pub edges: Vec<f64>,
    /// Elements a bin.
    pub counts: Vec<u64>,
}

impl MetricRecord {
    /// An empty record.
    #[must_use]
    pub fn new(step: u64) -> Self {
        Self { step, ..Self::default() }
    }

    /// Records a value.
    pub fn push(&mut self, name: MetricName, value: f64) {
        self.values.push((name, value));
    }

    /// Records a value if there is one.
    pub fn push_some(&mut self, name: MetricName, value: Option<f64>) {
        if let Some(value) = value {
            self.push(name, value);
        }
    }
}

/// What a run measures, besides loss and speed.
#[derive(Debug, Clone, Copy)]
pub struct Measured<'a> {
    /// The parameters.
    pub layout: &'a Layout,
    /// Places where values are rounded.
    pub quant: &'a QuantContext,
    /// How often what is measured.
    pub config: MetricsSection,
    /// Whether there are shadow steps.
    pub shadow: bool,
}

/// Every metric a run's rows may carry, in the order to show them.
#[must_use]
pub fn names(measured: Measured<'_>) -> Vec<MetricName> {
    let Measured { layout, quant, config, shadow } = measured;
    let gradients = if config.every > 0 { gradients::names(layout) } else { Vec::new() };
    let fidelity = if shadow { gradients::fidelity_names(layout) } else { Vec::new() };
    let codes = if config.histograms_every > 0 { codes::names(quant.sites()) } else { Vec::new() };
    let meter = meter::names(&config, layout, quant);
    let families = [fidelity, quant::names(quant.sites()), meter, gradients, codes];
    train::NAMES.into_iter().chain(families.into_iter().flatten()).chain(train::TIMINGS).collect()
}

//! The values that a step reads back from the device: one synchronisation for everything its decisions and metrics need.

use std::time::Duration;

use altgrad_base::diagnostic::Diagnostic;
use burn::tensor::Tensor;

use crate::{
    cpu_ops::attention::AttentionStats,
    curvature::Curvature,
    metrics::{
        fidelity::{self, Agreement},
        gradients::{self, Moments},
    },
    quant::{QuantContext, QuantStats, Scaling, Site, SiteHistogram, observe::SeenSite},
    read_back::ReadBack,
    state::Gradients,
};

/// The numbers of a step, on the host.
#[derive(Debug)]
pub struct Reading {
    /// Mean loss over the micro-batches, nats per token.
    pub loss: f64,
    /// Sums of each parameter's gradient, before clipping.
    pub moments: Vec<Moments>,
    /// The statistics of each site of the quantizer; `None` where it rounded nothing.
    pub seen: Vec<Option<QuantStats>>,
    /// The agreement of each parameter's gradient with its shadow, on shadow steps.
    pub agreement: Option<Vec<Agreement>>,
    /// The distribution of the values that each site rounded, on steps that collect them.
    pub distributions: Vec<SiteHistogram>,
    /// The observation of each observed site, on steps that observe; else empty.
    pub observed: Vec<Option<SeenSite>>,
    /// The curvature of the loss, on steps that measure it.
    pub curvature: Option<Curvature>,
    /// The attention of each layer, by the parameter of its queries, keys and values, on steps that measure it; else empty.
    pub attention: Vec<(usize, AttentionStats)>,
    /// The time of the passes before the training's own: those for the curvature and the observation.
    pub measuring: Duration,
}

impl Reading {
    /// Reads a step's numbers; `shadow` are the unquantized gradients, if they were computed.
    ///
    /// # Errors
    /// A format's plugin or the device failed.
    pub fn of(
        quant: &mut QuantContext,
        gradients: &mut Gradients,
        shadow: Option<&[Tensor<1>]>,
    ) -> Result<Self, Diagnostic> {
        let mut read_back = ReadBack::default();
        let losses: Vec<_> = gradients.losses.iter().map(|loss| read_back.ask(loss.clone())).collect();
        let moments = gradients::ask_moments(&gradients.grads, &mut read_back);
        let agreement =
            shadow.map(|shadow| fidelity::ask_agreement(&gradients.grads, shadow, &mut read_back));
        let attention = gradients.attention.take().map(|monitor| monitor.ask(&mut read_back));
        let seen = quant.request_stats(&mut read_back);
        let values = read_back.read();
        let seen = quant.read_stats(&seen, &values)?;
        let values = values?;
        let mut loss = 0.0;
        for slot in losses {
            loss += f64::from(values.get(slot)?[0]);
        }
        let moments = gradients::moments(&moments, &values)?;
        let agreement = agreement.map(|asked| fidelity::agreement(&asked, &values)).transpose()?;
        let attention = attention.map(|asked| asked.read(&values)).transpose()?.unwrap_or_default();
        let distributions = quant.take_histograms()?;
        Ok(Self {
            loss,
            moments,
            seen,
            agreement,
            distributions,
            observed: Vec::new(),
            curvature: None,
            attention,
            measuring: Duration::ZERO,
        })
    }

    /// True if the backward pass left the range of its numbers: a gradient is not finite, or a format without a scale saturated
    /// where arithmetic with infinities would not have.
    #[must_use]
    pub fn gradients_overflowed(&self, quant: &QuantContext) -> bool {
        let is_exposed = |site: &Site| site.role.is_gradient() && matches!(site.scaling, Scaling::None);
        let sites = quant.sites().iter().zip(&self.seen).filter(|(site, _)| is_exposed(site));
        let saturated = sites.filter_map(|(_, seen)| *seen).any(|seen| seen.stats.overflow > 0);
        saturated || !self.moments.iter().all(Moments::is_finite)
    }

    /// True if the step's loss and gradients are finite.
    #[must_use]
    pub fn is_finite(&self) -> bool {
        self.loss.is_finite() && self.moments.iter().all(Moments::is_finite)
    }
}

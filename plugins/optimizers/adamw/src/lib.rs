//! AdamW: Adam with decoupled weight decay (Loshchilov & Hutter, arXiv:1711.05101).
//!
//! Options, moments and the loop are `altgrad-optimizer-kit`'s. Clipping, accumulation and the learning-rate schedule
//! belong to the host. With error feedback (Seide et al., Interspeech 2014), the rounding error of a weight's last
//! update is added to the weight before the next one; it matters where weights are stored without a master copy.

use altgrad_optimizer_kit::{Adam, Buffers, ErrorFeedback, device};
use altgrad_plugin_api::{
    Config, Descriptor, Grid, KernelOp, KernelTarget, KernelText, Launch, Optimizer, ParamInfo, PluginError,
    Scope, StateSpec, Step, StepScalars,
};

#[cfg(test)]
mod tests;

/// The optimizer.
#[derive(Debug)]
pub struct AdamW {
    adam: Adam,
    feedback: ErrorFeedback,
}

impl Optimizer for AdamW {
    const DESCRIPTOR: Descriptor =
        Descriptor::optimizer("adamw", env!("CARGO_PKG_VERSION"), "Adam with decoupled weight decay")
            .options(&[
                Adam::BETA1,
                Adam::BETA2,
                Adam::eps(Adam::EPS),
                Adam::WEIGHT_DECAY,
                Adam::DECAY_1D,
                ErrorFeedback::OPTION,
            ]);

    fn new(config: &Config) -> Result<Self, PluginError> {
        Ok(Self { adam: Adam::new(config)?, feedback: ErrorFeedback::new(config)? })
    }

    fn states(&self, param: &ParamInfo<'_>) -> Vec<StateSpec> {
        self.feedback.states(param, Adam::states())
    }

    fn scope(&self, _: &ParamInfo<'_>) -> Scope {
        Scope::ELEMENTS
    }

    fn rule(&self, param: &ParamInfo<'_>, _: Option<Grid<'_>>) -> Result<String, PluginError> {
        Ok(self.feedback.rule(param, "AdamW"))
    }

    fn step(&self, mut step: Step<'_>) -> Result<(), PluginError> {
        let rule = self.adam.plain(&step.info, step.scalars);
        self.feedback.apply(&mut step);
        Buffers::of(step)?.update(&rule);
        Ok(())
    }

    fn kernel(&self, op: KernelOp, target: &KernelTarget) -> Result<Option<KernelText>, PluginError> {
        device::kernel(op, target)
    }

    fn launches(
        &self,
        param: &ParamInfo<'_>,
        scalars: StepScalars,
        _: Option<Grid<'_>>,
    ) -> Result<Option<Vec<Launch>>, PluginError> {
        // The kernels support two states.
        Ok((!self.feedback.is_due(param)).then(|| vec![self.adam.plain(param, scalars).launch()]))
    }
}

altgrad_plugin_api::export_plugin!(optimizer AdamW);

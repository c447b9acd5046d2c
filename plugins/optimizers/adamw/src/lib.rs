//! AdamW: Adam with decoupled weight decay (Loshchilov & Hutter, arXiv:1711.05101).
//!
//! Options, moments and the loop are `altgrad-optimizer-kit`'s. Clipping, accumulation and the learning-rate schedule
//! belong to the host. With error feedback (Seide et al., Interspeech 2014), what the rounding of a weight's last update lost is
//! added to the weight before the next one; it matters where weights are stored without a master copy.

use altgrad_optimizer_kit::{Adam, Buffers, device};
use altgrad_plugin_api::{
    Config, Descriptor, Grid, KernelOp, KernelTarget, KernelText, Launch, Optimizer, OptionSpec, ParamInfo,
    PluginError, Scope, StateSpec, Step, StepScalars,
};

#[rustfmt::skip] // Generated.
mod kernel_texts;
#[cfg(test)]
mod tests;

use kernel_texts::TEXTS;

/// The optimizer.
#[derive(Debug)]
pub struct AdamW {
    adam: Adam,
    error_feedback: bool,
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
                OptionSpec::bool("error_feedback", false).help(
                    "Without master weights: add what the last rounding lost before the next update; one more state per weight",
                ),
            ]);

    fn new(config: &Config) -> Result<Self, PluginError> {
        Ok(Self { adam: Adam::new(config)?, error_feedback: config.bool("error_feedback")? })
    }

    fn states(&self, param: &ParamInfo<'_>) -> Vec<StateSpec> {
        let mut states = Adam::states();
        if self.feeds_back(param) {
            states.push(StateSpec::rounding_residual("rounding_residual"));
        }
        states
    }

    fn scope(&self, _: &ParamInfo<'_>) -> Scope {
        Scope::ELEMENTS
    }

    fn rule(&self, param: &ParamInfo<'_>, _: Option<Grid<'_>>) -> Result<String, PluginError> {
        Ok(if self.feeds_back(param) { "AdamW with error feedback".into() } else { String::new() })
    }

    fn step(&self, mut step: Step<'_>) -> Result<(), PluginError> {
        let rule = self.adam.plain(&step.info, step.scalars);
        if self.feeds_back(&step.info)
            && let Some((residual, moments)) = std::mem::take(&mut step.states).split_last_mut()
        {
            for (w, lost) in step.param.iter_mut().zip(residual.iter()) {
                *w += lost;
            }
            step.states = moments;
        }
        Buffers::of(step)?.update(&rule);
        Ok(())
    }

    fn kernel(&self, op: KernelOp, target: &KernelTarget) -> Result<Option<KernelText>, PluginError> {
        device::kernel(TEXTS, op, target)
    }

    fn launches(
        &self,
        param: &ParamInfo<'_>,
        scalars: StepScalars,
        _: Option<Grid<'_>>,
    ) -> Result<Option<Vec<Launch>>, PluginError> {
        // The kernels know of two states.
        Ok((!self.feeds_back(param)).then(|| vec![self.adam.plain(param, scalars).launch()]))
    }
}

impl AdamW {
    fn feeds_back(&self, param: &ParamInfo<'_>) -> bool {
        self.error_feedback && param.rounded
    }
}

altgrad_plugin_api::export_plugin!(optimizer AdamW);

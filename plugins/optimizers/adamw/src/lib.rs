//! AdamW: Adam with decoupled weight decay (Loshchilov & Hutter, arXiv:1711.05101).
//!
//! Options, moments and the loop are `altgrad-optimizer-kit`'s. Clipping, accumulation and the learning-rate schedule
//! belong to the host.

use altgrad_optimizer_kit::{Adam, Buffers, device};
use altgrad_plugin_api::{
    Config, Descriptor, Grid, KernelOp, KernelTarget, KernelText, Launch, Optimizer, ParamInfo, PluginError,
    Scope, StateSpec, Step, StepScalars,
};

#[rustfmt::skip] // Generated.
mod kernel_texts;
#[cfg(test)]
mod tests;

use kernel_texts::TEXTS;

/// The optimizer.
#[derive(Debug)]
pub struct AdamW(Adam);

impl Optimizer for AdamW {
    fn descriptor() -> Descriptor {
        let plugin =
            Descriptor::optimizer("adamw", env!("CARGO_PKG_VERSION"), "Adam with decoupled weight decay");
        Adam::options(plugin, 1e-8)
    }

    fn new(config: &Config) -> Result<Self, PluginError> {
        Adam::new(config).map(Self)
    }

    fn states(&self, _: &ParamInfo<'_>) -> Vec<StateSpec> {
        Adam::states()
    }

    fn scope(&self, _: &ParamInfo<'_>) -> Scope {
        Scope::ELEMENTS
    }

    fn step(&self, step: Step<'_>) -> Result<(), PluginError> {
        let rule = self.0.plain(&step.info, step.scalars);
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
        Ok(Some(vec![self.0.plain(param, scalars).launch()]))
    }
}

altgrad_plugin_api::export_plugin!(optimizer AdamW);

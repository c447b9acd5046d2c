//! A C optimizer with the interface of all optimizers. It has no services, no kernels, and states of the parameter's
//! shape only.

use crate::ffi::c_plugins::{CInstance, COptimizer};
use altgrad_plugin_api::{
    Grid, KernelOp, KernelTarget, KernelText, Launch, ParamInfo, PluginError, Scope, StateSpec, StepScalars,
    abi::{
        OptimizerAbi, ServiceCall, StepCall,
        stable::std_types::{ROption, RResult, RString, RVec},
    },
};

/// An instance.
pub(super) struct Instance {
    pub(super) optimizer: COptimizer,
    pub(super) instance: CInstance,
}

impl OptimizerAbi for Instance {
    fn states(&self, _: &ParamInfo<'_>) -> RResult<RVec<StateSpec>, PluginError> {
        RResult::ROk(self.optimizer.states.iter().map(|name| StateSpec::zeros(name)).collect())
    }

    fn shared_states(&self) -> RResult<RVec<StateSpec>, PluginError> {
        RResult::ROk(RVec::new())
    }

    fn evaluations(&self) -> RResult<u32, PluginError> {
        RResult::ROk(1)
    }

    fn scope(&self, _: &ParamInfo<'_>) -> RResult<Scope, PluginError> {
        RResult::ROk(if self.optimizer.elementwise { Scope::ELEMENTS } else { Scope::WHOLE })
    }

    fn rule(&self, _: &ParamInfo<'_>, _: ROption<Grid<'_>>) -> RResult<RString, PluginError> {
        RResult::ROk(RString::new())
    }

    fn step(&self, mut call: StepCall<'_>) -> RResult<(), PluginError> {
        let mut step = || {
            let (param, grad) = (call.param.as_mut_slice::<f32>()?, call.grad.as_slice::<f32>()?);
            let states = call.states.as_mut_slice().iter_mut().map(|state| state.as_mut_slice::<f32>());
            let mut states = states.collect::<Result<Vec<_>, _>>()?;
            self.optimizer.step(&self.instance, &call.info, (param, grad), &mut states, &call.scalars)
        };
        step().into()
    }

    fn step_with_services(&self, _: ServiceCall<'_>) -> RResult<(), PluginError> {
        RResult::RErr(PluginError::unsupported("an optimizer in C has no services"))
    }

    fn launches(
        &self,
        _: &ParamInfo<'_>,
        _: StepScalars,
        _: ROption<Grid<'_>>,
    ) -> RResult<ROption<RVec<Launch>>, PluginError> {
        RResult::ROk(ROption::RNone)
    }

    fn kernel(&self, _: KernelOp, _: &KernelTarget) -> RResult<ROption<KernelText>, PluginError> {
        RResult::ROk(ROption::RNone)
    }
}

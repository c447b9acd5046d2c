//! The object interfaces: one a plugin kind, as narrow as the calls need.
//!
//! Methods mirror [`Format`](crate::Format), [`Optimizer`](crate::Optimizer) and [`Sink`](crate::Sink); contracts stand
//! there. Threads and errors are theirs; views are borrowed for the call.

// The interfaces' documentation is the traits' they mirror; abi_stable generates undocumented items.
#![allow(missing_docs, non_camel_case_types, missing_debug_implementations)]

use abi_stable::{
    StableAbi, sabi_trait,
    std_types::{RBox, ROption, RResult, RSlice, RSliceMut, RVec},
};

use crate::{
    Alert, FormatSpec, Histogram, KernelOp, KernelTarget, KernelText, Launch, Metric, ParamInfo, PluginError,
    QuantParams, QuantStats, RunInfo, RunOutcome, StateSpec, StepScalars, TensorView, TensorViewMut,
};

/// One parameter's update as it crosses.
#[repr(C)]
#[derive(StableAbi, Debug)]
pub struct StepCall<'a> {
    /// Which parameter.
    pub info: ParamInfo<'a>,
    /// `[n]` f32, updated in place.
    pub param: TensorViewMut<'a>,
    /// `[n]` f32.
    pub grad: TensorView<'a>,
    /// `[n]` each, in the order of `states()`, updated in place.
    pub states: RSliceMut<'a, TensorViewMut<'a>>,
    /// Learning rate and update count.
    pub scalars: StepScalars,
    /// The parameter's grid, if it is quantized.
    pub grid: ROption<&'a FormatSpec>,
    /// stored = grid_scale * value; 1 without a grid.
    pub grid_scale: f32,
}

#[sabi_trait]
pub trait FormatAbi: Send + Sync {
    fn spec(&self) -> RResult<FormatSpec, PluginError>;
    fn fake_quant(
        &self,
        src: TensorView<'_>,
        dst: TensorViewMut<'_>,
        params: &QuantParams,
        histogram: RSliceMut<'_, u64>,
    ) -> RResult<QuantStats, PluginError>;
    fn encode(
        &self,
        src: TensorView<'_>,
        dst: TensorViewMut<'_>,
        params: &QuantParams,
    ) -> RResult<(), PluginError>;
    fn decode(&self, codes: TensorView<'_>, dst: TensorViewMut<'_>) -> RResult<(), PluginError>;
    #[sabi(last_prefix_field)]
    fn kernel(&self, op: KernelOp, target: &KernelTarget) -> RResult<ROption<KernelText>, PluginError>;
}

#[sabi_trait]
pub trait OptimizerAbi: Send + Sync {
    fn states(&self, param: &ParamInfo<'_>) -> RResult<RVec<StateSpec>, PluginError>;
    fn step(&self, call: StepCall<'_>) -> RResult<(), PluginError>;
    #[sabi(last_prefix_field)]
    fn kernel(&self, op: KernelOp, target: &KernelTarget) -> RResult<ROption<KernelText>, PluginError>;
    /// None in libraries built before there was this method.
    fn launches(
        &self,
        param: &ParamInfo<'_>,
        scalars: StepScalars,
        grid: ROption<&FormatSpec>,
        grid_scale: f32,
    ) -> RResult<ROption<RVec<Launch>>, PluginError> {
        let _ = (param, scalars, grid, grid_scale);
        RResult::ROk(ROption::RNone)
    }
}

#[sabi_trait]
pub trait SinkAbi: Send {
    fn open(&mut self, run: &RunInfo<'_>) -> RResult<(), PluginError>;
    fn log(&mut self, step: u64, metrics: RSlice<'_, Metric<'_>>) -> RResult<(), PluginError>;
    fn histogram(&mut self, step: u64, histogram: &Histogram<'_>) -> RResult<(), PluginError>;
    fn alert(&mut self, alert: &Alert<'_>) -> RResult<(), PluginError>;
    fn summary(&mut self, metrics: RSlice<'_, Metric<'_>>) -> RResult<(), PluginError>;
    #[sabi(last_prefix_field)]
    fn finish(&mut self, outcome: RunOutcome) -> RResult<(), PluginError>;
}

/// An instance of a format, owned by the host.
pub type FormatObject = FormatAbi_TO<'static, RBox<()>>;
/// An instance of an optimizer, owned by the host.
pub type OptimizerObject = OptimizerAbi_TO<'static, RBox<()>>;
/// An instance of a sink, owned by the host.
pub type SinkObject = SinkAbi_TO<'static, RBox<()>>;

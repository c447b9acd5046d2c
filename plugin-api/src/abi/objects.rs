//! The object interfaces: one per plugin kind, and one for the host's services to optimizers.
//!
//! Methods mirror [`Format`](crate::Format), [`Optimizer`](crate::Optimizer) and [`Sink`](crate::Sink), whose
//! contracts, threads and errors apply; views are borrowed for the call.

// The mirrored traits document the interfaces; abi_stable generates undocumented items.
#![allow(missing_docs, non_camel_case_types, missing_debug_implementations)]

use crate::stable::{
    StableAbi, sabi_trait,
    std_types::{RBox, ROption, RResult, RSlice, RSliceMut, RStr, RString, RVec},
};

use crate::{
    Alert, Axes, Conventions, FactorOp, FormatSpec, Grid, Histogram, KernelOp, KernelTarget, KernelText,
    Launch, MapOp, Metric, ParamInfo, PluginError, QuantParams, QuantStats, ReduceOp, RunInfo, RunOutcome,
    Scales, Scope, StateSpec, StepScalars, StoredValue, TensorView, TensorViewMut, ZipOp,
};

/// One parameter's update as it crosses.
#[repr(C)]
#[derive(StableAbi, Debug)]
pub struct StepCall<'a> {
    /// The parameter.
    pub info: ParamInfo<'a>,
    /// `[n]` f32, updated in place.
    pub param: TensorViewMut<'a>,
    /// `[n]` f32.
    pub grad: TensorView<'a>,
    /// In the order of `states()`, updated in place.
    pub states: RSliceMut<'a, TensorViewMut<'a>>,
    /// Learning rate, update count, random key.
    pub scalars: StepScalars,
    /// The parameter's grid, if it is quantized.
    pub grid: ROption<Grid<'a>>,
}

/// One parameter of an update by services as it crosses: handles of matrices.
#[repr(C)]
#[derive(StableAbi, Debug, Clone, Copy)]
pub struct ServedParam<'a> {
    /// The parameter.
    pub info: ParamInfo<'a>,
    /// The parameter's handle.
    pub param: u64,
    /// The gradient's.
    pub grad: u64,
    /// The states', in the order of `states()`.
    pub states: RSlice<'a, u64>,
    /// Learning rate, update count, random key.
    pub scalars: StepScalars,
    /// The parameter's grid, if it is quantized.
    pub grid: ROption<Grid<'a>>,
}

/// An update by services as it crosses.
#[repr(C)]
#[derive(StableAbi)]
pub struct ServiceCall<'a> {
    /// The host's compute services, to which all handles belong.
    pub services: &'a ServicesObject,
    /// The parameters: one, or all of a group.
    pub params: RSlice<'a, ServedParam<'a>>,
    /// Handles of the states of the whole optimizer, in the order of `shared_states()`; none for one parameter.
    pub shared: RSlice<'a, u64>,
    /// The number of the gradient evaluation before this call, from 1.
    pub evaluation: u32,
}

#[sabi_trait]
pub trait FormatAbi: Send + Sync {
    fn spec(&self) -> RResult<FormatSpec, PluginError>;
    fn conventions(&self) -> RResult<Conventions, PluginError>;
    fn fake_quant(
        &self,
        src: TensorView<'_>,
        dst: TensorViewMut<'_>,
        params: &QuantParams<'_>,
        histogram: RSliceMut<'_, u64>,
    ) -> RResult<QuantStats, PluginError>;
    fn encode(
        &self,
        src: TensorView<'_>,
        dst: TensorViewMut<'_>,
        params: &QuantParams<'_>,
    ) -> RResult<(), PluginError>;
    fn decode(
        &self,
        codes: TensorView<'_>,
        dst: TensorViewMut<'_>,
        scales: &Scales<'_>,
    ) -> RResult<(), PluginError>;
    fn magnitude(&self, block: TensorView<'_>) -> RResult<f32, PluginError>;
    #[sabi(last_prefix_field)]
    fn kernel(&self, op: KernelOp, target: &KernelTarget) -> RResult<ROption<KernelText>, PluginError>;
}

#[sabi_trait]
pub trait OptimizerAbi: Send + Sync {
    fn states(&self, param: &ParamInfo<'_>) -> RResult<RVec<StateSpec>, PluginError>;
    fn shared_states(&self) -> RResult<RVec<StateSpec>, PluginError>;
    fn evaluations(&self) -> RResult<u32, PluginError>;
    fn scope(&self, param: &ParamInfo<'_>) -> RResult<Scope, PluginError>;
    fn rule(&self, param: &ParamInfo<'_>, grid: ROption<Grid<'_>>) -> RResult<RString, PluginError>;
    fn step(&self, call: StepCall<'_>) -> RResult<(), PluginError>;
    fn step_with_services(&self, call: ServiceCall<'_>) -> RResult<(), PluginError>;
    fn launches(
        &self,
        param: &ParamInfo<'_>,
        scalars: StepScalars,
        grid: ROption<Grid<'_>>,
    ) -> RResult<ROption<RVec<Launch>>, PluginError>;
    #[sabi(last_prefix_field)]
    fn kernel(&self, op: KernelOp, target: &KernelTarget) -> RResult<ROption<KernelText>, PluginError>;
}

/// Operations on tensors, which are handles, `[rows, columns]` f32 each. No handle is reused. An unknown or freed
/// handle, or one of another call, is an error. The host frees the remaining tensors at the end of the call.
#[sabi_trait]
pub trait ServicesAbi: Send + Sync {
    fn shape(&self, x: u64) -> RResult<[u64; 2], PluginError>;
    fn full(&self, rows: u64, columns: u64, value: f32) -> RResult<u64, PluginError>;
    fn matmul(&self, a: u64, a_transposed: bool, b: u64, b_transposed: bool) -> RResult<u64, PluginError>;
    fn map(&self, op: MapOp, x: u64) -> RResult<u64, PluginError>;
    fn affine(&self, x: u64, factor: f32, term: f32) -> RResult<u64, PluginError>;
    fn zip(&self, op: ZipOp, x: u64, y: u64) -> RResult<u64, PluginError>;
    fn blend(&self, x: u64, a: f32, y: u64, b: f32) -> RResult<u64, PluginError>;
    fn select(&self, mask: u64, x: u64, y: u64) -> RResult<u64, PluginError>;
    fn gather(&self, x: u64, columns: u64) -> RResult<u64, PluginError>;
    fn argsort(&self, x: u64) -> RResult<u64, PluginError>;
    fn factor(&self, op: FactorOp, x: u64) -> RResult<RVec<u64>, PluginError>;
    fn reduce(&self, op: ReduceOp, axes: Axes, x: u64) -> RResult<u64, PluginError>;
    fn transpose(&self, x: u64) -> RResult<u64, PluginError>;
    fn reshape(&self, x: u64, rows: u64, columns: u64) -> RResult<u64, PluginError>;
    fn assign(&self, target: u64, from: u64) -> RResult<(), PluginError>;
    fn read(&self, x: u64) -> RResult<f32, PluginError>;
    #[sabi(last_prefix_field)]
    fn free(&self, x: u64) -> RResult<(), PluginError>;
}

#[sabi_trait]
pub trait SinkAbi: Send {
    fn open(&mut self, run: &RunInfo<'_>) -> RResult<(), PluginError>;
    fn log(&mut self, step: u64, metrics: RSlice<'_, Metric<'_>>) -> RResult<(), PluginError>;
    fn histogram(&mut self, step: u64, histogram: &Histogram<'_>) -> RResult<(), PluginError>;
    fn alert(&mut self, alert: &Alert<'_>) -> RResult<(), PluginError>;
    fn state(&mut self) -> RResult<RVec<u8>, PluginError>;
    fn summary(&mut self, metrics: RSlice<'_, Metric<'_>>) -> RResult<(), PluginError>;
    fn finish(&mut self, outcome: RunOutcome) -> RResult<(), PluginError>;
    #[sabi(last_prefix_field)]
    fn read_back(&self, folder: RStr<'_>) -> RResult<ROption<RVec<StoredValue>>, PluginError>;
}

/// An instance of a format, owned by the host.
pub type FormatObject = FormatAbi_TO<'static, RBox<()>>;
/// An instance of an optimizer, owned by the host.
pub type OptimizerObject = OptimizerAbi_TO<'static, RBox<()>>;
/// The services of one update, owned by the host.
pub type ServicesObject = ServicesAbi_TO<'static, RBox<()>>;
/// An instance of a sink, owned by the host.
pub type SinkObject = SinkAbi_TO<'static, RBox<()>>;

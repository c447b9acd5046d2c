//! Adapters from the objects that cross the boundary to the traits that authors implement.
//!
//! Each kind has one adapter. It converts views to slices, checks lengths before the plugin receives them, and guards
//! the call.

use std::path::Path;

use crate::stable::{
    erased_types::TD_Opaque,
    std_types::{ROption, RResult, RSlice, RSliceMut, RStr, RString, RVec},
};

use crate::abi::{
    FormatAbi, FormatAbi_TO, FormatObject, OptimizerAbi, OptimizerAbi_TO, OptimizerObject, ServiceCall,
    SinkAbi, SinkAbi_TO, SinkObject, StepCall,
};
use crate::guard::{Guarded, catch};
use crate::{
    Alert, Config, Conventions, Format, FormatSpec, Grid, Histogram, KernelOp, KernelTarget, KernelText,
    Launch, Metric, Optimizer, ParamInfo, PluginError, QuantParams, QuantStats, RunInfo, RunOutcome, Scales,
    Scope, ServiceStep, Sink, StateSpec, Step, StepScalars, StoredValue, TensorView, TensorViewMut,
};

/// Makes a guarded format instance.
///
/// # Errors
/// Errors of [`Format::new`], and its panics.
pub fn format_object<T: Format>(config: &Config) -> Result<FormatObject, PluginError> {
    let inner = catch("new", || T::new(config))?;
    Ok(FormatAbi_TO::from_value(Guarded::new(inner), TD_Opaque))
}

/// Makes a guarded optimizer instance.
///
/// # Errors
/// Errors of [`Optimizer::new`], and its panics.
pub fn optimizer_object<T: Optimizer>(config: &Config) -> Result<OptimizerObject, PluginError> {
    let inner = catch("new", || T::new(config))?;
    Ok(OptimizerAbi_TO::from_value(Guarded::new(inner), TD_Opaque))
}

/// Makes a guarded sink instance.
///
/// # Errors
/// Errors of [`Sink::new`], and its panics.
pub fn sink_object<T: Sink>(config: &Config) -> Result<SinkObject, PluginError> {
    let inner = catch("new", || T::new(config))?;
    Ok(SinkAbi_TO::from_value(Guarded::new(inner), TD_Opaque))
}

/// Runs a function of the root module under a guard. `what` names it for messages.
pub(crate) fn guarded<R>(
    what: &str,
    body: impl FnOnce() -> Result<R, PluginError>,
) -> RResult<R, PluginError> {
    catch(what, body).into()
}

fn same_len(what: &str, left: usize, right: usize) -> Result<(), PluginError> {
    if left == right {
        return Ok(());
    }
    Err(PluginError::shape(format!("{what}: {left} elements in, {right} out")))
}

/// Refuses states of other lengths than the optimizer declares.
fn check_states<T: Optimizer>(
    optimizer: &T,
    info: &ParamInfo<'_>,
    elements: usize,
    states: &[&mut [f32]],
) -> Result<(), PluginError> {
    if states.iter().all(|state| state.len() == elements) {
        return Ok(());
    }
    // Some have a shape of their own, which parts of a parameter do not.
    let specs = optimizer.states(info);
    same_len("step", states.len(), specs.len())?;
    states.iter().zip(&specs).try_for_each(|(state, spec)| {
        let due = match &spec.shape {
            ROption::RNone => Some(elements as u64),
            ROption::RSome(_) => spec.elements(&info.shape),
        };
        same_len("step", state.len(), due.unwrap_or(u64::MAX) as usize)
    })
}

impl<T: Format> FormatAbi for Guarded<T> {
    fn spec(&self) -> RResult<FormatSpec, PluginError> {
        self.call("spec", |format| Ok(format.spec())).into()
    }

    fn conventions(&self) -> RResult<Conventions, PluginError> {
        self.call("conventions", |format| Ok(format.conventions())).into()
    }

    fn fake_quant(
        &self,
        src: TensorView<'_>,
        mut dst: TensorViewMut<'_>,
        params: &QuantParams<'_>,
        mut histogram: RSliceMut<'_, u64>,
    ) -> RResult<QuantStats, PluginError> {
        self.call("fake_quant", |format| {
            let (src, dst) = (src.as_slice::<f32>()?, dst.as_mut_slice::<f32>()?);
            same_len("fake_quant", src.len(), dst.len())?;
            params.scales.check(src.len())?;
            format.fake_quant(src, dst, params, histogram.as_mut_slice())
        })
        .into()
    }

    fn encode(
        &self,
        src: TensorView<'_>,
        mut dst: TensorViewMut<'_>,
        params: &QuantParams<'_>,
    ) -> RResult<(), PluginError> {
        self.call("encode", |format| {
            let (src, dst) = (src.as_slice::<f32>()?, dst.as_mut_slice::<u16>()?);
            same_len("encode", src.len(), dst.len())?;
            params.scales.check(src.len())?;
            format.encode(src, dst, params)
        })
        .into()
    }

    fn decode(
        &self,
        codes: TensorView<'_>,
        mut dst: TensorViewMut<'_>,
        scales: &Scales<'_>,
    ) -> RResult<(), PluginError> {
        self.call("decode", |format| {
            let (codes, dst) = (codes.as_slice::<u16>()?, dst.as_mut_slice::<f32>()?);
            same_len("decode", codes.len(), dst.len())?;
            scales.check(codes.len())?;
            format.decode(codes, dst, scales)
        })
        .into()
    }

    fn magnitude(&self, block: TensorView<'_>) -> RResult<f32, PluginError> {
        self.call("magnitude", |format| format.magnitude(block.as_slice::<f32>()?)).into()
    }

    fn kernel(&self, op: KernelOp, target: &KernelTarget) -> RResult<ROption<KernelText>, PluginError> {
        self.call("kernel", |format| Ok(format.kernel(op, target)?.into())).into()
    }
}

impl<T: Optimizer> OptimizerAbi for Guarded<T> {
    fn states(&self, param: &ParamInfo<'_>) -> RResult<RVec<StateSpec>, PluginError> {
        self.call("states", |optimizer| Ok(optimizer.states(param).into())).into()
    }

    fn shared_states(&self) -> RResult<RVec<StateSpec>, PluginError> {
        self.call("shared_states", |optimizer| Ok(optimizer.shared_states().into())).into()
    }

    fn evaluations(&self) -> RResult<u32, PluginError> {
        self.call("evaluations", |optimizer| Ok(optimizer.evaluations())).into()
    }

    fn step(&self, mut call: StepCall<'_>) -> RResult<(), PluginError> {
        self.call("step", |optimizer| {
            let (param, grad) = (call.param.as_mut_slice::<f32>()?, call.grad.as_slice::<f32>()?);
            same_len("step", grad.len(), param.len())?;
            let mut states = Vec::with_capacity(call.states.len());
            for state in call.states.as_mut_slice() {
                states.push(state.as_mut_slice::<f32>()?);
            }
            check_states(optimizer, &call.info, param.len(), &states)?;
            let (info, scalars, grid) = (call.info, call.scalars, call.grid.into_option());
            if let Some(grid) = &grid {
                grid.scales.check(param.len())?;
            }
            optimizer.step(Step { info, param, grad, states: &mut states, scalars, grid })
        })
        .into()
    }

    fn kernel(&self, op: KernelOp, target: &KernelTarget) -> RResult<ROption<KernelText>, PluginError> {
        self.call("kernel", |optimizer| Ok(optimizer.kernel(op, target)?.into())).into()
    }

    fn scope(&self, param: &ParamInfo<'_>) -> RResult<Scope, PluginError> {
        self.call("scope", |optimizer| Ok(optimizer.scope(param))).into()
    }

    fn rule(&self, param: &ParamInfo<'_>, grid: ROption<Grid<'_>>) -> RResult<RString, PluginError> {
        self.call("rule", |optimizer| Ok(optimizer.rule(param, grid.into_option())?.into())).into()
    }

    fn step_with_services(&self, call: ServiceCall<'_>) -> RResult<(), PluginError> {
        self.call("step_with_services", |optimizer| {
            optimizer.step_with_services(ServiceStep::of_call(&call)?)
        })
        .into()
    }

    fn launches(
        &self,
        param: &ParamInfo<'_>,
        scalars: StepScalars,
        grid: ROption<Grid<'_>>,
    ) -> RResult<ROption<RVec<Launch>>, PluginError> {
        self.call("launches", |optimizer| {
            let grid = grid.into_option();
            if let Some(grid) = &grid {
                grid.scales.check(param.shape.iter().product::<u64>() as usize)?;
            }
            Ok(optimizer.launches(param, scalars, grid)?.map(RVec::from).into())
        })
        .into()
    }
}

impl<T: Sink> SinkAbi for Guarded<T> {
    fn open(&mut self, run: &RunInfo<'_>) -> RResult<(), PluginError> {
        self.call_mut("open", |sink| sink.open(run)).into()
    }

    fn log(&mut self, step: u64, metrics: RSlice<'_, Metric<'_>>) -> RResult<(), PluginError> {
        self.call_mut("log", |sink| sink.log(step, metrics.as_slice())).into()
    }

    fn histogram(&mut self, step: u64, histogram: &Histogram<'_>) -> RResult<(), PluginError> {
        self.call_mut("histogram", |sink| sink.histogram(step, histogram)).into()
    }

    fn alert(&mut self, alert: &Alert<'_>) -> RResult<(), PluginError> {
        self.call_mut("alert", |sink| sink.alert(alert)).into()
    }

    fn state(&mut self) -> RResult<RVec<u8>, PluginError> {
        self.call_mut("state", |sink| Ok(sink.state()?.into())).into()
    }

    fn summary(&mut self, metrics: RSlice<'_, Metric<'_>>) -> RResult<(), PluginError> {
        self.call_mut("summary", |sink| sink.summary(metrics.as_slice())).into()
    }

    fn finish(&mut self, outcome: RunOutcome) -> RResult<(), PluginError> {
        self.call_mut("finish", |sink| sink.finish(outcome)).into()
    }

    fn read_back(&self, folder: RStr<'_>) -> RResult<ROption<RVec<StoredValue>>, PluginError> {
        let read = |sink: &T| Ok(sink.read_back(Path::new(folder.as_str()))?.map(RVec::from).into());
        self.call("read_back", read).into()
    }
}

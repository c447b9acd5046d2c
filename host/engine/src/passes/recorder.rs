//! Passes that a GPU records once and replays: one call to the driver instead of one for each kernel (CUDA graphs).
//!
//! A replay computes what the recorded launches computed, with the values that are then in the memory they read.
//! Inputs are copied there before ([`super::recording_inputs`]), the step of random keys, the micro-batch of dropout
//! masks and scales of earlier steps among them ([`host_words`]). Whatever else the host passes to a kernel stays as
//! it was recorded. Passes with such values are not recorded ([`QuantPlan::varies_by`]), and the first replay is
//! compared bit for bit with passes of the same step that launch their kernels one by one.

use std::{env, sync::Arc};

use altgrad_base::diagnostic::Diagnostic;
use altgrad_data::Batch;
use burn::backend::{Backend, BackendTypes, Dispatch, DispatchDevice};
use burn::tensor::Tensor;
use parking_lot::Mutex;

use super::{Gradients, Observers, recording_inputs::RecordingInputs};
use crate::{
    device::ComputeDevice,
    device_faults,
    fused_ops::attention::AttentionMonitor,
    host_words,
    model::{ModelBatch, Params},
    quant::{QuantPlan, Quantizer},
    tensor::read_f32,
    zero_words,
};

/// The variable of the environment that asks for recordings.
const VARIABLE: &str = "ALTGRAD_GRAPHS";
/// Passes before the recording: the first ones plan and compile, and all memory must be allocated before it.
const WARM_UPS: usize = 3;

/// The graph of launches, as burn's backends hold it.
type LaunchGraph = <Dispatch as BackendTypes>::GraphPrimitive;

/// Records and replays the passes of a run.
#[derive(Debug, Default)]
pub struct Recorder(Mutex<State>);

#[derive(Debug, Default)]
enum State {
    /// Nothing is recorded.
    #[default]
    Off,
    /// The last passes were of this kind.
    Waiting(Option<PassKind>),
    Recorded(Box<Recording>),
}

/// What passes have in common that launch the same kernels.
#[derive(Debug, Clone)]
struct PassKind {
    plan: Arc<QuantPlan>,
    loss_scale: Option<f32>,
    attention: bool,
    shapes: Vec<[usize; 2]>,
    /// Whether each site's scale is one of earlier steps: in the first step there is none.
    fixed: Vec<bool>,
}

impl PartialEq for PassKind {
    fn eq(&self, other: &Self) -> bool {
        let bits = |scale: Option<f32>| scale.map(f32::to_bits);
        Arc::ptr_eq(&self.plan, &other.plan)
            && (bits(self.loss_scale), self.attention) == (bits(other.loss_scale), other.attention)
            && (&self.shapes, &self.fixed) == (&other.shapes, &other.fixed)
    }
}

/// The inputs of some passes.
#[derive(Debug, Clone, Copy)]
pub(super) struct PassInputs<'a> {
    pub(super) params: &'a Params,
    pub(super) quant: &'a Quantizer,
    pub(super) loss_scale: Option<f32>,
    pub(super) batches: &'a [Batch],
    pub(super) first_micro_batch: u64,
    pub(super) observers: Observers<'a>,
}

/// Passes that launch their kernels one by one, at these parameters and batches.
pub(super) type Launch<'a> = dyn Fn(&Params, Vec<ModelBatch>) -> Result<Gradients, Diagnostic> + 'a;

/// Recorded passes.
struct Recording {
    kind: PassKind,
    graph: LaunchGraph,
    inputs: RecordingInputs,
    /// In the memory that a replay writes.
    gradients: Gradients,
    /// True once a replay had the bits of launched passes.
    is_compared: bool,
}

impl std::fmt::Debug for Recording {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Recording").field("kind", &self.kind).finish_non_exhaustive()
    }
}

impl Recorder {
    /// A recorder for passes on a device, if the process asks for one.
    #[must_use]
    pub fn for_device(device: &ComputeDevice, plan: &QuantPlan) -> Self {
        let Some(asked) = env::var_os(VARIABLE) else { return Self::default() };
        let on_device = plan.sites().iter().all(|site| site.runs_on(device));
        let obstacle = match device.tensors.as_dispatch() {
            _ if asked != "on" => Some("its only value is on"),
            DispatchDevice::Cube(_) if !on_device => Some("casts in main memory"),
            DispatchDevice::Cube(_) => plan.varies_by(),
            #[allow(unreachable_patterns)]
            _ => Some("the device launches no kernels"),
        };
        if let Some(why) = obstacle {
            tracing::warn!("{VARIABLE}={} has no effect: {why}", asked.display());
            return Self::default();
        }
        Self(Mutex::new(State::Waiting(None)))
    }

    /// True if passes may be recorded.
    pub(super) fn is_on(&self) -> bool {
        !matches!(*self.0.lock(), State::Off)
    }

    /// True if the last passes were replayed.
    #[must_use]
    pub fn replays(&self) -> bool {
        matches!(&*self.0.lock(), State::Recorded(recording) if recording.is_compared)
    }

    /// The gradients of passes: replayed if the same kind was recorded, and recorded for later if the last passes were
    /// of the same kind.
    pub(super) fn gradients(
        &self,
        inputs: PassInputs<'_>,
        launch: &Launch<'_>,
    ) -> Result<Gradients, Diagnostic> {
        let mut state = self.0.lock();
        let launched =
            || launch(inputs.params, inputs.batches.iter().cloned().map(ModelBatch::from).collect());
        let Some(kind) = PassKind::of(&inputs) else { return launched() };
        match &mut *state {
            State::Recorded(recording) if recording.kind == kind => {
                let replayed = recording.replay(&inputs)?;
                if recording.is_compared {
                    return Ok(replayed);
                }
                let expected = launched()?;
                recording.is_compared = replayed.has_bits_of(&expected)?;
                if recording.is_compared {
                    tracing::info!("forward and backward passes are replayed from here on");
                } else {
                    tracing::warn!("{VARIABLE}=on has no effect: a replay differs from launched passes");
                    *state = State::Off;
                }
                Ok(expected)
            }
            // Steps that measure attention are between others of the same kind.
            State::Recorded(recording) if recording.kind.attention != kind.attention => launched(),
            State::Waiting(Some(last)) if *last == kind => {
                *state = match Recording::new(kind, &inputs, launch)? {
                    Ok(recording) => State::Recorded(Box::new(recording)),
                    Err(why) => {
                        tracing::warn!("{VARIABLE}=on has no effect: {why}");
                        State::Off
                    }
                };
                launched()
            }
            State::Off => launched(),
            State::Waiting(_) | State::Recorded(_) => {
                *state = State::Waiting(Some(kind));
                launched()
            }
        }
    }
}

impl PassInputs<'_> {
    /// The values that casts take from the host in this step.
    fn words(&self) -> Vec<f32> {
        let step = [self.quant.state.step, self.first_micro_batch];
        host_words::words(step, self.quant.scales_of_history())
    }
}

impl PassKind {
    /// `None` for passes that are never recorded: those whose tensors are recorded or observed by the host.
    fn of(inputs: &PassInputs<'_>) -> Option<Self> {
        let Observers { trace, attention, casts } = inputs.observers;
        if trace.is_some() || casts.observed.is_some() || !casts.histograms.is_empty() {
            return None;
        }
        let plan = &inputs.quant.plan;
        plan.varies_by().is_none().then(|| Self {
            plan: plan.clone(),
            loss_scale: inputs.loss_scale,
            attention,
            shapes: inputs.batches.iter().map(|batch| batch.shape).collect(),
            fixed: inputs.quant.scales_of_history().map(|pair| pair.is_some()).collect(),
        })
    }
}

impl Recording {
    /// Records passes. The inner error says why the device does not.
    fn new(
        kind: PassKind,
        of: &PassInputs<'_>,
        launch: &Launch<'_>,
    ) -> Result<Result<Self, String>, Diagnostic> {
        let values = &of.params.values;
        let device = values[0].device();
        let DispatchDevice::Cube(cube) = device.as_dispatch() else {
            return Ok(Err("the device launches no kernels".into()));
        };
        let words = of.words();
        let inputs = RecordingInputs::of(values, of.batches, words.len(), cube);
        let filled = inputs.fill(values, of.batches, words);
        let params = Params { layout: of.params.layout.clone(), values: filled.params.clone() };
        let pass = || {
            zero_words::begin();
            launch(&params, filled.batches.clone())
        };
        let refused = |error| device_faults::failed("the inputs of a recording", error);
        device.sync().map_err(refused)?;
        host_words::begin(inputs.words());
        let recorded = recorded(device.as_dispatch(), pass);
        host_words::begin(None);
        let (gradients, graph) = match recorded? {
            Ok(found) => found,
            Err(why) => return Ok(Err(why)),
        };
        Ok(Ok(Self { kind, graph, inputs, gradients, is_compared: false }))
    }

    /// Computes the recorded passes at other parameters and batches.
    fn replay(&self, of: &PassInputs<'_>) -> Result<Gradients, Diagnostic> {
        let device = of.params.values[0].device();
        let _filled = self.inputs.fill(&of.params.values, of.batches, of.words());
        // SAFETY: all memory that the graph reads or writes is alive: `self` holds inputs and results, the plan in
        // `kind` and the device's thread the constants of casts, and the graph guards the pages of all other tensors.
        // The thread that recorded it copied the inputs and reads the results, so that all are in the order of one
        // stream.
        let replayed = unsafe { Dispatch::graph_replay(device.as_dispatch(), &self.graph) };
        replayed.map_err(|error| device_faults::failed("recorded passes", error))?;
        Ok(self.gradients.clone())
    }
}

/// Records what `pass` launches: its results, without values before the first replay, and the graph.
fn recorded(
    device: &DispatchDevice,
    pass: impl Fn() -> Result<Gradients, Diagnostic>,
) -> Result<Result<(Gradients, LaunchGraph), String>, Diagnostic> {
    let refused = |error: burn::backend::ExecutionError| Ok(Err(error.to_string()));
    if let Err(error) = Dispatch::graph_prepare(device) {
        return refused(error);
    }
    for _ in 0..WARM_UPS {
        // Results that are dropped before the synchronisation would not be computed.
        let results = pass();
        let synced = Dispatch::sync(device);
        if results.is_err() || synced.is_err() {
            let _ = Dispatch::graph_stop_capture(device);
        }
        drop(results?);
        synced.map_err(|error| device_faults::failed("passes before a recording", error))?;
    }
    if let Err(error) = Dispatch::graph_start_capture(device) {
        return refused(error);
    }
    let results = pass();
    let graph = Dispatch::graph_stop_capture(device);
    zero_words::begin();
    match graph {
        Ok(graph) => Ok(Ok((results?, graph))),
        Err(error) => refused(error),
    }
}

impl Gradients {
    /// All tensors: losses, gradients, statistics of casts, and attention.
    fn tensors(&self) -> impl Iterator<Item = Tensor<1>> {
        let own = self.losses.iter().chain(&self.grads).cloned();
        let attention = self.attention.iter().flat_map(AttentionMonitor::tensors);
        own.chain(self.rounding.tensors()).chain(attention)
    }

    /// True if all tensors have the same bits.
    fn has_bits_of(&self, other: &Self) -> Result<bool, Diagnostic> {
        for (a, b) in self.tensors().zip(other.tensors()) {
            let [a, b] = [read_f32(a)?, read_f32(b)?];
            if a.len() != b.len() || a.iter().zip(&b).any(|(a, b)| a.to_bits() != b.to_bits()) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

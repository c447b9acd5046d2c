//! A trace of a training step: the tensors that its forward and backward passes compute, by name, in time order.
//!
//! The model and its linear layers record what they compute in a [`TraceScope`], which names the layer and adds the
//! tensors to a [`Trace`], if there is one. An identity operation (`gradient`) captures gradients, so that a traced
//! step computes the same bits as an untraced one. On a GPU a trace separates operations that are fused otherwise, and
//! the last bits may differ from those of the untraced step.
//!
//! A trace holds every recorded tensor: about twice the memory of the step's activations.

pub(crate) mod gradient;

use std::{borrow::Cow, fmt, mem};

use burn::tensor::{Device, Gradients as Tape, Tensor};
use parking_lot::Mutex;

use crate::tensor::{flat, untracked};

/// A part of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Phase {
    /// From the tokens to the loss.
    Forward,
    /// From the loss to the parameters' gradients.
    Backward,
    /// From the gradients to the new parameters.
    Update,
}

impl Phase {
    /// The name in output.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Forward => "forward",
            Self::Backward => "backward",
            Self::Update => "update",
        }
    }
}

/// The place in a step where a tensor was computed.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TensorPlace {
    /// Micro-batch within the step; 0 for tensors that belong to all of them.
    pub micro_batch: u64,
    /// The part of the step that computed it.
    pub phase: Phase,
    /// The layer or the parameter: `h.0.attn.c_attn`, `h.0.attn.c_attn.weight`.
    pub layer: String,
    /// The operation that computed it, or its name: `softmax`, `rounded weight`, `gradient of softmax`.
    pub operation: Cow<'static, str>,
}

impl TensorPlace {
    /// A parameter's tensor, which all micro-batches share.
    #[must_use]
    pub fn of_parameter(phase: Phase, name: &str, what: &'static str) -> Self {
        Self { micro_batch: 0, phase, layer: name.to_string(), operation: what.into() }
    }
}

/// `h.0.attn.c_attn, rounded weight`; with the micro-batch if it is not the first.
impl fmt::Display for TensorPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}", self.layer, self.operation)?;
        if self.micro_batch > 0 {
            write!(f, " (micro-batch {})", self.micro_batch)?;
        }
        Ok(())
    }
}

/// One tensor of a step.
#[derive(Debug)]
pub struct TracedTensor {
    /// The place of its computation.
    pub place: TensorPlace,
    /// Its elements, row-major `[n]`, outside of any autodiff graph.
    pub values: Tensor<1>,
}

/// The tensors of a step.
#[derive(Debug, Default)]
pub struct Trace {
    /// The tensors of complete micro-batches.
    tensors: Mutex<Vec<TracedTensor>>,
    /// Forward values of the current micro-batch.
    values: Mutex<Vec<NamedTensor>>,
    /// Leaves whose gradients become the gradients of the current micro-batch.
    probes: Mutex<Vec<NamedTensor>>,
}

/// A tensor of the current micro-batch and its name.
#[derive(Debug)]
struct NamedTensor {
    layer: String,
    operation: Cow<'static, str>,
    tensor: Tensor<1>,
}

impl NamedTensor {
    fn traced(self, phase: Phase, micro_batch: u64) -> TracedTensor {
        let Self { layer, operation, tensor } = self;
        TracedTensor { place: TensorPlace { micro_batch, phase, layer, operation }, values: tensor }
    }
}

impl Trace {
    /// Closes a micro-batch, whose backward pass left `tape`. Gradients are in the reverse order of the values they
    /// belong to: none depends on a later one, and those of one operation are adjacent.
    pub fn collect(&self, tape: &Tape, micro_batch: u64) {
        let mut tensors = self.tensors.lock();
        let values = mem::take(&mut *self.values.lock());
        tensors.extend(values.into_iter().map(|value| value.traced(Phase::Forward, micro_batch)));
        for probe in mem::take(&mut *self.probes.lock()).into_iter().rev() {
            if let Some(tensor) = probe.tensor.grad(tape) {
                tensors.push(NamedTensor { tensor, ..probe }.traced(Phase::Backward, micro_batch));
            }
        }
    }

    /// Adds a tensor that belongs to no micro-batch.
    pub fn add(&self, place: TensorPlace, values: Tensor<1>) {
        self.tensors.lock().push(TracedTensor { place, values });
    }

    /// The tensors, in time order.
    #[must_use]
    pub fn into_tensors(self) -> Vec<TracedTensor> {
        self.tensors.into_inner()
    }
}

/// The part of a trace that belongs to one layer. Without a trace, recording takes no time.
#[derive(Debug, Clone, Copy)]
pub struct TraceScope<'a> {
    trace: Option<&'a Trace>,
    layer: &'a str,
}

impl<'a> TraceScope<'a> {
    /// Records nothing.
    pub const OFF: TraceScope<'static> = TraceScope { trace: None, layer: "" };

    /// The scope of a layer; records nothing without a trace.
    #[must_use]
    pub fn new(trace: Option<&'a Trace>, layer: &'a str) -> Self {
        Self { trace, layer }
    }

    /// True if it records.
    pub(crate) fn is_on(&self) -> bool {
        self.trace.is_some()
    }

    /// Records a value of the forward pass.
    pub fn record<const D: usize>(&self, operation: &'static str, x: &Tensor<D>) {
        if let Some(trace) = self.trace {
            let elements = x.shape().num_elements();
            let values = untracked(x.clone()).reshape([elements]);
            trace.values.lock().push(self.named(operation.into(), values));
        }
    }

    /// Records a value that is computed for the trace only.
    pub fn record_with<const D: usize>(&self, operation: &'static str, x: impl FnOnce() -> Tensor<D>) {
        if self.trace.is_some() {
            self.record(operation, &x());
        }
    }

    /// `x`, whose gradient will be recorded as `what`. Everything that uses `x` must use the result: the gradient is a
    /// sum over the uses, and a use of the original would change the order of that sum and with it the last bits.
    #[must_use]
    fn observe_gradient<const D: usize>(&self, what: Cow<'static, str>, x: Tensor<D>) -> Tensor<D> {
        match self.trace {
            Some(trace) if x.device().is_autodiff() => {
                let (x, probe) = gradient::capture_gradient(x);
                trace.probes.lock().push(self.named(what, probe));
                x
            }
            _ => x,
        }
    }

    /// A leaf whose gradient, flat, will be recorded as `what`: for an operation that sets that gradient itself.
    #[must_use]
    pub fn gradient_probe(&self, what: &'static str, device: &Device) -> Option<Tensor<1>> {
        let trace = self.trace.filter(|_| device.is_autodiff())?;
        let probe = flat(vec![0.0], device).require_grad();
        trace.probes.lock().push(self.named(what.into(), probe.clone()));
        Some(probe)
    }

    /// `x`, whose value is recorded now and whose gradient will be. Everything that uses `x` must use the result.
    #[must_use]
    pub fn observe<const D: usize>(&self, operation: &'static str, x: Tensor<D>) -> Tensor<D> {
        if self.trace.is_none() {
            return x;
        }
        self.record(operation, &x);
        self.observe_gradient(format!("gradient of {operation}").into(), x)
    }

    fn named(&self, operation: Cow<'static, str>, tensor: Tensor<1>) -> NamedTensor {
        NamedTensor { layer: self.layer.to_string(), operation, tensor }
    }
}

//! A trace of a training step: the tensors that its forward and backward passes compute, by name, in time order.
//!
//! The model and its linear layers show what they compute to an [`At`], which names the layer. It hands its tensors
//! to a [`Trace`], or does nothing if there is none. Gradients are caught by an identity operation (`op`), so
//! that a traced step computes the same bits as an untraced one. On a GPU a trace keeps operations apart that are
//! fused otherwise, and last bits may differ from the untraced step's.
//!
//! A trace holds every tensor it was shown: about twice the memory of the step's activations.

mod op;

use std::{borrow::Cow, cell::RefCell, fmt};

use burn::tensor::{Device, Gradients as Tape, Tensor};

use crate::model::params;

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
    /// Its name in output.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Forward => "forward",
            Self::Backward => "backward",
            Self::Update => "update",
        }
    }
}

/// What a tensor of a step is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Place {
    /// Micro-batch within the step; 0 for what belongs to all of them.
    pub micro_batch: u64,
    /// The part of the step that computed it.
    pub phase: Phase,
    /// The layer or the parameter: `h.0.attn.c_attn`, `h.0.attn.c_attn.weight`.
    pub layer: String,
    /// What computed it, or what it is: `softmax`, `rounded weight`, `gradient of softmax`.
    pub operation: Cow<'static, str>,
}

impl Place {
    /// A parameter's tensor, which all micro-batches share.
    #[must_use]
    pub fn of_parameter(phase: Phase, name: &str, what: &'static str) -> Self {
        Self { micro_batch: 0, phase, layer: name.to_string(), operation: what.into() }
    }
}

/// `h.0.attn.c_attn, rounded weight`; with the micro-batch if it is not the first.
impl fmt::Display for Place {
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
pub struct Event {
    /// What it is.
    pub place: Place,
    /// Its elements, row-major `[n]`, outside of any graph.
    pub values: Tensor<1>,
}

/// The tensors of a step.
#[derive(Debug, Default)]
pub struct Trace {
    /// What is complete.
    events: RefCell<Vec<Event>>,
    /// Forward values of the micro-batch at hand.
    values: RefCell<Vec<Shown>>,
    /// Where its gradients will be: leaves whose gradients they become.
    probes: RefCell<Vec<Shown>>,
}

/// A tensor and what it was called.
#[derive(Debug)]
struct Shown {
    layer: String,
    operation: Cow<'static, str>,
    tensor: Tensor<1>,
}

impl Shown {
    fn event(self, phase: Phase, micro_batch: u64) -> Event {
        let Self { layer, operation, tensor } = self;
        Event { place: Place { micro_batch, phase, layer, operation }, values: tensor }
    }
}

impl Trace {
    /// Closes a micro-batch, whose backward pass left `tape`. Gradients are in the reverse order of the values they belong to:
    /// none depends on a later one, and those that one operation makes stand together.
    pub fn collect(&self, tape: &Tape, micro_batch: u64) {
        let mut events = self.events.borrow_mut();
        let values = self.values.take();
        events.extend(values.into_iter().map(|shown| shown.event(Phase::Forward, micro_batch)));
        for shown in self.probes.take().into_iter().rev() {
            if let Some(tensor) = shown.tensor.grad(tape) {
                events.push(Shown { tensor, ..shown }.event(Phase::Backward, micro_batch));
            }
        }
    }

    /// Adds a tensor that belongs to no micro-batch.
    pub fn add(&self, place: Place, values: Tensor<1>) {
        self.events.borrow_mut().push(Event { place, values });
    }

    /// The tensors, in time order.
    #[must_use]
    pub fn into_events(self) -> Vec<Event> {
        self.events.into_inner()
    }
}

/// A layer under observation, or not: without a trace all of this is free.
#[derive(Debug, Clone, Copy)]
pub struct At<'a> {
    trace: Option<&'a Trace>,
    layer: &'a str,
}

impl<'a> At<'a> {
    /// Observes nothing.
    pub const NOWHERE: At<'static> = At { trace: None, layer: "" };

    /// A layer, observed if there is a trace.
    #[must_use]
    pub fn new(trace: Option<&'a Trace>, layer: &'a str) -> Self {
        Self { trace, layer }
    }

    /// Shows a value of the forward pass.
    pub fn value<const D: usize>(&self, operation: &'static str, x: &Tensor<D>) {
        if let Some(trace) = self.trace {
            let elements = x.shape().num_elements();
            let plain = if x.device().is_autodiff() { x.clone().inner() } else { x.clone() };
            trace.values.borrow_mut().push(self.shown(operation.into(), plain.reshape([elements])));
        }
    }

    /// Shows a value that is computed for that only.
    pub fn value_of<const D: usize>(&self, operation: &'static str, x: impl FnOnce() -> Tensor<D>) {
        if self.trace.is_some() {
            self.value(operation, &x());
        }
    }

    /// `x`, whose gradient will be shown as `what`. Whatever uses `x` must use the result: its gradient is a sum over the
    /// uses, and a use past this would change the order of that sum and with it the last bits.
    #[must_use]
    pub fn gradient<const D: usize>(&self, what: impl Into<Cow<'static, str>>, x: Tensor<D>) -> Tensor<D> {
        match self.trace {
            Some(trace) if x.device().is_autodiff() => {
                let (x, probe) = op::show_gradient(x);
                trace.probes.borrow_mut().push(self.shown(what.into(), probe));
                x
            }
            _ => x,
        }
    }

    /// A leaf whose gradient, flat, will be shown as `what`: for an operation that hands it out by itself.
    #[must_use]
    pub fn probe(&self, what: &'static str, device: &Device) -> Option<Tensor<1>> {
        let trace = self.trace.filter(|_| device.is_autodiff())?;
        let probe = params::flat(vec![0.0], device).require_grad();
        trace.probes.borrow_mut().push(self.shown(what.into(), probe.clone()));
        Some(probe)
    }

    /// `x`, which is shown, as its gradient will be.
    #[must_use]
    pub fn point<const D: usize>(&self, operation: &'static str, x: Tensor<D>) -> Tensor<D> {
        if self.trace.is_none() {
            return x;
        }
        self.value(operation, &x);
        self.gradient(format!("gradient of {operation}"), x)
    }

    fn shown(&self, operation: Cow<'static, str>, tensor: Tensor<1>) -> Shown {
        Shown { layer: self.layer.to_string(), operation, tensor }
    }
}

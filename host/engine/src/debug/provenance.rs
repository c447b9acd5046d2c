//! The origin of a step's first NaN or infinity: the step is computed again under a trace.
//!
//! The same parameters, batches and randomness give the same values; the run's state is not changed. Call it before the
//! update, which spreads non-finite values over all parameters.

use std::fmt;

use altgrad_base::diagnostic::Diagnostic;

use crate::{
    passes::Observers,
    setup::RunSetup,
    state::TrainState,
    tensor,
    trace::{Phase, TensorPlace, Trace, TracedTensor},
};

/// A tensor that is not finite.
#[derive(Debug, Clone, PartialEq)]
pub struct Origin {
    /// The tensor: layer and operation.
    pub place: TensorPlace,
    /// Its first element that is not finite, row-major.
    pub index: usize,
    /// The value of that element: NaN or an infinity.
    pub value: f32,
    /// The number of elements that are not finite.
    pub count: usize,
    /// The number of elements.
    pub elements: usize,
}

/// The first non-finite tensors of a step. Both are missing if only a sum over finite values overflowed, or if the
/// device does not compute the same twice.
#[derive(Debug, Clone, PartialEq)]
pub struct Provenance {
    /// The step.
    pub step: u64,
    /// The first non-finite tensor of the forward pass: the origin of the loss's value.
    pub loss: Option<Origin>,
    /// The first non-finite tensor of the backward pass: the origin of the gradients'. If the forward pass has one, it
    /// is the cause of this one.
    pub gradient: Option<Origin>,
}

impl Provenance {
    /// The first tensor of both passes.
    #[must_use]
    pub fn first(&self) -> Option<&Origin> {
        self.loss.as_ref().or(self.gradient.as_ref())
    }
}

/// Computes step `step` again from the present state, and searches for the first NaN or infinity. Takes the time of a
/// step and of reading all its tensors.
///
/// # Errors
/// A plugin or the device failed.
pub fn find(setup: &RunSetup, state: &TrainState, step: u64) -> Result<Provenance, Diagnostic> {
    let trace = Trace::default();
    let first = setup.first_micro_batch(step);
    let observers = Observers { trace: Some(&trace), ..Observers::default() };
    state.gradients(&setup.model, setup.micro_batches(step), first, observers)?;
    state.quant.plan.check()?;
    let mut found = Provenance { step, loss: None, gradient: None };
    for event in trace.into_tensors() {
        let first = match event.place.phase {
            Phase::Forward => &mut found.loss,
            Phase::Backward | Phase::Update => &mut found.gradient,
        };
        if first.is_none() {
            *first = origin(event)?;
        }
    }
    Ok(found)
}

/// The first non-finite element of a tensor, if any.
fn origin(event: TracedTensor) -> Result<Option<Origin>, Diagnostic> {
    let values = tensor::read_f32(event.values)?;
    let mut faulty = values.iter().enumerate().filter(|(_, value)| !value.is_finite());
    let first = faulty.next();
    let count = 1 + faulty.count();
    Ok(first.map(|(index, &value)| Origin {
        place: event.place,
        index,
        value,
        count,
        elements: values.len(),
    }))
}

/// `h.0.mlp.c_fc, weight (NaN at element 3, 1 of 256 not finite)`.
impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { place, index, value, count, elements } = self;
        write!(f, "{place} ({value} at element {index}, {count} of {elements} not finite)")
    }
}

/// `step 7 is not finite; first in the forward pass: ...; first in the backward pass: ...`.
impl fmt::Display for Provenance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "step {} is not finite", self.step)?;
        for (pass, origin) in [("forward", &self.loss), ("backward", &self.gradient)] {
            match origin {
                Some(origin) => write!(f, "; first in the {pass} pass: {origin}")?,
                None => write!(f, "; all tensors of the {pass} pass are finite")?,
            }
        }
        Ok(())
    }
}

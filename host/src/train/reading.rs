//! What a step reads back from the device: one synchronisation for everything its decisions and metrics need.

use burn::tensor::Tensor;

use super::trainer::Gradients;
use crate::{
    diagnostic::Diagnostic,
    metrics::{
        fidelity::{self, Agreement},
        gradients::{self, Moments},
    },
    quant::{Quant, Seen},
    read_back::ReadBack,
};

/// The numbers of a step, on the host.
#[derive(Debug)]
pub struct Reading {
    /// Mean loss over the micro-batches, nats per token.
    pub loss: f64,
    /// Sums of each parameter's gradient, before clipping.
    pub moments: Vec<Moments>,
    /// What each site of the quantizer saw; `None` where nothing came by.
    pub seen: Vec<Option<Seen>>,
    /// How each parameter's gradient agrees with its shadow, on shadow steps.
    pub agreement: Option<Vec<Agreement>>,
}

impl Reading {
    /// Reads a step's numbers; `shadow` are the unquantized gradients, if they were computed.
    ///
    /// # Errors
    /// A format's plugin or the device failed.
    pub fn of(
        quant: &Quant,
        gradients: &Gradients,
        shadow: Option<&[Tensor<1>]>,
    ) -> Result<Self, Diagnostic> {
        let mut read_back = ReadBack::default();
        let losses: Vec<_> = gradients.losses.iter().map(|loss| read_back.ask(loss.clone())).collect();
        let moments = gradients::ask_moments(&gradients.grads, &mut read_back);
        let agreement =
            shadow.map(|shadow| fidelity::ask_agreement(&gradients.grads, shadow, &mut read_back));
        let seen = quant.ask(&mut read_back);
        let values = read_back.read();
        let seen = quant.seen(&seen, &values)?;
        let values = values?;
        let mut loss = 0.0;
        for slot in losses {
            loss += f64::from(values.get(slot)?[0]);
        }
        let moments = gradients::moments(&moments, &values)?;
        let agreement = agreement.map(|asked| fidelity::agreement(&asked, &values)).transpose()?;
        Ok(Self { loss, moments, seen, agreement })
    }
}

//! The reading of a step's results: one synchronisation for everything that its decisions and metrics need.

use std::{sync::Arc, time::Duration};

use altgrad_base::diagnostic::Diagnostic;
use burn::tensor::Tensor;

use crate::{
    metrics::{StepOutputs, fidelity, gradients},
    passes::Gradients,
    quant::{HistogramCollector, Quantizer},
    read_back::ReadBack,
};

/// Reads the results of a step's passes; `histograms` collected the values that sites rounded, or are none; `shadow`
/// are the unquantized gradients, if they were computed. Returns the gradients too, which stay on the device.
///
/// # Errors
/// A format's plugin or the device failed.
pub fn read_outputs(
    quant: &mut Quantizer,
    gradients: Gradients,
    histograms: &[Arc<HistogramCollector>],
    shadow: Option<&[Tensor<1>]>,
) -> Result<(Vec<Tensor<1>>, StepOutputs), Diagnostic> {
    let Gradients { losses, grads, rounding, attention } = gradients;
    let mut read_back = ReadBack::default();
    let losses: Vec<_> = losses.into_iter().map(|loss| read_back.request(loss)).collect();
    let moments = gradients::request_moments(&grads, &mut read_back);
    let agreement = shadow.map(|shadow| fidelity::request_agreement(&grads, shadow, &mut read_back));
    let attention = attention.map(|monitor| monitor.request(&mut read_back));
    let rounding = quant.request(rounding, &mut read_back);

    let values = read_back.read();
    let rounding = quant.read(&rounding, &values)?;
    let values = values?;
    let mut loss = 0.0;
    for slot in losses {
        loss += f64::from(values.get(slot)?[0]);
    }
    let outputs = StepOutputs {
        loss,
        moments: gradients::moments(&moments, &values)?,
        rounding,
        agreement: agreement.map(|requested| fidelity::agreement(&requested, &values)).transpose()?,
        distributions: histograms.iter().map(|collector| collector.histogram()).collect::<Result<_, _>>()?,
        attention: attention.map(|requested| requested.read(&values)).transpose()?.unwrap_or_default(),
        observed: Vec::new(),
        curvature: None,
        measuring: Duration::ZERO,
    };
    Ok((grads, outputs))
}

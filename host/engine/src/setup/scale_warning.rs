//! The warning before the first step about scales that reduce the weights' signal-to-noise ratio much.

use std::fmt::Write as _;

use altgrad_base::diagnostic::Diagnostic;

use crate::{
    model::Params,
    quant::{QuantContext, ScaleLoss, Scaling, Site},
};

/// The smallest loss in decibels that causes a warning.
const WORTH_A_WARNING: f64 = 3.0;

/// The warning about the scales of initial weights, before they are rounded to any grid: it names the weight with the
/// largest loss.
///
/// # Errors
/// The device failed.
pub(super) fn warning(quant: &QuantContext, params: &Params) -> Result<Option<String>, Diagnostic> {
    let widths = params.layout.specs.iter().map(|spec| spec.shape.last().copied().unwrap_or(1));
    let mut losses = quant.scale_losses(params.values.iter().zip(widths))?;
    losses.retain(|(_, loss)| loss.decibels() > WORTH_A_WARNING);
    let worst = losses.iter().max_by(|(_, a), (_, b)| a.decibels().total_cmp(&b.decibels()));
    Ok(worst.map(|(site, loss)| said(site, loss, losses.len() - 1)))
}

fn said(site: &Site, loss: &ScaleLoss, others: usize) -> String {
    let (layer, format) = (&site.layer, &site.format.plugin().identity.name);
    let mut text = format!(
        "the scale of `{layer}` costs {:.1} dB of signal to noise: {format} has {:.1} dB of it, and {:.1} dB at the best scale",
        loss.decibels(),
        loss.sqnr_db,
        loss.best_db
    );
    let (key, rule) = match site.scaling {
        Scaling::Stored { rule, .. } => ("quant.stored_scale.margin", Some(rule)),
        Scaling::Dynamic(rule) | Scaling::Delayed { rule, .. } | Scaling::Static { rule, .. } => {
            ("quant.scaling.margin", Some(rule))
        }
        Scaling::None => ("", None),
    };
    let better =
        rule.map(|rule| rule.scaling.margin + loss.margin).filter(|margin| (-32..=32).contains(margin));
    if let Some(margin) = better {
        let _ = write!(text, ", with `{key} = {margin}`");
    }
    if others > 0 {
        let _ = write!(text, "; {others} more weights lose more than {WORTH_A_WARNING} dB");
    }
    text
}

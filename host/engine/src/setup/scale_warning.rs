//! The warning before the first step about scales that reduce the weights' signal-to-noise ratio much.

use std::fmt::Write as _;

use altgrad_base::diagnostic::Diagnostic;
use altgrad_config::{MasterWeightsChoice, QuantSection};

use super::rounding;
use crate::{
    model::{Layout, Params, layout::ParamId},
    quant::{QuantPlan, Role},
};

/// The smallest loss in decibels that causes a warning.
const WORTH_A_WARNING: f64 = 3.0;

/// The warning about the scales of initial weights, before they are rounded to any grid: it names the weight with the
/// largest loss.
///
/// # Errors
/// The device failed.
pub(super) fn warning(
    config: &QuantSection,
    quant: &QuantPlan,
    params: &Params,
) -> Result<Option<String>, Diagnostic> {
    let widths = params.layout.specs.iter().map(|spec| spec.shape.last().copied().unwrap_or(1));
    let mut losses = quant.scale_losses(params.values.iter().zip(widths))?;
    losses.retain(|(.., loss)| loss.decibels() > WORTH_A_WARNING);
    let worst = losses.iter().max_by(|(.., a), (.., b)| a.decibels().total_cmp(&b.decibels()));
    let Some((layer, site, loss)) = worst else { return Ok(None) };
    let (name, format) = (&site.layer, &site.format.plugin().identity.name);
    let mut text = format!(
        "the scale of `{name}` costs {:.1} dB of signal to noise: {format} has {:.1} dB of it, and {:.1} dB at the best scale",
        loss.decibels(),
        loss.sqnr_db,
        loss.best_db
    );
    if (-32..=32).contains(&loss.margin) {
        let key = margin_key(config, &params.layout, *layer);
        let _ = write!(text, ", with `{key} = {}`", loss.margin);
    }
    if losses.len() > 1 {
        let others = losses.len() - 1;
        let _ = write!(text, "; {others} more weights lose more than {WORTH_A_WARNING} dB");
    }
    Ok(Some(text))
}

/// The key that sets the margin of a weight's scales.
fn margin_key(config: &QuantSection, layout: &Layout, layer: ParamId) -> String {
    if config.master_weights == MasterWeightsChoice::None {
        return "quant.stored_scale.margin".to_owned();
    }
    rounding::cast(config, layout, layer, Role::Weight).key_of("scaling.margin")
}

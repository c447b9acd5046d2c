//! Refusals of sums of limited width: where they are not computed, and where scales change within a sum.

use altgrad_base::diagnostic::Diagnostic;
use altgrad_casts::{LimitedSum, Storage};
use altgrad_config::MasterWeightsChoice;
use altgrad_loader::instance::KeyedDiagnostic;

use super::casts::LayerShape;
use crate::{
    device::ComputeDevice,
    model::layout::ParamId,
    quant::{QuantPlan, Role, Scaling, TensorQuantizer},
};

const KEY: &str = "quant.accumulate";

/// The operands of a product, and the terms of its sums.
type Product = ([Role; 2], fn(LayerShape) -> usize);

/// A layer's products.
const PRODUCTS: [Product; 3] = [
    ([Role::Activation, Role::Weight], |shape| shape.inputs),
    ([Role::Grad, Role::WeightDgrad], |shape| shape.outputs),
    ([Role::GradWgrad, Role::ActivationWgrad], |shape| shape.tokens),
];

/// Checks the sums of a plan, if they are not f32.
pub(super) fn check(
    plan: &QuantPlan,
    device: &ComputeDevice,
    layers: &[(ParamId, LayerShape)],
) -> Result<(), KeyedDiagnostic> {
    let Some(sum) = plan.sum() else { return Ok(()) };
    let refused = |message: String, hint: &str| Err((KEY.into(), Diagnostic::config(message).hint(hint)));
    if device.label != "cpu" {
        let message =
            format!("`{KEY}`: sums of limited width are computed on the CPU, not on {}", device.label);
        return refused(message, "set run.device = \"cpu\", or remove the key");
    }
    if plan.master_weights() == MasterWeightsChoice::None {
        let message =
            format!("`{KEY}` excludes weights without master weights, whose codes products do not see");
        return refused(message, "set quant.master_weights = \"fp32\", or remove the key");
    }
    let mut products = 0;
    for (layer, shape) in layers {
        for (roles, terms) in PRODUCTS {
            let [Some(a), Some(b)] = roles.map(|role| operand(plan, *layer, role)) else { continue };
            products += 1;
            let largest = target(a.0) * target(b.0) * sum.span(terms(*shape)) as f64;
            if largest > f64::from(f32::MAX) {
                let (a, b, name) = (a.0.role.name(), b.0.role.name(), &a.0.layer);
                let message =
                    format!("`{KEY}`: a sum of codes of {a} and {b} in `{name}` can leave f32's range");
                return refused(
                    message,
                    "give one of them a format with a narrower range, or remove the key",
                );
            }
            for (site, is_transposed) in [a, b] {
                if site.needs_matrix() {
                    let (role, name) = (site.role.name(), &site.layer);
                    let message = format!(
                        "`{KEY}`: values of {role} in `{name}` are not those of codes times one factor for each block"
                    );
                    let hint = "use a cast without center, outer, correction, a stochastic round, or a nested dequantize; or remove the key";
                    return refused(message, hint);
                }
                if !has_one_factor(site, is_transposed, &sum, terms(*shape)) {
                    let (role, name) = (site.role.name(), &site.layer);
                    let message =
                        format!("`{KEY}`: scales of {role} in `{name}` change within a sum of codes");
                    let hint = "use scales that are powers of two, or blocks along the contraction whose length is a multiple of promote; \
                                operands of dgrad and wgrad have blocks of their own with source = \"hp\" or \"dequantized\"";
                    return refused(message, hint);
                }
            }
        }
    }
    if products == 0 {
        let message = format!("`{KEY}` has no effect: no product has two operands with formats");
        return refused(message, "give weights and activations formats, or remove the key");
    }
    Ok(())
}

/// The cast whose codes a role uses, and whether it uses them transposed.
fn operand(plan: &QuantPlan, layer: ParamId, role: Role) -> Option<(&TensorQuantizer, bool)> {
    if let Some(own) = plan.site_of(layer, role) {
        return Some((own, false));
    }
    let first = role.first_use().filter(|_| !plan.is_unrounded(layer, role))?;
    Some((plan.site_of(layer, first)?, true))
}

/// The magnitude that scales give to the largest element; 1 without scales, where values are what they are.
fn target(site: &TensorQuantizer) -> f64 {
    match site.scaling {
        Scaling::None => 1.0,
        Scaling::Dynamic(rule)
        | Scaling::Delayed { rule, .. }
        | Scaling::Static { rule, .. }
        | Scaling::Stored { rule, .. } => f64::from(rule.range.target),
    }
}

/// True if the factors of codes are powers of two, or the same in all terms that share an accumulator.
fn has_one_factor(site: &TensorQuantizer, is_transposed: bool, sum: &LimitedSum, terms: usize) -> bool {
    let is_power = match site.scaling {
        Scaling::None => true,
        Scaling::Dynamic(rule)
        | Scaling::Delayed { rule, .. }
        | Scaling::Static { rule, .. }
        | Scaling::Stored { rule, .. } => {
            let scaling = rule.scaling;
            let is_power =
                scaling.storage == Storage::E8m0 || scaling.storage == Storage::F32 && scaling.pow2;
            is_power && scaling.factor.log2().fract() == 0.0
        }
    };
    let length = site.arrangement().tile[usize::from(!is_transposed)];
    let is_constant = site.has_one_scale() || length >= terms || length.is_multiple_of(sum.span(terms));
    is_power || site.format.fits_bf16() && is_constant
}

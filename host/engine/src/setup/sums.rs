//! Refusals of sums of limited width: where they are not computed, and where scales change within a sum.

use altgrad_base::diagnostic::Diagnostic;
use altgrad_casts::{LimitedSum, NonFinite, Storage};
use altgrad_config::MasterWeightsChoice;
use altgrad_loader::instance::KeyedDiagnostic;

use super::casts::LayerShape;
use crate::{
    device::ComputeDevice,
    model::layout::ParamId,
    quant::{QuantPlan, Role, ScaleRule, Scaling, TensorQuantizer},
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
                    let hint = "use a cast without center, outer, microexponents, correction, a stochastic round, or a nested dequantize; or remove the key";
                    return refused(message, hint);
                }
                if let Some(exact) = sum.exact {
                    if !has_block_scales(site, is_transposed, exact, terms(*shape)) {
                        let (role, name) = (site.role.name(), &site.layer);
                        let message = format!(
                            "`{KEY}`: {exact} products of {role} in `{name}` do not share one scale that is a byte"
                        );
                        let hint = "use a scaling.type of bytes, with blocks along the contraction whose length is a multiple of exact, \
                                    without factor, tensor = \"bf16\" and nonfinite = \"poison\"; operands of dgrad and wgrad have blocks of their own with \
                                    source = \"hp\" or \"dequantized\"";
                        return refused(message, hint);
                    }
                    continue;
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
            if sum.exact.is_some() && !fits_blocks(&sum, [a.0, b.0]) {
                let (a, b, name) = (a.0.role.name(), b.0.role.name(), &a.0.layer);
                let message =
                    format!("`{KEY}`: exact sums of codes of {a} and {b} in `{name}` need more than 53 bits");
                return refused(message, "use fewer bits, a smaller group, or formats of fewer bits");
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
    rule(site).map_or(1.0, |rule| f64::from(rule.range.target))
}

/// The rule of scales, if there are any.
fn rule(site: &TensorQuantizer) -> Option<&ScaleRule> {
    match &site.scaling {
        Scaling::None => None,
        Scaling::Dynamic(rule)
        | Scaling::Delayed { rule, .. }
        | Scaling::Static { rule, .. }
        | Scaling::Stored { rule, .. } => Some(rule),
    }
}

/// True if f64 is wide enough for sums of blocks of these operands.
fn fits_blocks(sum: &LimitedSum, sites: [&TensorQuantizer; 2]) -> bool {
    let finite = |site: &TensorQuantizer| -> Vec<f64> {
        let values = site.format.values().finite_values();
        values.into_iter().map(|value| f64::from(value).abs()).filter(|value| *value > 0.0).collect()
    };
    let [a, b] = sites.map(finite);
    let largest = [&a, &b].map(|values| values.iter().copied().fold(0.0, f64::max));
    // The lowest bit that is set in any value.
    let unit = |values: &[f64]| {
        let lowest = |value: &f64| {
            let (whole, exponent) = (value.to_bits() & ((1 << 52) - 1) | 1 << 52, value.to_bits() >> 52);
            2f64.powi(exponent as i32 - 1075 + whole.trailing_zeros() as i32)
        };
        values.iter().map(lowest).fold(f64::MAX, f64::min)
    };
    sum.fits_blocks(largest, unit(&a) * unit(&b))
}

/// True if each `exact` terms of a sum have one stored scale.
fn has_block_scales(site: &TensorQuantizer, is_transposed: bool, exact: usize, terms: usize) -> bool {
    let Some(rule) = rule(site).filter(|_| !site.has_one_scale()) else { return false };
    let scaling = rule.scaling;
    let is_stored = scaling.storage != Storage::F32
        && scaling.factor == 1.0
        && !scaling.to_bf16
        && scaling.nonfinite == NonFinite::Skip;
    let length = site.arrangement().tile[usize::from(!is_transposed)];
    is_stored && site.format.fits_bf16() && (length >= terms || length.is_multiple_of(exact))
}

/// True if the factors of codes are powers of two, or the same in all terms that share an accumulator.
fn has_one_factor(site: &TensorQuantizer, is_transposed: bool, sum: &LimitedSum, terms: usize) -> bool {
    let is_power = rule(site).is_none_or(|rule| {
        let scaling = rule.scaling;
        let is_power = scaling.storage == Storage::E8m0 || scaling.storage == Storage::F32 && scaling.pow2;
        is_power && scaling.factor.log2().fract() == 0.0
    });
    let length = site.arrangement().tile[usize::from(!is_transposed)];
    let is_constant = site.has_one_scale() || length >= terms || length.is_multiple_of(sum.span(terms));
    is_power || site.format.fits_bf16() && is_constant
}

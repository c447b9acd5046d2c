//! The warning about reused codes in blocks along the wrong dimension: a product of scaled operands needs blocks along
//! its contraction.

use std::collections::BTreeSet;

use altgrad_casts::Block;
use altgrad_config::cast::{ResolvedCast, UseSourceChoice};

use super::casts::LayerCasts;
use crate::quant::Role;

/// The operands of the products of the backward pass.
const PRODUCTS: [[Role; 2]; 2] = [[Role::Grad, Role::WeightDgrad], [Role::GradWgrad, Role::ActivationWgrad]];

/// The warning about the second uses of these layers that reuse such codes by default.
pub(super) fn warning<'a>(layers: impl Iterator<Item = &'a LayerCasts>) -> Option<String> {
    let crossed: BTreeSet<Role> = layers.flat_map(crossed).collect();
    let names: Vec<&str> = crossed.into_iter().map(Role::name).collect();
    (!names.is_empty()).then(|| {
        format!(
            "blocks of reused codes do not lie along the contraction in {}: set quant.source = \"hp\" to round \
             these operands again along it, or \"reuse\" to keep the codes",
            names.join(", ")
        )
    })
}

/// The second uses of a layer that reuse such codes by default, in products of two rounded operands.
fn crossed(casts: &LayerCasts) -> Vec<Role> {
    let cast = |role: Role| casts.iter().find(|(of, _)| *of == role).map(|(_, cast)| cast);
    let is_rounded = |role: &Role| {
        let rounds = |cast: &ResolvedCast| cast.format().is_some();
        let reused = role.first_use().filter(|_| cast(*role).is_some_and(is_reused));
        cast(reused.unwrap_or(*role)).is_some_and(rounds)
    };
    let is_crossed = |role: &Role| {
        let first = role.first_use().and_then(cast);
        let in_lines = first.is_some_and(|first| matches!(first.cast().block, Block::Row | Block::Along(_)));
        in_lines && cast(*role).is_some_and(|second| second.fields.source.is_none())
    };
    let products = PRODUCTS.into_iter().filter(|operands| operands.iter().all(is_rounded));
    products.flatten().filter(is_crossed).collect()
}

fn is_reused(second: &ResolvedCast) -> bool {
    second.source() == UseSourceChoice::Reuse
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use altgrad_config::{QuantSection, RECIPES, RunConfig};

    use super::*;

    fn warned(quant: &QuantSection) -> Option<String> {
        let casts = Role::LINEAR.map(|role| (role, quant.cast(role, |_| false)));
        warning([casts.as_slice()].into_iter())
    }

    #[test]
    fn reused_blocks_along_the_wrong_dimension_are_named() {
        let said = |more: &str| {
            let text = format!("weight = 'INT8'\nactivation = 'INT8'\nblock = 32\n{more}");
            warned(&toml::from_str(&text).unwrap()).unwrap_or_default()
        };
        let all = said("grad = 'E5M2'");
        assert!(all.contains(" in weight_dgrad, activation_wgrad, grad_wgrad: "), "{all}");
        let tensor = said("grad = 'E5M2'\ncast.grad.block = 'tensor'\ncast.weight.block = [32, 32]");
        assert!(tensor.contains(" in activation_wgrad: "), "{tensor}");
        // An unrounded operand needs no common blocks.
        for silent in ["", "grad = 'E5M2'\nsource = 'hp'", "grad = 'E5M2'\nsource = 'reuse'"] {
            assert_eq!(said(silent), "", "{silent}");
        }
    }

    #[test]
    fn no_recipe_reuses_such_blocks() {
        for (name, text) in RECIPES {
            let config: RunConfig = toml::from_str(text).unwrap();
            assert_eq!(warned(&config.quant), None, "{name}");
        }
    }
}

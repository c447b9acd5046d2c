//! The setup of parameter groups: the optimizer instance and the learning rate of each parameter.

use std::sync::Arc;

use altgrad_base::diagnostic::{Diagnostic, Fault};
use altgrad_casts::{Cast, Grid};
use altgrad_config::{OptimizerSection, StateFloat, StateStorage};
use altgrad_loader::{
    FormatPlugin, OptimizerPlugin, Registry,
    instance::{KeyedDiagnostic, OptionTable},
};
use wildmatch::WildMatch;

use super::rounding::HEAD;
use crate::{
    model::Layout,
    optimizer::{
        OptimizerGroups, code_storage::CodeStorage, range_expansion::RangeExpansion,
        stored_state::StateEncoding,
    },
    quant::ScaleRule,
};

/// The name of the position embedding, if there is one.
const POSITIONS: &str = "wpe.weight";

/// The run's optimizer and one more instance per group; the group's options override the general ones.
pub(super) fn groups(
    section: &OptimizerSection,
    registry: &Registry,
    layout: &Layout,
) -> Result<OptimizerGroups, KeyedDiagnostic> {
    let general = OptionTable { key: "optimizer", values: &section.settings };
    let mut groups = OptimizerGroups::one(OptimizerPlugin::make(registry, &section.name, general)?, layout);
    warn_of_unknown_names("optimizer", &section.settings, layout);
    for (index, group) in section.group.iter().enumerate() {
        let key = format!("optimizer.group.{index}");
        let pattern = WildMatch::new(&group.pattern);
        let members: Vec<usize> =
            (0..layout.specs.len()).filter(|&id| pattern.matches(&layout.specs[id].name)).collect();
        if members.is_empty() {
            let message = format!("the pattern `{}` at `{key}.match` matches no parameter", group.pattern);
            let hint = if is_tied(layout) && pattern.matches(HEAD) {
                tied_head(layout)
            } else {
                format!("{}; `*` matches any characters", names(layout))
            };
            return Err((format!("{key}.match"), Diagnostic::config(message).hint(hint)));
        }
        let mut values = section.settings.clone();
        values.extend(group.settings.clone());
        let plugin =
            OptimizerPlugin::make(registry, &section.name, OptionTable { key: &key, values: &values })
                // A group has no name whose position could be shown.
                .map_err(|(fault, error)| match fault.strip_suffix(".name") {
                    Some(group) => (format!("{group}.match"), error),
                    None => (fault, error),
                })?;
        warn_of_unknown_names(&key, &group.settings, layout);
        groups.add(plugin, group.lr_scale, &members);
    }
    let storage = section.states.iter().map(|(name, choice)| {
        let key = format!("optimizer.states.{name}");
        Ok((name.clone(), storage(choice, &key, registry)?))
    });
    Ok(groups.with_storage(storage.collect::<Result<_, KeyedDiagnostic>>()?))
}

/// Warns of names in the option `exclude` of the optimizer's table at `key` that no parameter has.
fn warn_of_unknown_names(key: &str, options: &toml::Table, layout: &Layout) {
    for unknown in unknown_names(options, layout) {
        tracing::warn!("`{key}.exclude`: {unknown}");
    }
}

/// The names in the option `exclude` that no parameter has, each with the names to choose from.
fn unknown_names(options: &toml::Table, layout: &Layout) -> Vec<String> {
    let listed = options.get("exclude").and_then(toml::Value::as_array).into_iter().flatten();
    let listed: Vec<&str> = listed.filter_map(toml::Value::as_str).collect();
    // Default lists are for all models: rotary positions have no embedding, and a tied head is excluded with the
    // embedding.
    let unknown = listed.iter().filter_map(|&name| match name {
        POSITIONS => None,
        HEAD if is_tied(layout) => {
            let is_excluded = listed.contains(&layout.specs[layout.wte].name.as_str());
            (!is_excluded).then(|| (name, tied_head(layout)))
        }
        _ if layout.specs.iter().any(|spec| spec.name == name) => None,
        _ => Some((name, names(layout))),
    });
    unknown.map(|(name, hint)| format!("no parameter has the name `{name}`; {hint}")).collect()
}

fn is_tied(layout: &Layout) -> bool {
    layout.head == layout.wte
}

fn tied_head(layout: &Layout) -> String {
    format!("the tied head is `{}`", layout.specs[layout.wte].name)
}

/// Some names of parameters, as an example.
fn names(layout: &Layout) -> String {
    let names: Vec<&str> = layout.specs.iter().map(|spec| spec.name.as_str()).take(5).collect();
    format!("names in this model: {}", names.join(", "))
}

/// The storage of a state that the run file requests at `key`.
fn storage(choice: &StateStorage, key: &str, registry: &Registry) -> Result<StateEncoding, KeyedDiagnostic> {
    let codes = match choice {
        StateStorage::Float(StateFloat::F32) => return Ok(StateEncoding::F32),
        StateStorage::Float(StateFloat::Bf16) => return Ok(StateEncoding::Bf16),
        StateStorage::Codes(codes) => codes,
    };
    let key = format!("{key}.format");
    let format = FormatPlugin::make(registry, &key, &codes.format)?;
    if format.conventions.has_own_blocks() {
        let message = format!(
            "`{key}`: `{}` chooses tables or magnitudes of blocks, which states do not",
            codes.format
        );
        return Err((key, Diagnostic::config(message).hint("name another format, or bf16")));
    }
    let values = format.values().map_err(|error| (key.clone(), error))?;
    if values.codes() > 256 {
        let message =
            format!("`{key}`: states are stored in 8 bits, `{}` has {} codes", codes.format, values.codes());
        return Err((key, Diagnostic::config(message).hint("name a format of up to 8 bits, or bf16")));
    }
    let rule = ScaleRule::max(format.conventions.target(&values), 0, false, Some(codes.block));
    let rule = rule.of_largest(values.max_finite());
    let rounding = codes.rounding.rounding();
    let grid = Grid::new(&format.spec, &format.conventions)
        .map_err(|error| (key.clone(), format.identity.failure(Fault::Plugin, &error)))?;
    // States have scales of their own: blocks of the cast are not used.
    Cast { rounding, ..Cast::default() }.check(&grid).map_err(|error| {
        let diagnostic = Diagnostic::config(error.to_string()).hint(error.hint());
        (key.replace(".format", ".rounding"), diagnostic)
    })?;
    let bits = values.codes().ilog2();
    let expansion = codes.expand.map(|fraction| {
        let largest = format.conventions.target(&values);
        RangeExpansion { fraction, target_ratio: largest * largest / 2.0 }
    });
    let (block, min_size) = (codes.block, codes.min_size);
    Ok(StateEncoding::Codes(Arc::new(CodeStorage {
        format,
        grid,
        bits,
        rule,
        block,
        rounding,
        min_size,
        expansion,
    })))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use altgrad_config::PositionsChoice;

    use super::*;
    use crate::model::{GptShape, Parts};

    #[test]
    fn excluded_names_that_no_parameter_has_are_found() {
        let shape = GptShape {
            vocab: 65,
            block_size: 8,
            n_layer: 1,
            n_head: 2,
            n_embd: 8,
            bias: false,
            tie_weights: true,
            parts: Parts { positions: PositionsChoice::Rotary, ..Parts::NANOGPT },
        };
        let unknown = |tie_weights, options: &str| {
            let options: toml::Table = toml::from_str(options).unwrap();
            unknown_names(&options, &Layout::new(&GptShape { tie_weights, ..shape }))
        };
        let head = "exclude = ['lm_head.weight']";
        let said = "no parameter has the name `lm_head.weight`; the tied head is `wte.weight`";
        assert_eq!(unknown(true, head), [said]);
        assert!(unknown(false, head).is_empty());
        let all = "exclude = ['wte.weight', 'wpe.weight', 'lm_head.weight']";
        for silent in [all, "", "exclude = []", "exclude = true"] {
            assert!(unknown(true, silent).is_empty() && unknown(false, silent).is_empty(), "{silent}");
        }
        let pattern = unknown(true, "exclude = ['wte.weight', 'h.0.mlp.*']");
        assert_eq!(pattern.len(), 1, "{pattern:?}");
        assert!(pattern[0].starts_with("no parameter has the name `h.0.mlp.*`; names in this model: wte."));
    }
}

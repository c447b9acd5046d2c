//! The setup of parameter groups: the optimizer instance and the learning rate of each parameter.

use std::sync::Arc;

use altgrad_base::diagnostic::Diagnostic;
use altgrad_config::{OptimizerSection, StateFloat, StateStorage};
use altgrad_loader::{
    FormatPlugin, OptimizerPlugin, Registry,
    instance::{KeyedDiagnostic, OptionTable},
    rounding_mode,
};
use wildmatch::WildMatch;

use crate::{
    model::Layout,
    optimizer::{
        OptimizerGroups, code_storage::CodeStorage, range_expansion::RangeExpansion, stored_state::Storage,
    },
    quant::ScaleRule,
};

/// The run's optimizer and one more instance per group; the group's options override the general ones.
pub(super) fn groups(
    section: &OptimizerSection,
    registry: &Registry,
    layout: &Layout,
) -> Result<OptimizerGroups, KeyedDiagnostic> {
    let general = OptionTable { key: "optimizer", values: &section.settings };
    let mut groups = OptimizerGroups::one(OptimizerPlugin::make(registry, &section.name, general)?, layout);
    for (index, group) in section.group.iter().enumerate() {
        let key = format!("optimizer.group.{index}");
        let pattern = WildMatch::new(&group.pattern);
        let members: Vec<usize> =
            (0..layout.specs.len()).filter(|&id| pattern.matches(&layout.specs[id].name)).collect();
        if members.is_empty() {
            let names: Vec<&str> = layout.specs.iter().map(|spec| spec.name.as_str()).take(5).collect();
            let message = format!("the pattern `{}` at `{key}.match` matches no parameter", group.pattern);
            let hint = format!("names in this model: {}; `*` matches any characters", names.join(", "));
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
        groups.add(plugin, group.lr_scale, &members);
    }
    let storage = section.states.iter().map(|(name, choice)| {
        let key = format!("optimizer.states.{name}");
        Ok((name.clone(), storage(choice, &key, registry)?))
    });
    Ok(groups.with_storage(storage.collect::<Result<_, KeyedDiagnostic>>()?))
}

/// The storage of a state that the run file requests at `key`.
fn storage(choice: &StateStorage, key: &str, registry: &Registry) -> Result<Storage, KeyedDiagnostic> {
    let codes = match choice {
        StateStorage::Float(StateFloat::F32) => return Ok(Storage::F32),
        StateStorage::Float(StateFloat::Bf16) => return Ok(Storage::Bf16),
        StateStorage::Codes(codes) => codes,
    };
    let key = format!("{key}.format");
    let format = FormatPlugin::make(registry, &key, &codes.format)?;
    let values = format.values().map_err(|error| (key.clone(), error))?;
    if values.codes() > 256 {
        let message =
            format!("`{key}`: states are stored in 8 bits, `{}` has {} codes", codes.format, values.codes());
        return Err((key, Diagnostic::config(message).hint("name a format of up to 8 bits, or bf16")));
    }
    let rule = ScaleRule::max(format.conventions.target(&values), 0, false, Some(codes.block));
    let rounding = rounding_mode(codes.rounding);
    let bits = values.codes().ilog2();
    let expansion = codes.expand.map(|fraction| {
        let largest = format.conventions.target(&values);
        RangeExpansion { fraction, target_ratio: largest * largest / 2.0 }
    });
    let (block, min_size) = (codes.block, codes.min_size);
    Ok(Storage::Codes(Arc::new(CodeStorage { format, bits, rule, block, rounding, min_size, expansion })))
}

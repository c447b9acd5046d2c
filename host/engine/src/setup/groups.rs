//! The setup's part about parameter groups: which optimizer instance updates a parameter, and at which learning rate.

use altgrad_base::diagnostic::Diagnostic;
use altgrad_config::OptimizerSection;
use altgrad_loader::{
    OptimizerPlugin, Registry,
    instance::{KeyedDiagnostic, OptionTable},
};
use wildmatch::WildMatch;

use crate::{model::Layout, optimizer::OptimizerGroups};

/// The run's optimizer and one more instance a group, with the group's options over the general ones.
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
            let hint = format!("they are named like {}", names.join(", "));
            return Err((format!("{key}.match"), Diagnostic::config(message).hint(hint)));
        }
        let mut values = section.settings.clone();
        values.extend(group.settings.clone());
        let plugin =
            OptimizerPlugin::make(registry, &section.name, OptionTable { key: &key, values: &values })
                // A group has no name of its own to point at.
                .map_err(|(fault, error)| match fault.strip_suffix(".name") {
                    Some(group) => (format!("{group}.match"), error),
                    None => (fault, error),
                })?;
        groups.add(plugin, group.lr_scale, &members);
    }
    Ok(groups)
}

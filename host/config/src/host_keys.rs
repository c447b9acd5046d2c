//! Keys of a plugin's table that the host reads itself: the plugin never gets an option of such a name.

use std::collections::BTreeSet;

use schemars::{JsonSchema, schema_for};

use crate::{OptimizerGroup, OptimizerSection, SinkSection};

/// The host's keys of `[optimizer]` and `[[optimizer.group]]`.
#[must_use]
pub fn optimizer_keys() -> BTreeSet<String> {
    &keys::<OptimizerSection>() | &keys::<OptimizerGroup>()
}

/// The host's keys of `[[sink]]`.
#[must_use]
pub fn sink_keys() -> BTreeSet<String> {
    keys::<SinkSection>()
}

fn keys<T: JsonSchema>() -> BTreeSet<String> {
    let schema = schema_for!(T);
    let properties = schema.get("properties").and_then(|properties| properties.as_object());
    properties.into_iter().flat_map(|keys| keys.keys().cloned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_guide_lists_the_keys_of_the_host() {
        let sink = ["deadline_s", "every", "exclude", "include", "layers_every", "name", "queue"];
        assert_eq!(sink_keys(), BTreeSet::from(sink.map(String::from)));
        let optimizer = ["group", "lr_scale", "match", "name", "states"];
        assert_eq!(optimizer_keys(), BTreeSet::from(optimizer.map(String::from)));
        let listed = |keys: &[&str]| keys.iter().map(|key| format!("`{key}`")).collect::<Vec<_>>().join(", ");
        let guide = include_str!("../../../docs/plugins.md");
        assert!(guide.contains(&listed(&sink)) && guide.contains(&listed(&optimizer)));
    }
}

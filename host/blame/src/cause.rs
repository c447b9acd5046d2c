//! What can be undone in a run, and its groups as a tree.

use std::{collections::BTreeMap, fmt};

use altgrad_config::{MasterWeightsChoice, RunConfig};
use altgrad_metrics::Role;

/// Something that separates a run from its unrounded baseline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cause {
    /// A cast, or those of both operands of a product with a transform, which cancels in both or in none.
    Cast {
        /// The uses of tensors.
        roles: Vec<Role>,
        /// The name of the parameter that names its layer, such as `h.0.mlp.c_fc.weight`.
        layer: String,
    },
    /// Weights that are stored on the grids of their formats, without master weights.
    MasterWeights,
    /// The stored type of an optimizer's state.
    State(String),
}

impl Cause {
    /// All causes of a run that rounds at these places.
    #[must_use]
    pub fn all(config: &RunConfig, casts: impl IntoIterator<Item = (Vec<Role>, String)>) -> Vec<Self> {
        let mut all: Vec<Self> =
            casts.into_iter().map(|(roles, layer)| Self::Cast { roles, layer }).collect();
        if config.quant.stores_weights() {
            all.push(Self::MasterWeights);
        }
        all.extend(config.optimizer.states.keys().cloned().map(Self::State));
        all
    }

    /// The group at each level of the tree, from the root's children to the leaf.
    fn path(&self) -> Vec<String> {
        match self {
            Self::Cast { roles, layer } => {
                let (roles, kind) = (joined(roles), layer_type(layer));
                vec![roles.clone(), format!("{roles}:*{kind}"), self.to_string()]
            }
            Self::MasterWeights | Self::State(_) => vec![self.to_string()],
        }
    }
}

fn joined(roles: &[Role]) -> String {
    let names: Vec<&str> = roles.iter().map(|role| role.name()).collect();
    names.join("+")
}

/// The name without its block.
fn layer_type(layer: &str) -> &str {
    let rest = layer.strip_prefix("h.").and_then(|rest| rest.split_once('.'));
    rest.filter(|(block, _)| block.parse::<usize>().is_ok()).map_or(layer, |(_, kind)| kind)
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cast { roles, layer } => write!(f, "{}:{layer}", joined(roles)),
            Self::MasterWeights => write!(f, "quant.master_weights"),
            Self::State(name) => write!(f, "optimizer.states.{name}"),
        }
    }
}

/// The run with some causes undone.
#[must_use]
pub fn undo<'a>(config: &RunConfig, causes: impl IntoIterator<Item = &'a Cause>) -> RunConfig {
    let mut config = config.clone();
    for cause in causes {
        match cause {
            Cause::Cast { roles, layer } => {
                let entries: Vec<String> =
                    roles.iter().map(|role| format!("{}:{layer}", role.name())).collect();
                let phases = config.quant.schedule.iter_mut().map(|phase| &mut phase.quant.unrounded);
                phases.for_each(|unrounded| unrounded.extend(entries.iter().cloned()));
                config.quant.unrounded.extend(entries);
            }
            Cause::MasterWeights => {
                config.quant.master_weights = MasterWeightsChoice::Fp32;
                let phases = config.quant.schedule.iter_mut();
                phases.for_each(|phase| phase.quant.master_weights = MasterWeightsChoice::Fp32);
            }
            Cause::State(name) => {
                config.optimizer.states.remove(name);
            }
        }
    }
    config
}

/// A group of causes, by index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CauseGroup {
    /// The role, role and layer type, or cause; a part of many groups says how many it has.
    pub name: String,
    /// Its causes.
    pub members: Vec<usize>,
    depth: usize,
}

/// Groups of more parts are halved instead of compared part by part.
const MOST_PARTS: usize = 8;

impl CauseGroup {
    /// All causes.
    #[must_use]
    pub fn root(causes: &[Cause]) -> Self {
        Self { name: "all".into(), members: (0..causes.len()).collect(), depth: 0 }
    }

    /// Its parts: none for a single cause.
    #[must_use]
    pub fn parts(&self, causes: &[Cause]) -> Vec<Self> {
        if self.members.len() < 2 {
            return Vec::new();
        }
        let mut depth = self.depth;
        loop {
            let mut parts: BTreeMap<String, Vec<usize>> = BTreeMap::new();
            for index in &self.members {
                let path = causes[*index].path();
                parts.entry(path[depth.min(path.len() - 1)].clone()).or_default().push(*index);
            }
            depth += 1;
            if parts.len() > 1 {
                let name = |name, members: &[usize]| match members {
                    [one] => causes[*one].to_string(),
                    _ => name,
                };
                let parts = parts.into_iter();
                let parts: Vec<Self> = parts
                    .map(|(part, members)| Self { name: name(part, &members), members, depth })
                    .collect();
                return if parts.len() > MOST_PARTS { halves(&parts, depth - 1) } else { parts };
            }
        }
    }
}

/// Two groups of about as many parts. `depth` is that of the parts' parent, since the halves have the same parts.
fn halves(parts: &[CauseGroup], depth: usize) -> Vec<CauseGroup> {
    let half = |parts: &[CauseGroup]| {
        let more = parts.len() - 1;
        CauseGroup {
            name: format!("{} and {more} more", parts[0].name),
            members: parts.iter().flat_map(|part| part.members.iter().copied()).collect(),
            depth,
        }
    };
    let (first, second) = parts.split_at(parts.len() / 2);
    vec![half(first), half(second)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cast(role: Role, layer: &str) -> Cause {
        Cause::Cast { roles: vec![role], layer: layer.into() }
    }

    #[test]
    fn groups_are_roles_then_layer_types_then_layers() {
        let mut causes = vec![cast(Role::Grad, "lm_head.weight"), Cause::State("exp_avg".into())];
        for block in 0..2 {
            causes.push(cast(Role::Weight, &format!("h.{block}.mlp.c_fc.weight")));
            causes.push(cast(Role::Grad, &format!("h.{block}.mlp.c_fc.weight")));
        }
        let names = |group: &CauseGroup| -> Vec<String> {
            group.parts(&causes).into_iter().map(|part| part.name).collect()
        };
        let root = CauseGroup::root(&causes);
        assert_eq!(names(&root), ["grad", "optimizer.states.exp_avg", "weight"]);
        let roles = root.parts(&causes);
        assert_eq!(names(&roles[0]), ["grad:lm_head.weight", "grad:*mlp.c_fc.weight"]);
        // A single layer type is passed over.
        assert_eq!(names(&roles[2]), ["weight:h.0.mlp.c_fc.weight", "weight:h.1.mlp.c_fc.weight"]);
        assert!(roles[1].parts(&causes).is_empty());
    }

    #[test]
    fn both_operands_of_a_product_with_a_transform_are_undone() {
        let roles = vec![Role::GradWgrad, Role::ActivationWgrad];
        let cause = Cause::Cast { roles, layer: "h.0.mlp.c_fc.weight".into() };
        assert_eq!(cause.to_string(), "grad_wgrad+activation_wgrad:h.0.mlp.c_fc.weight");
        let undone = undo(&RunConfig::default(), [&cause]).quant.unrounded;
        assert_eq!(undone, ["grad_wgrad:h.0.mlp.c_fc.weight", "activation_wgrad:h.0.mlp.c_fc.weight"]);
    }

    #[test]
    fn many_parts_are_halved_until_each_is_alone() {
        let causes: Vec<Cause> =
            (0..20).map(|block| cast(Role::Weight, &format!("h.{block}.mlp.c_fc.weight"))).collect();
        let mut groups = vec![CauseGroup::root(&causes)];
        let mut leaves = 0;
        while let Some(group) = groups.pop() {
            let parts = group.parts(&causes);
            assert!(parts.len() <= MOST_PARTS);
            assert_eq!(parts.iter().map(|part| part.members.len()).sum::<usize>() % group.members.len(), 0);
            leaves += usize::from(parts.is_empty());
            groups.extend(parts);
        }
        assert_eq!(leaves, 20);
    }
}

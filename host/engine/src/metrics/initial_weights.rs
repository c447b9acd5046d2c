//! The weights of a run before its first update, for distances from them.
//!
//! Weights drawn from the run file's seed are drawn again when they are needed, so neither memory nor checkpoints hold
//! them. Other weights, from a file or rounded to a grid, are kept.

use std::{borrow::Cow, sync::Arc};

use crate::model::{self, layout::ParamSpec};

/// A parameter's values before the first update.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) enum InitialWeights {
    /// Not measured.
    #[default]
    Unknown,
    /// Values drawn from this seed.
    Drawn(u64),
    /// These values.
    Kept(Arc<Vec<f32>>),
}

impl InitialWeights {
    /// Of these values of parameter number `param`, in a run with this seed.
    pub(super) fn of(values: &[f32], spec: &ParamSpec, param: usize, seed: u64) -> Self {
        if model::initial_values(spec, seed, param as u64) == values {
            Self::Drawn(seed)
        } else {
            Self::Kept(Arc::new(values.to_vec()))
        }
    }

    /// The values, if they are known.
    pub(super) fn values(&self, spec: &ParamSpec, param: usize) -> Option<Cow<'_, [f32]>> {
        match self {
            Self::Unknown => None,
            Self::Drawn(seed) => Some(Cow::Owned(model::initial_values(spec, *seed, param as u64))),
            Self::Kept(values) => Some(Cow::Borrowed(values)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::layout::Init;

    #[test]
    fn only_values_that_the_seed_does_not_draw_are_kept() {
        let spec = ParamSpec {
            name: "w".into(),
            shape: vec![40, 5],
            init: Init::Normal(0.02),
            attention_heads: None,
        };
        let drawn = model::initial_values(&spec, 7, 3);
        let mut changed = drawn.clone();
        changed[199] = changed[199].next_up();
        for (values, is_drawn) in [(&drawn, true), (&changed, false)] {
            let initial = InitialWeights::of(values, &spec, 3, 7);
            assert_eq!(initial == InitialWeights::Drawn(7), is_drawn);
            assert_eq!(initial.values(&spec, 3).as_deref(), Some(&values[..]));
        }
        // Another seed, another parameter, and none.
        assert_ne!(InitialWeights::of(&drawn, &spec, 3, 8), InitialWeights::Drawn(8));
        assert_ne!(InitialWeights::of(&drawn, &spec, 4, 7), InitialWeights::Drawn(7));
        assert_eq!(InitialWeights::Unknown.values(&spec, 3), None);
    }
}

//! The tensors of a checkpoint that hold an optimizer's states.

use altgrad_base::diagnostic::Diagnostic;
use altgrad_plugin_api::StateSpec;

use super::stored_state::StoredState;
use crate::tensor_file::TensorElements;

/// A tensor of a state, as a checkpoint holds it.
#[derive(Debug, Clone)]
pub struct OptimizerBuffer {
    /// The plugin's name for the state, and a suffix that distinguishes its tensors.
    pub name: String,
    /// Extents, if they are not the parameter's.
    pub shape: Option<Vec<usize>>,
    /// Elements.
    pub values: TensorElements,
}

/// An error with the name of the state that it is about.
pub(super) fn of_state(spec: &StateSpec, mut error: Diagnostic) -> Diagnostic {
    error.message = format!("state `{}`: {}", spec.name, error.message);
    error
}

/// The extents of a state of a parameter.
pub(super) fn shape_of(spec: &StateSpec, param: &[usize]) -> Vec<usize> {
    spec.shape.as_ref().map_or(param.to_vec(), |shape| shape.iter().map(|&extent| extent as usize).collect())
}

/// The buffers of a stored state.
pub(super) fn stored_buffers((spec, state): (&StateSpec, &StoredState)) -> Vec<OptimizerBuffer> {
    let own = |(suffix, shape, values): (&str, Option<Vec<usize>>, TensorElements)| {
        let whole = buffer(spec, values);
        let name = format!("{}{suffix}", whole.name);
        OptimizerBuffer { name, shape: shape.or(whole.shape), values: whole.values }
    };
    state.entries().into_iter().map(own).collect()
}

/// The buffer of a state with these elements.
pub(super) fn buffer(spec: &StateSpec, values: TensorElements) -> OptimizerBuffer {
    let shape = spec.shape.as_ref().map(|_| shape_of(spec, &[]));
    OptimizerBuffer { name: spec.name.to_string(), shape: shape.into_option(), values }
}

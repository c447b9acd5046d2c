//! The data of an update: parameters, states, grids.

use crate::stable::{
    StableAbi,
    std_types::{RSlice, RStr, RString, RVec},
};

use crate::{DType, FormatSpec, KernelOp, Scales, number::numbered};

/// A parameter: its name, shape and storage.
#[repr(C)]
#[derive(StableAbi, Debug, Clone, Copy)]
pub struct ParamInfo<'a> {
    /// Its name: `h.0.attn.c_attn.weight`.
    pub name: RStr<'a>,
    /// Extents in elements, outermost first; rank >= 2 usually means "decayed".
    pub shape: RSlice<'a, u64>,
    /// True if it is stored in its format, without a master copy: the host rounds it at the end of each update.
    pub rounded: bool,
}

impl<'a> ParamInfo<'a> {
    /// A parameter that is not rounded.
    #[must_use]
    pub fn new(name: &'a str, shape: &'a [u64]) -> Self {
        Self { name: name.into(), shape: shape.into(), rounded: false }
    }

    /// Number of axes.
    #[must_use]
    pub fn rank(&self) -> usize {
        self.shape.len()
    }
}

numbered! {
    /// The writer of a state.
    StateRole {
        /// The optimizer, in each update.
        OPTIMIZER = 0,
        /// The host, after each update of a [rounded](ParamInfo::rounded) parameter: the value that the optimizer left,
        /// less the value it was rounded to. The optimizer reads it (error feedback). Without rounding it keeps its
        /// initial value.
        ROUNDING_RESIDUAL = 1,
    }
}

/// A state buffer of a parameter that the plugin declares: same shape, host-owned, checkpointed by name.
///
/// The optimizer always receives f32. The run file may select another stored type, such as codes of a format with block
/// scales; the host converts before and after each update.
#[repr(C)]
#[derive(StableAbi, Debug, Clone, PartialEq)]
pub struct StateSpec {
    /// Name, unique within the parameter: at most 64 letters, digits, `-`, `_` and `.`, not beginning with a dot.
    pub name: RString,
    /// The stored element type, unless the run file selects another: [`DType::F32`] or [`DType::BF16`].
    pub dtype: DType,
    /// The value of every element before the first step; finite.
    pub initial: f64,
    /// The writer of the state.
    pub role: StateRole,
}

impl StateSpec {
    /// An f32 buffer of zeros that the optimizer writes.
    #[must_use]
    pub fn zeros(name: &str) -> Self {
        Self { name: name.into(), dtype: DType::F32, initial: 0.0, role: StateRole::OPTIMIZER }
    }

    /// The rounding residual, f32: see [`StateRole::ROUNDING_RESIDUAL`].
    #[must_use]
    pub fn rounding_residual(name: &str) -> Self {
        Self { role: StateRole::ROUNDING_RESIDUAL, ..Self::zeros(name) }
    }
}

/// Scalars of the whole step.
#[repr(C)]
#[derive(StableAbi, Debug, Clone, Copy, PartialEq)]
pub struct StepScalars {
    /// Learning rate of this step: that of the schedule times the parameter's `lr_scale`. Finite, 0 or more.
    pub lr: f64,
    /// Number of this update, from 1 (the t of bias correction).
    pub update: u64,
}

/// A kernel to launch for an update, and its numbers; [`kernel`](crate::kernel) defines their layout.
#[repr(C)]
#[derive(StableAbi, Debug, Clone, PartialEq, Eq)]
pub struct Launch {
    /// An operation that [`Optimizer::kernel`](crate::Optimizer::kernel) has a text for.
    pub op: KernelOp,
    /// Scalars after the host's own, as bit patterns.
    pub scalars: RVec<u32>,
}

/// The grid a parameter's forward copy is rounded to: the values of its format, divided by the scale of each block.
#[repr(C)]
#[derive(StableAbi, Debug, Clone, Copy)]
pub struct Grid<'a> {
    /// The format.
    pub spec: &'a FormatSpec,
    /// The scale of each block: scaled = scale * value. Empty in [`Optimizer::rule`](crate::Optimizer::rule), because
    /// no scale is known before the first step.
    pub scales: Scales<'a>,
}

impl Grid<'_> {
    /// The grid of the elements from `elements` on.
    #[must_use]
    pub const fn skip(self, elements: u64) -> Self {
        Self { scales: self.scales.skip(elements), ..self }
    }
}

numbered! {
    /// The part of a parameter on which its update depends.
    Scope {
        /// The whole parameter at once.
        WHOLE = 0,
        /// Each element alone: a step over any consecutive elements gives the same bits as a step over all. The host
        /// passes parts, several at the same time.
        ELEMENTS = 1,
        /// Norms, products of matrices: [`Optimizer::step_with_services`](crate::Optimizer::step_with_services) is
        /// called.
        SERVICES = 2,
    }
}

//! The data of an update: parameters, states, grids.

use crate::stable::{
    StableAbi,
    std_types::{ROption, RSlice, RStr, RString, RVec},
};

use crate::{DType, FormatSpec, KernelOp, RandomKey, Scales, number::numbered};

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

/// A state buffer that the plugin declares, of a parameter or of the whole optimizer: host-owned, checkpointed by name.
///
/// The optimizer always receives f32. The run file may select another stored type for the states of parameters, such as
/// codes of a format with block scales; the host converts before and after each update.
#[repr(C)]
#[derive(StableAbi, Debug, Clone, PartialEq)]
pub struct StateSpec {
    /// Name, unique within the parameter, or within the optimizer: at most 64 letters, digits, `-`, `_` and `.`, not
    /// beginning with a dot.
    pub name: RString,
    /// The stored element type, unless the run file selects another: [`DType::F32`] or [`DType::BF16`].
    pub dtype: DType,
    /// The value of every element before the first step; finite.
    pub initial: f64,
    /// The writer of the state.
    pub role: StateRole,
    /// Extents in elements, outermost first; no extent: one number. None: those of the parameter, which states of
    /// [`Scope::ELEMENTS`] and rounding residuals always have.
    pub shape: ROption<RVec<u64>>,
}

impl StateSpec {
    /// An f32 buffer of zeros that the optimizer writes.
    #[must_use]
    pub fn zeros(name: &str) -> Self {
        Self {
            name: name.into(),
            dtype: DType::F32,
            initial: 0.0,
            role: StateRole::OPTIMIZER,
            shape: ROption::RNone,
        }
    }

    /// The same of these extents: `[rows]`, `[rows, rows]`, or `[]` for one number.
    #[must_use]
    pub fn of_shape(self, shape: &[u64]) -> Self {
        Self { shape: ROption::RSome(shape.into()), ..self }
    }

    /// The extents of the state of a parameter of this shape.
    #[must_use]
    pub fn extents<'a>(&'a self, param: &'a [u64]) -> &'a [u64] {
        match &self.shape {
            ROption::RSome(shape) => shape,
            ROption::RNone => param,
        }
    }

    /// The number of its elements; none if it is beyond u64.
    #[must_use]
    pub fn elements(&self, param: &[u64]) -> Option<u64> {
        self.extents(param).iter().try_fold(1u64, |all, &extent| all.checked_mul(extent))
    }

    /// The rounding residual, f32: see [`StateRole::ROUNDING_RESIDUAL`].
    #[must_use]
    pub fn rounding_residual(name: &str) -> Self {
        Self { role: StateRole::ROUNDING_RESIDUAL, ..Self::zeros(name) }
    }
}

/// Scalars of a parameter's update.
#[repr(C)]
#[derive(StableAbi, Debug, Clone, Copy, PartialEq)]
pub struct StepScalars {
    /// Learning rate of this step: that of the schedule times the parameter's `lr_scale`. Finite, 0 or more.
    pub lr: f64,
    /// Number of this update, from 1 (the t of bias correction).
    pub update: u64,
    /// Updates of the whole run.
    pub updates: u64,
    /// Names the random bits of this parameter's update ([`random`](crate::random)); equal after a resume.
    pub key: RandomKey,
}

impl StepScalars {
    /// Of an update of a run that ends with it, with the random bits of seed 0.
    #[must_use]
    pub const fn new(lr: f64, update: u64) -> Self {
        let key = RandomKey { seed: 0, step: update, tensor: 0, offset: 0 };
        Self { lr, update, updates: update, key }
    }

    /// The same for the elements from `elements` on.
    #[must_use]
    pub const fn skip(self, elements: u64) -> Self {
        let key = RandomKey { offset: self.key.offset.wrapping_add(elements), ..self.key };
        Self { key, ..self }
    }
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
        /// All parameters of this scope that the instance updates, and the states of the whole optimizer: the same
        /// method is called once for all of them.
        GROUP = 3,
    }
}

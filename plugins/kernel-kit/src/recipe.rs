//! The arguments of each kernel; only this file defines their order.
//!
//! A kernel's loop ends at [`Scalar::Elements`]: a buffer may be longer than its shape.

use altgrad_plugin_api::{BufferRole, DType, KernelOp, MergeRule, kernel::table::GridConstant};

use crate::{rounder::Mode, tally::BIN_EXPONENTS};

/// A buffer argument.
#[derive(Debug, Clone, Copy)]
pub struct Buffer {
    /// The role of the buffer.
    pub role: BufferRole,
    /// The index among buffers of that role.
    pub index: u32,
    /// Element type.
    pub dtype: DType,
    /// True if it is accessed in vectors: the others have an element per word.
    pub vectors: bool,
    /// The kernel's access to it.
    pub access: Access,
}

/// The access of a kernel to a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Reads.
    Read,
    /// Writes all of it.
    Write,
    /// Both.
    Update,
}

/// A u32 scalar argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scalar {
    /// The host's scalar of that index: of a format, six words of the random key, then the elements that share a scale.
    Host(u32),
    /// The elements of the buffer of that index in the recipe: those of its shape.
    Elements(u32),
    /// A constant of the format's grid, which the plugin sets when the text is requested.
    Constant(GridConstant),
}

/// The description of a kernel besides its text.
#[derive(Debug, Clone)]
pub struct Recipe {
    /// For messages.
    pub name: String,
    /// The operation, with rounding mode or variant.
    pub op: KernelOp,
    /// Buffer arguments in order.
    pub buffers: Vec<Buffer>,
    /// Scalar arguments in order.
    pub scalars: Vec<Scalar>,
    /// The statistics words, in order.
    pub statistics: &'static [(&'static str, MergeRule)],
    /// Words of a slot of the partial sums: name and exponent.
    pub sums: Vec<(&'static str, i32)>,
}

/// A buffer that is accessed in vectors.
pub(crate) const fn values(role: BufferRole, dtype: DType, access: Access) -> Buffer {
    Buffer { role, index: 0, dtype, vectors: true, access }
}

/// A buffer that is accessed word by word.
pub(crate) const fn words(role: BufferRole, dtype: DType, access: Access) -> Buffer {
    Buffer { role, index: 0, dtype, vectors: false, access }
}

/// The statistics of fake quantization.
const STATISTICS: [(&str, MergeRule); 5] = [
    ("amax", MergeRule::MAX),
    ("overflow", MergeRule::ADD),
    ("underflow", MergeRule::ADD),
    ("nan", MergeRule::ADD),
    ("nonzero", MergeRule::ADD),
];

/// The arguments of [`fake_quant`](crate::kernels::fake_quant()) with a rounding mode.
#[must_use]
pub fn fake_quant(mode: Mode) -> Recipe {
    use GridConstant::{Edge, Largest, SignificandBits, Smallest};
    // Terms are products of two factors that were multiplied with 2^exponent each.
    let bins = |name| BIN_EXPONENTS.map(|exponent| (name, -2 * exponent));
    let constants = [Largest, Smallest, Edge, SignificandBits].map(Scalar::Constant);
    // The step is the third scalar.
    let step = (mode == Mode::Stochastic).then(|| words(BufferRole::STEP, DType::U32, Access::Read));
    let scalars = (0..7).filter(|index| step.is_none() || *index != 2);
    Recipe {
        name: format!("FakeQuant {mode:?}"),
        op: KernelOp::FAKE_QUANT.with_rounding(mode.rounding()),
        buffers: [
            values(BufferRole::SOURCE, DType::F32, Access::Read),
            values(BufferRole::DESTINATION, DType::F32, Access::Write),
            words(BufferRole::SCALES, DType::F32, Access::Read),
            words(BufferRole::STATISTICS, DType::U32, Access::Update),
            words(BufferRole::PARTIAL_SUMS, DType::F32, Access::Write),
        ]
        .into_iter()
        .chain(step)
        .collect(),
        scalars: scalars.map(Scalar::Host).chain(constants).chain([Scalar::Elements(0)]).collect(),
        statistics: &STATISTICS,
        sums: ["sum_x2", "sum_err2", "sum_x_xhat"].into_iter().flat_map(bins).collect(),
    }
}

//! Device kernels as text, which a plugin provides and the host launches.
//!
//! A kernel is a text in CUDA C++ or WGSL, which the library contains. The host compiles it for its device and launches
//! it on its own client. The interface has no types of a tensor library. [`table`] stores a plugin's texts and selects
//! one.
//!
//! Calling convention of the text:
//! - CUDA: `extern "C" __global__ void entry(T0* b0, .., const __grid_constant__ info_st info)`, buffers
//!   in the order of [`KernelText::buffers`], then the info block by value if it has any words.
//! - WGSL: `@group(0) @binding(i)` storage buffers in that order, then the info block as a read-only
//!   storage buffer.
//! - One-dimensional grid of any number of cubes from 1 to 65535: units stride over the data. Cubes beyond
//!   `ceil(n / (cube_dim * vector))` are idle; a small multiple of the number of multiprocessors is enough.
//! - Fewer than 2^31 elements per launch.
//! - Shared memory is declared in the text; none is dynamic.
//!
//! For each operation that it offers, a plugin has a text with `vector` 1, which accepts any length.
//!
//! Arguments of fake quantization:
//! - `SOURCE`, `DESTINATION`, `SCALES`, `STATISTICS` and optionally `PARTIAL_SUMS`. The kernel counts every field of
//!   [`QuantStats`](crate::QuantStats).
//! - `SCALES` is `[scale, inv_scale]` of each group of consecutive elements, `[groups, 2]`; a group's length is
//!   a multiple of `vector`.
//! - Scalars are [`launch_scalars`]: the random key and the length of a group. Modes other than stochastic accept any
//!   key. A stochastic launch with `vector` 4 needs a key whose offset is a multiple of 4.
//! - A stochastic kernel may have `STEP` and read the key's step there instead of from the scalars. Launches that are
//!   recorded and replayed keep their scalars: without `STEP` the host does not record them.
//! - A NaN becomes quiet and keeps its payload, on every device.
//!
//! Arguments of an update:
//! - The host launches the list of [`Optimizer::launches`](crate::Optimizer::launches) in order. A step has `PARAM`,
//!   `GRAD` and each `STATE`; every launch may have `SCRATCH`, which passes values from earlier to later launches.
//! - Every launch may have `SCALES`: the pairs of the [`Grid`](crate::Grid) that `launches` was given, in the order of
//!   its blocks; one block with scale 1 where there is no grid.
//! - Scalars are those of the [`Launch`](crate::Launch). A kernel computes the block of an element from them.
//!
//! Kernels of the host compute the statistics of updates.

use crate::stable::{
    StableAbi,
    std_types::{RString, RVec},
};

use crate::{DType, RandomKey, Rounding, number::numbered};

mod launch;
pub mod rules;
pub mod table;

numbered! {
    /// The operation of a kernel.
    KernelOp {
        /// [`Format::fake_quant`](crate::Format::fake_quant).
        FAKE_QUANT = 1,
        /// [`Optimizer::step`](crate::Optimizer::step).
        OPTIMIZER_STEP = 2,
        /// Computes values of a whole parameter before a step: fills `SCRATCH`.
        PREPARE_UPDATE = 3,
    }
}

impl KernelOp {
    /// The position of the rounding mode: the bits below it hold the operation.
    const ROUNDING_SHIFT: u32 = 8;

    /// The same operation with a rounding mode; a bare operation rounds to nearest-even.
    #[must_use]
    pub const fn with_rounding(self, rounding: Rounding) -> Self {
        Self(self.kind().0 | rounding.0 << Self::ROUNDING_SHIFT)
    }

    /// The position of the variant.
    const VARIANT_SHIFT: u32 = 16;

    /// One of several kernels for the same operation, numbered by the plugin.
    #[must_use]
    pub const fn with_variant(self, variant: u8) -> Self {
        Self(self.0 & ((1 << Self::VARIANT_SHIFT) - 1) | (variant as u32) << Self::VARIANT_SHIFT)
    }

    /// The operation without rounding mode and variant: one of the constants.
    #[must_use]
    pub const fn kind(self) -> Self {
        Self(self.0 & ((1 << Self::ROUNDING_SHIFT) - 1))
    }
}

/// The scalars of a launch: seed, step, tensor, offset (64-bit numbers as low and high word), and the number of
/// elements that share a scale.
#[must_use]
pub const fn launch_scalars(key: &RandomKey, group: u32) -> [u32; 7] {
    let &RandomKey { seed, step, tensor, offset } = key;
    [
        seed as u32,
        (seed >> 32) as u32,
        step as u32,
        tensor as u32,
        offset as u32,
        (offset >> 32) as u32,
        group,
    ]
}

numbered! {
    /// The language of a kernel text.
    KernelLanguage {
        /// CUDA C++, for NVRTC.
        CUDA = 1,
        /// WebGPU shading language.
        WGSL = 2,
    }
}

numbered! {
    /// The contents of a buffer.
    BufferRole {
        /// Values in, `[n]`.
        SOURCE = 1,
        /// Values out, `[n]`. Never the same memory as `SOURCE`.
        DESTINATION = 2,
        /// u32 statistics words, zeroed by the host.
        STATISTICS = 3,
        /// Scale and inverse of each block, f32 `[blocks, 2]`, on the device, so that amax -> scale needs no read-back.
        SCALES = 4,
        /// f32 sums of one launch, `[cubes, partial_sums.len()]`: one slot per cube, each written.
        PARTIAL_SUMS = 5,
        /// Parameter to update in place, `[n]`.
        PARAM = 6,
        /// Gradient, `[n]`.
        GRAD = 7,
        /// Optimizer state, `[n]`; `index` is its number.
        STATE = 8,
        /// u32 words, `[SCRATCH_WORDS]`, zeroed by the host before the first launch of an update.
        SCRATCH = 9,
        /// The step of the random key, u32 `[1]`.
        STEP = 10,
    }
}

/// Length of a `SCRATCH` buffer.
pub const SCRATCH_WORDS: usize = 256;

numbered! {
    /// The source of a value of the info block.
    InfoKind {
        /// `scalars[index]` as f32.
        SCALAR_F32 = 1,
        /// `scalars[index]` as u32.
        SCALAR_U32 = 2,
        /// Elements of `buffers[index]` divided by `divisor`, as u32.
        BUFFER_LEN = 3,
        /// `index` itself: a constant of the format, as u32.
        CONSTANT = 4,
    }
}

numbered! {
    /// The rule that combines the words of several launches.
    MergeRule {
        /// Sum.
        ADD = 1,
        /// Larger, as unsigned integers (f32 magnitudes compare so too).
        MAX = 2,
    }
}

/// The device of a requested kernel.
#[repr(C)]
#[derive(StableAbi, Debug, Clone, PartialEq, Eq)]
pub struct KernelTarget {
    /// Wanted language.
    pub language: KernelLanguage,
    /// CUDA: compute capability times ten (90); 0 elsewhere.
    pub architecture: u32,
    /// Largest number of elements per unit at once; every launch has `n % vector == 0`.
    pub vector: u32,
    /// Smallest and largest plane (warp, subgroup), in units.
    pub plane: [u32; 2],
    /// Largest number of units per cube (block, workgroup).
    pub max_units_per_cube: u32,
    /// Largest shared memory per cube, bytes.
    pub max_shared_bytes: u32,
}

/// One buffer argument.
#[repr(C)]
#[derive(StableAbi, Debug, Clone, PartialEq, Eq)]
pub struct KernelBuffer {
    /// Its contents.
    pub role: BufferRole,
    /// The index among buffers of that role (states), else 0.
    pub index: u32,
    /// Element type.
    pub dtype: DType,
    /// True if the kernel reads it.
    pub reads: bool,
    /// True if the kernel writes it.
    pub writes: bool,
}

/// One value of the info block.
#[repr(C)]
#[derive(StableAbi, Debug, Clone, PartialEq, Eq)]
pub struct InfoField {
    /// Byte offset in the block.
    pub offset: u32,
    /// The source of the value.
    pub kind: InfoKind,
    /// The index of the scalar or buffer; a constant's value.
    pub index: u32,
    /// Divides buffer lengths; 1 elsewhere.
    pub divisor: u32,
}

/// One word of the statistics buffer.
#[repr(C)]
#[derive(StableAbi, Debug, Clone, PartialEq, Eq)]
pub struct StatisticsWord {
    /// The statistic: a field of [`QuantStats`](crate::QuantStats).
    pub name: RString,
    /// The rule that combines words.
    pub merge: MergeRule,
}

/// One word of a slot of the partial sums.
///
/// The sums are f32, but squares of f32 exceed its range: a statistic is therefore split into words of different
/// exponents, to be added up in f64.
#[repr(C)]
#[derive(StableAbi, Debug, Clone, PartialEq, Eq)]
pub struct PartialSum {
    /// The statistic: a field of [`QuantStats`](crate::QuantStats).
    pub name: RString,
    /// A word `w` adds `w * 2^exponent` to it.
    pub exponent: i32,
}

/// A kernel: its text and its launch.
///
/// Owner: the receiver.
#[repr(C)]
#[derive(StableAbi, Debug, Clone, PartialEq, Eq)]
pub struct KernelText {
    /// The language of `source`.
    pub language: KernelLanguage,
    /// Name of the entry function.
    pub entry: RString,
    /// The text.
    pub source: RString,
    /// Units per cube, x y z.
    pub cube_dim: [u32; 3],
    /// Elements a unit handles; `n % vector == 0` at every launch.
    pub vector: u32,
    /// Buffer arguments in order.
    pub buffers: RVec<KernelBuffer>,
    /// The recipe of the info block.
    pub info: RVec<InfoField>,
    /// Size of the info block in u64 words; 0: there is none.
    pub info_words: u32,
    /// The words of the statistics buffer, in order.
    pub statistics: RVec<StatisticsWord>,
    /// The words of a slot of the partial sums, in order.
    pub partial_sums: RVec<PartialSum>,
}

//! What each kernel's arguments are: the one place that knows their order.

use altgrad_plugin_api::{BufferRole, DType, KernelOp, kernel::table::Limit};

use crate::{rounder::Mode, tally::BIN_EXPONENTS};

/// A buffer argument.
#[derive(Debug, Clone, Copy)]
pub struct Buffer {
    /// What it holds.
    pub role: BufferRole,
    /// Which one of that role.
    pub index: u32,
    /// Element type.
    pub dtype: DType,
    /// Whether it is accessed in vectors: the others have an element a word.
    pub vectors: bool,
    /// Whether the kernel reads and writes it.
    pub access: Access,
}

/// What a kernel does with a buffer.
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
    /// A constant of the format's domain, which the plugin fills in when asked for the text.
    Limit(Limit),
}

/// The words of a statistics buffer.
#[derive(Debug, Clone, Copy)]
pub enum Words {
    /// A format's: these.
    Named(&'static [&'static str]),
    /// An update's: `plugin-api`'s list.
    Update,
}

/// All that there is to know of a kernel besides its text.
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
    /// Names of the statistics words.
    pub statistics: Words,
    /// Words of a slot of the partial sums: name and exponent.
    pub sums: Vec<(&'static str, i32)>,
}

/// The kernels of a format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kernel {
    /// [`fake_quant`](crate::kernels::fake_quant()).
    FakeQuant,
    /// [`encode`](crate::kernels::encode()).
    Encode,
    /// [`decode`](crate::kernels::decode()).
    Decode,
    /// [`histogram`](crate::kernels::histogram()).
    Histogram,
}

/// A buffer that is accessed in vectors.
pub(crate) const fn values(role: BufferRole, dtype: DType, access: Access) -> Buffer {
    Buffer { role, index: 0, dtype, vectors: true, access }
}

/// A buffer that is accessed word by word.
pub(crate) const fn words(role: BufferRole, dtype: DType, access: Access) -> Buffer {
    Buffer { role, index: 0, dtype, vectors: false, access }
}

const SOURCE: Buffer = values(BufferRole::SOURCE, DType::F32, Access::Read);
const DESTINATION: Buffer = values(BufferRole::DESTINATION, DType::F32, Access::Write);
const PARAMETERS: Buffer = words(BufferRole::PARAMETERS, DType::F32, Access::Read);
const STATISTICS: Buffer = words(BufferRole::STATISTICS, DType::U32, Access::Update);

impl Kernel {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::FakeQuant, Self::Encode, Self::Decode, Self::Histogram];

    /// The operation, rounding to nearest-even.
    fn op(self) -> KernelOp {
        match self {
            Self::FakeQuant => KernelOp::FAKE_QUANT,
            Self::Encode => KernelOp::ENCODE,
            Self::Decode => KernelOp::DECODE,
            Self::Histogram => KernelOp::HISTOGRAM,
        }
    }

    /// Whether there is a text for each rounding mode.
    #[must_use]
    pub fn rounds(self) -> bool {
        matches!(self, Self::FakeQuant | Self::Encode)
    }

    /// The arguments, with a rounding mode.
    #[must_use]
    pub fn recipe(self, mode: Mode) -> Recipe {
        // Terms are products of two factors that were multiplied with 2^exponent each.
        let bins = |&name| BIN_EXPONENTS.map(|exponent| (name, -2 * exponent));
        Recipe {
            name: format!("{self:?} {mode:?}"),
            op: self.op().with_rounding(mode.rounding()),
            buffers: self.buffers(),
            scalars: self.scalars(),
            statistics: Words::Named(self.statistics()),
            sums: self.sums().iter().flat_map(bins).collect(),
        }
    }

    /// Buffer arguments in order.
    fn buffers(self) -> Vec<Buffer> {
        let codes = |access| values(BufferRole::CODES, DType::U32, access);
        match self {
            Self::FakeQuant => vec![
                SOURCE,
                DESTINATION,
                PARAMETERS,
                STATISTICS,
                words(BufferRole::PARTIAL_SUMS, DType::F32, Access::Write),
            ],
            Self::Encode => vec![SOURCE, codes(Access::Write), PARAMETERS, STATISTICS],
            Self::Decode => vec![codes(Access::Read), DESTINATION],
            Self::Histogram => {
                vec![codes(Access::Read), words(BufferRole::HISTOGRAM, DType::U32, Access::Update)]
            }
        }
    }

    /// Scalar arguments in order.
    fn scalars(self) -> Vec<Scalar> {
        let limits: &[Limit] = match self {
            Self::FakeQuant => &[Limit::MaxBits],
            Self::Encode => &[Limit::MaxCode, Limit::NanCode],
            Self::Decode => &[Limit::MaxCode, Limit::InfCode],
            Self::Histogram => &[],
        };
        let host = if self.rounds() { 0..7 } else { 0..0 };
        host.map(Scalar::Host).chain(limits.iter().map(|&limit| Scalar::Limit(limit))).collect()
    }

    /// Names of the statistics words in order; the first of fake quantization is a maximum, all others are sums.
    fn statistics(self) -> &'static [&'static str] {
        match self {
            Self::FakeQuant => &["amax", "overflow", "underflow", "nan", "nonzero"],
            Self::Encode => &["nan"],
            Self::Decode | Self::Histogram => &[],
        }
    }

    /// Names of the partial sums, three bins each.
    fn sums(self) -> &'static [&'static str] {
        match self {
            Self::FakeQuant => &["sum_x2", "sum_err2", "sum_x_xhat"],
            _ => &[],
        }
    }
}

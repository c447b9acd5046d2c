//! What each update kernel's arguments are.

use altgrad_plugin_api::{
    BufferRole, DType, KernelOp,
    kernel::{rules::Rule, update::Counting},
};

use crate::recipe::{Access, Buffer, Recipe, Scalar, Words, values, words};

/// A kernel of optimizers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Update {
    /// [`step`](super::step()).
    Step(Rule),
    /// [`prepare`](super::prepare()).
    Prepare,
    /// [`count`](super::count()).
    Count,
}

/// Adam's factors, what decay leaves, and seven words that describe a grid.
const STEP_SCALARS: usize = 14;

const STATISTICS: Buffer = words(BufferRole::STATISTICS, DType::U32, Access::Update);
const SUMS: Buffer = words(BufferRole::PARTIAL_SUMS, DType::F32, Access::Write);
const MEMORY: Buffer = values(BufferRole::MEMORY, DType::U32, Access::Update);
const GRAD: Buffer = values(BufferRole::GRAD, DType::F32, Access::Read);

const fn param(access: Access) -> Buffer {
    values(BufferRole::PARAM, DType::F32, access)
}

const fn state(index: u32) -> Buffer {
    Buffer { index, ..values(BufferRole::STATE, DType::F32, Access::Update) }
}

impl Update {
    /// The arguments.
    #[must_use]
    pub fn recipe(self) -> Recipe {
        let source = values(BufferRole::SOURCE, DType::F32, Access::Read);
        let (op, buffers, host) = match self {
            Self::Step(rule) => (
                rule.op(),
                vec![param(Access::Update), GRAD, state(0), state(1), MEMORY, STATISTICS, SUMS],
                0..Counting::WORDS + STEP_SCALARS,
            ),
            Self::Prepare => (
                KernelOp::PREPARE_UPDATE,
                vec![param(Access::Read), STATISTICS],
                Counting::WORDS..Counting::WORDS + 2,
            ),
            Self::Count => (
                KernelOp::COUNT_UPDATE,
                vec![source, param(Access::Read), GRAD, MEMORY, STATISTICS, SUMS],
                0..Counting::WORDS,
            ),
        };
        Recipe {
            name: format!("{self:?}"),
            op,
            buffers,
            scalars: host.map(|index| Scalar::Host(index as u32)).collect(),
            statistics: Words::Update,
            sums: if self == Self::Prepare { Vec::new() } else { vec![("ulp_sum", 0)] },
        }
    }
}

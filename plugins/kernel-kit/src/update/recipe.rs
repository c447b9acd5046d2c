//! The arguments of each update kernel.

use altgrad_plugin_api::{BufferRole, DType, KernelOp, kernel::rules::UpdateRule};

use crate::recipe::{Access, Buffer, Recipe, Scalar, values, words};

/// A kernel of optimizers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Update {
    /// [`step`](super::step()), or [`plain_step`](super::plain_step()) and [`power_step`](super::power_step()) for
    /// those rules.
    Step(UpdateRule),
    /// [`prepare`](super::prepare()).
    Prepare,
}

/// The host's scalars of plain rules: the factor of decay, and Adam's factors. The lengths of the parameter and of its
/// scales follow.
const PLAIN_SCALARS: u32 = 7;
/// The extents of blocks, and the number beside each other.
const BLOCK_SCALARS: u32 = 4;
/// The same, six words that describe a grid, and the blocks.
const STEP_SCALARS: u32 = PLAIN_SCALARS + 6 + BLOCK_SCALARS;
/// The grid's `2^emin`, and the blocks.
const PREPARE_SCALARS: u32 = 1 + BLOCK_SCALARS;

const GRAD: Buffer = values(BufferRole::GRAD, DType::F32, Access::Read);
const SCALES: Buffer = words(BufferRole::SCALES, DType::F32, Access::Read);

const fn param(access: Access) -> Buffer {
    values(BufferRole::PARAM, DType::F32, access)
}

const fn scratch(access: Access) -> Buffer {
    words(BufferRole::SCRATCH, DType::U32, access)
}

const fn state(index: u32) -> Buffer {
    Buffer { index, ..values(BufferRole::STATE, DType::F32, Access::Update) }
}

impl Update {
    /// The arguments.
    #[must_use]
    pub fn recipe(self) -> Recipe {
        let (op, buffers, scalars) = match self {
            Self::Step(rule) => {
                let mut buffers = vec![param(Access::Update), GRAD, state(0), state(1)];
                buffers.extend((rule != UpdateRule::Plain).then_some(SCALES));
                buffers.extend((rule == UpdateRule::Power).then_some(scratch(Access::Read)));
                (rule.op(), buffers, if rule == UpdateRule::Plain { PLAIN_SCALARS } else { STEP_SCALARS })
            }
            Self::Prepare => {
                let buffers = vec![param(Access::Read), SCALES, scratch(Access::Update)];
                (KernelOp::PREPARE_UPDATE, buffers, PREPARE_SCALARS)
            }
        };
        let scales = (0..).zip(&buffers).find(|(_, buffer)| buffer.role == BufferRole::SCALES);
        let lengths = [0].into_iter().chain(scales.map(|(index, _)| index)).map(Scalar::Elements);
        Recipe {
            name: format!("{self:?}"),
            op,
            scalars: (0..scalars).map(Scalar::Host).chain(lengths).collect(),
            buffers,
            statistics: &[],
            sums: Vec::new(),
        }
    }
}

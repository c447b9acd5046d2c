//! Scales of a piece of a slice, laid out as its loops read them.
//!
//! Where blocks begin and end between groups of [`LANES`] elements, each group has one scale; this holds for a tensor's one
//! scale, for blocks of 16, 32 and 128, and for tiles. Elsewhere (columns, odd rows) each element has its own.

use std::ops::Range;

use altgrad_plugin_api::{Runs, Scales};

use crate::piece::{Group, LANES, LaneScales};

/// Elements a piece: 8 KiB of f32.
pub(crate) const PIECE: usize = 2048;
const GROUPS: usize = PIECE / LANES;

/// The scales of one piece after the other.
#[derive(Debug)]
pub(crate) struct PieceScales<'a> {
    runs: Runs<'a>,
    /// The rest of a run that began in an earlier piece, and its pair.
    left: usize,
    pair: [f32; 2],
    layout: Layout,
}

#[derive(Debug)]
enum Layout {
    /// Of each group.
    PerGroup([[f32; 2]; GROUPS]),
    /// Scales and inverses of each element.
    PerElement(Box<[[Group<f32>; GROUPS]; 2]>),
}

/// The scales of some groups.
#[derive(Debug, Clone, Copy)]
pub(crate) enum GroupScales<'a> {
    /// Scale and inverse of each group.
    PerGroup(&'a [[f32; 2]]),
    /// Scales and inverses of each element.
    PerElement([&'a [Group<f32>]; 2]),
}

impl<'a> PieceScales<'a> {
    /// The scales of a call over `elements` elements, before its first piece.
    pub(crate) fn new(scales: &Scales<'a>, elements: usize) -> Self {
        let lanes = LANES as u64;
        let blocks = scales.blocks;
        // A tensor's only row ends with the tensor.
        let is_one_row = scales.first.saturating_add(elements as u64) <= blocks.columns;
        let is_one_block = scales.pairs.len() == 1;
        let per_group = is_one_block
            || scales.first.is_multiple_of(lanes)
                && blocks.block_columns.is_multiple_of(lanes)
                && (is_one_row || blocks.columns.is_multiple_of(lanes));
        let layout = if per_group {
            Layout::PerGroup([[1.0; 2]; GROUPS])
        } else {
            Layout::PerElement(Box::new([[[1.0; LANES]; GROUPS]; 2]))
        };
        Self { runs: scales.runs(elements), left: 0, pair: [1.0; 2], layout }
    }

    /// Goes on to the next piece, which has `elements` elements.
    pub(crate) fn advance(&mut self, elements: usize) {
        let mut next = 0;
        while next < elements {
            if self.left == 0 {
                let Some((range, pair)) = self.runs.next() else { return };
                (self.left, self.pair) = (range.len(), pair);
            }
            let end = elements.min(next + self.left);
            self.left -= end - next;
            match &mut self.layout {
                Layout::PerGroup(pairs) => pairs[next / LANES..end.div_ceil(LANES)].fill(self.pair),
                Layout::PerElement(both) => {
                    let [scales, inverses] = &mut **both;
                    scales.as_flattened_mut()[next..end].fill(self.pair[0]);
                    inverses.as_flattened_mut()[next..end].fill(self.pair[1]);
                }
            }
            next = end;
        }
    }

    /// The scales of some groups of the piece.
    pub(crate) fn groups(&self, groups: Range<usize>) -> GroupScales<'_> {
        match &self.layout {
            Layout::PerGroup(pairs) => GroupScales::PerGroup(&pairs[groups]),
            Layout::PerElement(both) => GroupScales::PerElement([&both[0][groups.clone()], &both[1][groups]]),
        }
    }
}

impl GroupScales<'_> {
    /// The scale of an element.
    pub(crate) fn of(&self, i: usize) -> f32 {
        match self {
            Self::PerGroup(pairs) => pairs[i / LANES][0],
            Self::PerElement([scales, _]) => scales[i / LANES][i % LANES],
        }
    }

    /// Whether all scales are finite and positive.
    pub(crate) fn are_sane(&self) -> bool {
        let sane = |scale: f32| scale > 0.0 && scale.is_finite();
        match self {
            Self::PerGroup(pairs) => pairs.iter().all(|[scale, _]| sane(*scale)),
            Self::PerElement([scales, _]) => scales.as_flattened().iter().all(|scale| sane(*scale)),
        }
    }
}

impl LaneScales for &[[f32; 2]] {
    #[inline(always)]
    fn of(&self, group: usize) -> [Group<f32>; 2] {
        let [scale, inverse] = self[group];
        [[scale; LANES], [inverse; LANES]]
    }
}

impl LaneScales for [&[Group<f32>]; 2] {
    #[inline(always)]
    fn of(&self, group: usize) -> [Group<f32>; 2] {
        [self[0][group], self[1][group]]
    }
}

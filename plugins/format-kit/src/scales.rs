//! Scales of a piece of a slice, laid out as its loops read them.
//!
//! If blocks begin and end between groups of [`LANES`] elements, each group has one scale; this holds for a tensor's
//! one scale, for blocks of 16, 32 and 128, and for tiles. Elsewhere (columns, odd rows) each element has its own.

use std::ops::Range;

use altgrad_plugin_api::{Blocks, Scales};

use crate::piece::{Group, LANES, LaneScales};

/// Elements per piece: 8 KiB of f32.
pub(crate) const PIECE: usize = 2048;
const GROUPS: usize = PIECE / LANES;

/// A scale and its inverse.
type Pair = [f32; 2];

/// The scales of one piece after the other.
#[derive(Debug)]
pub(crate) struct PieceScales<'a> {
    pairs: &'a [Pair],
    blocks: Blocks,
    blocks_per_row: u64,
    /// Index of the next piece's first element within the tensor.
    next: u64,
    layout: Layout,
}

#[derive(Debug)]
// The usual variant is the large one: calls with it allocate nothing.
#[allow(clippy::large_enum_variant)]
enum Layout {
    /// Of each group.
    PerGroup([Pair; GROUPS]),
    /// Of each element.
    PerElement(Box<[Group<Pair>; GROUPS]>),
}

/// The scales of some groups.
#[derive(Debug, Clone, Copy)]
pub(crate) enum GroupScales<'a> {
    /// Of each group.
    PerGroup(&'a [Pair]),
    /// Of each element.
    PerElement(&'a [Group<Pair>]),
}

impl<'a> PieceScales<'a> {
    /// The scales of a call over `elements` elements, before its first piece. [`Scales::check`] comes first.
    pub(crate) fn new(scales: &Scales<'a>, elements: usize) -> Self {
        let (pairs, lanes) = (scales.pairs.as_slice(), LANES as u64);
        let is_one_block = pairs.len() == 1;
        let (blocks, first) = if is_one_block { (Blocks::WHOLE, 0) } else { (scales.blocks, scales.first) };
        // A tensor's only row ends with the tensor.
        let is_one_row = first.saturating_add(elements as u64) <= blocks.columns;
        let per_group = is_one_block
            || first.is_multiple_of(lanes)
                && blocks.block_columns.is_multiple_of(lanes)
                && (is_one_row || blocks.columns.is_multiple_of(lanes));
        let layout = if per_group {
            Layout::PerGroup([[1.0; 2]; GROUPS])
        } else {
            Layout::PerElement(Box::new([[[1.0; 2]; LANES]; GROUPS]))
        };
        let blocks_per_row = blocks.columns.div_ceil(blocks.block_columns);
        Self { pairs, blocks, blocks_per_row, next: first, layout }
    }

    /// Advances to the next piece, which has `elements` elements.
    pub(crate) fn advance(&mut self, elements: usize) {
        let Blocks { columns, block_rows, block_columns } = self.blocks;
        // A place is a group or an element.
        let (mut places, place) = match &mut self.layout {
            Layout::PerGroup(pairs) => (&mut pairs[..elements.div_ceil(LANES)], LANES as u64),
            Layout::PerElement(pairs) => (&mut pairs.as_flattened_mut()[..elements], 1),
        };
        let at_most_a_piece = |elements: u64| elements.div_ceil(place).min(PIECE as u64) as usize;
        while !places.is_empty() {
            let (row, column) = (self.next / columns, self.next % columns);
            let in_row = at_most_a_piece(columns - column).min(places.len());
            let block = row / block_rows * self.blocks_per_row + column / block_columns;
            let left_in_block = at_most_a_piece(block_columns - column % block_columns);
            let pairs = &self.pairs[block as usize..];
            spread(pairs, left_in_block, at_most_a_piece(block_columns), &mut places[..in_row]);
            self.next = self.next.wrapping_add(in_row as u64 * place);
            places = &mut places[in_row..];
        }
    }

    /// The scales of some groups of the piece.
    pub(crate) fn groups(&self, groups: Range<usize>) -> GroupScales<'_> {
        match &self.layout {
            Layout::PerGroup(pairs) => GroupScales::PerGroup(&pairs[groups]),
            Layout::PerElement(pairs) => GroupScales::PerElement(&pairs[groups]),
        }
    }
}

/// Writes the first pair to `first` places and each later one to `times`, as far as there are places.
fn spread(pairs: &[Pair], first: usize, times: usize, places: &mut [Pair]) {
    let Some((pair, pairs)) = pairs.split_first() else { return };
    let (head, rest) = places.split_at_mut(first.min(places.len()));
    head.fill(*pair);
    // Blocks of one place and of two are the usual ones.
    match times {
        1 => repeat::<1>(pairs, rest),
        2 => repeat::<2>(pairs, rest),
        _ => rest.chunks_mut(times).zip(pairs).for_each(|(places, pair)| places.fill(*pair)),
    }
}

fn repeat<const TIMES: usize>(pairs: &[Pair], places: &mut [Pair]) {
    let (blocks, last) = places.as_chunks_mut::<TIMES>();
    for (places, pair) in blocks.iter_mut().zip(pairs) {
        *places = [*pair; TIMES];
    }
    if let Some(pair) = pairs.get(blocks.len()) {
        last.fill(*pair);
    }
}

impl GroupScales<'_> {
    /// The scale of an element.
    pub(crate) fn of(&self, i: usize) -> f32 {
        match self {
            Self::PerGroup(pairs) => pairs[i / LANES][0],
            Self::PerElement(pairs) => pairs[i / LANES][i % LANES][0],
        }
    }

    /// True if all scales are finite and positive.
    pub(crate) fn are_sane(&self) -> bool {
        let pairs = match self {
            Self::PerGroup(pairs) => pairs,
            Self::PerElement(pairs) => pairs.as_flattened(),
        };
        // To the end in any case, because that vectorises.
        pairs.iter().fold(true, |sane, &[scale, _]| sane & (scale > 0.0) & (scale < f32::INFINITY))
    }
}

impl LaneScales for &[Pair] {
    #[inline(always)]
    fn of(&self, group: usize) -> [Group<f32>; 2] {
        let [scale, inverse] = self[group];
        [[scale; LANES], [inverse; LANES]]
    }
}

impl LaneScales for &[Group<Pair>] {
    #[inline(always)]
    fn of(&self, group: usize) -> [Group<f32>; 2] {
        let pairs = self[group];
        [pairs.map(|[scale, _]| scale), pairs.map(|[_, inverse]| inverse)]
    }
}

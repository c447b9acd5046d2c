//! The index of an element's scale: `plugin-api`'s `Blocks`, on a device.

use cubecl_core as cubecl;
use cubecl_core::prelude::*;

/// The split of a parameter into blocks; extents beyond 32 bits are stored as the largest u32.
#[derive(CubeType, Clone, Copy)]
pub struct Blocks {
    /// Elements of a row of the matrix.
    pub columns: u32,
    pub block_rows: u32,
    pub block_columns: u32,
    /// Blocks beside each other.
    pub per_row: u32,
    /// Words of all scales: two of each.
    pub words: u32,
}

#[cube]
impl Blocks {
    /// Place of an element's scale; its inverse follows.
    fn place(&self, element: u32) -> u32 {
        let row = element / self.columns;
        let column = element - row * self.columns;
        2u32 * (row / self.block_rows * self.per_row + column / self.block_columns)
    }
}

/// Places of the scales of a vector's elements, without a division if there is only one scale.
#[cube]
pub fn places<N: Size>(position: usize, blocks: &Blocks) -> Vector<u32, N> {
    let mut places = Vector::<u32, N>::zeroed();
    if blocks.words > 2u32 {
        let first = (position * N::value()) as u32;
        #[unroll]
        for i in 0..N::value() {
            places.insert(i, blocks.place(first + i as u32));
        }
    }
    places
}

/// The values at these places: `behind` is 0 for scales, 1 for their inverses.
#[cube]
pub fn at<N: Size>(scales: &[f32], places: Vector<u32, N>, #[comptime] behind: u32) -> Vector<f32, N> {
    let mut found = Vector::<f32, N>::empty();
    #[unroll]
    for i in 0..N::value() {
        found.insert(i, scales[(places.extract(i) + behind) as usize]);
    }
    found
}

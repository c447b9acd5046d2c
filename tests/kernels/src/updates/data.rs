//! The inputs of update tests: scales of blocks, and parameters with their gradients and moments.

use altgrad_conformance::Random;
use altgrad_optimizer_kit::testing::{layouts, scales};
use altgrad_plugin_api::{Blocks, Scales};

use crate::formats::Subject;

/// Columns of the matrix that a parameter is cut into blocks as.
const COLUMNS: u64 = 45;
/// As many elements as no parameter has.
const MOST: usize = 1 << 12;

/// Scales and inverses, and the blocks that share them.
#[derive(Debug, Clone)]
pub struct Scaled {
    pub pairs: Vec<[f32; 2]>,
    pub blocks: Blocks,
}

impl Scaled {
    fn new(scales: &[f32], blocks: Blocks) -> Self {
        Self { pairs: scales.iter().map(|&scale| [scale, 1.0 / scale]).collect(), blocks }
    }

    /// One scale.
    #[must_use]
    pub fn whole(scale: f32) -> Self {
        Self::new(&[scale], Blocks::WHOLE)
    }

    /// Scales that differ, by channel, parts of rows, column, tile, and consecutive elements.
    #[must_use]
    pub fn by_block() -> [Self; 5] {
        layouts(COLUMNS).map(|blocks| Self::new(&scales(blocks, MOST), blocks))
    }

    /// The same blocks, all with this scale.
    #[must_use]
    pub fn all_equal(&self, scale: f32) -> Self {
        Self::new(&vec![scale; self.pairs.len()], self.blocks)
    }

    /// As the contract has them.
    #[must_use]
    pub fn scales(&self) -> Scales<'_> {
        Scales::new(&self.pairs, self.blocks)
    }

    /// The scale of an element.
    #[must_use]
    pub fn scale(&self, element: usize) -> f32 {
        self.scales().of(element as u64)[0]
    }
}

/// A parameter with its gradient and moments.
#[derive(Debug, Clone)]
pub struct Data {
    /// `[n]` each.
    pub w: Vec<f32>,
    pub g: Vec<f32>,
    pub m: Vec<f32>,
    pub v: Vec<f32>,
}

impl Data {
    /// Weights on all codes, between them, at and beyond the ends, below the smallest, and zeros of both signs; moments
    /// that point as the gradient does; if `broken`, a NaN in each place, and infinities.
    pub fn new(subject: &Subject, blocks: &Scaled, broken: bool) -> Self {
        let (grid, mut random) = (&subject.grid, Random(11));
        let mut w = vec![0.0, -0.0, 1e-30, -1e-30];
        for code in 0..=grid.max_code() {
            let value = grid.decode(code);
            for x in [value, value.next_up(), value * 1.3, value * 0.71] {
                w.extend([x, -x]);
            }
        }
        let len = (w.len() + 300).next_multiple_of(4);
        let top = f64::from(grid.max_finite()).log2();
        w.extend((w.len()..len).map(|_| {
            // Any binade of the format, and some below.
            let binades = top - f64::from(grid.emin()) + 10.0;
            let exponent = top - binades * random.unit();
            (exponent.exp2() * random.gaussian().signum()) as f32
        }));
        for (i, w) in w.iter_mut().enumerate() {
            *w /= blocks.scale(i);
        }
        let mut unit = || random.unit() as f32 + 1e-3;
        let (mut g, mut m, mut v) = (Vec::new(), Vec::new(), Vec::new());
        for i in 0..len {
            let sign = if i % 3 == 0 { -1.0 } else { 1.0 };
            let size = 10f32.powi(i as i32 % 5 - 3);
            g.push(sign * size * unit());
            m.push(sign * size * unit());
            v.push(size * size * unit());
        }
        // Elements without gradient, and without any past.
        (g[9], g[10], m[10], v[10]) = (0.0, 0.0, 0.0, 0.0);
        if broken {
            (w[20], g[21], m[22], v[23]) = (f32::NAN, f32::NAN, f32::NAN, f32::NAN);
            (g[24], m[25]) = (f32::INFINITY, f32::NEG_INFINITY);
        }
        Self { w, g, m, v }
    }

    /// All but the last, so that the length is no multiple of four.
    #[must_use]
    pub fn shorter(mut self) -> Self {
        for values in [&mut self.w, &mut self.g, &mut self.m, &mut self.v] {
            values.pop();
        }
        self
    }
}

//! The choice of a block's table, and of its scale, for formats that choose these themselves.
//!
//! A table with another end than the target is scaled by its own end: a block's magnitude is that of its elements times
//! the target over the end of the table on their side. The scale then follows from the rule of the cast. Definition:
//! docs/numerics.md, section 4.7.

use altgrad_plugin_api::{QuantParams, Tabulated};

use crate::{
    BlockGrid, CastError, Scaling,
    own_blocks::OwnBlocks,
    prepared::count_beyond,
    range::{Range, bounds},
    scale_rule::BlockStatistics,
    scaling::BlockScale,
};

/// Number of the table and scale of a block with these elements.
///
/// # Errors
/// The format gives no magnitude.
pub(crate) fn choose(
    own: &OwnBlocks,
    scaling: &Scaling,
    range: &Range,
    block: &BlockStatistics,
    elements: &[f32],
) -> Result<(u16, BlockScale), CastError> {
    let mut ends = ends(elements);
    let at = |magnitude: f32| scaling.block_scale_at(range, block, magnitude);
    if let Some(most) = own.magnitude_of(elements) {
        let most = most.map_err(CastError::Magnitude)?;
        if !own.have_tables() {
            return Ok((0, at(most)));
        }
        ends = [ends[0].max(-most), ends[1].min(most)];
    }
    let (mut best, mut least) = ((0, ends[1].max(-ends[0])), f64::INFINITY);
    for (number, table) in (0u16..).zip(own.tables()) {
        let Some(magnitude) = fitted(table.ends(), ends, range.target) else { continue };
        let cost = if own.take_largest_scale() {
            f64::from(magnitude)
        } else {
            error(table, scaling, &at(magnitude), elements)
        };
        if cost < least {
            (best, least) = ((number, magnitude), cost);
        }
    }
    let (table, magnitude) = best;
    Ok((table, at(magnitude)))
}

/// The number of scaled elements beyond the table of their block.
pub(crate) fn count_beyond_tables(
    own: &OwnBlocks,
    (scaled, layout, tables): (&[f32], &BlockGrid, &[u16]),
) -> usize {
    let of = |(block, run): (usize, std::ops::Range<usize>)| {
        count_beyond(&scaled[run], bounds(own.table(tables[block]).ends()))
    };
    layout.runs().map(of).sum()
}

/// The least and the largest finite element, 0 included.
fn ends(elements: &[f32]) -> [f32; 2] {
    let finite = elements.iter().copied().filter(|x| x.is_finite());
    finite.fold([0.0, 0.0], |[least, most], x| [least.min(x), most.max(x)])
}

/// The magnitude of elements between `ends` whose scale to `target` takes them to the ends of a table; `None` if they
/// are beyond the table at every scale.
fn fitted(table: [f32; 2], ends: [f32; 2], target: f32) -> Option<f32> {
    let side = |end: f32, of_table: f32| match (end, of_table) {
        (0.0, _) => Some(0.0),
        // A block with a number that is not 0 has no scale of zeros.
        (_, of_table) if of_table > 0.0 => {
            let fitted = (f64::from(end) * f64::from(target) / f64::from(of_table)) as f32;
            Some(fitted.max(f32::from_bits(1)))
        }
        _ => None,
    };
    let (above, below) = (side(ends[1], table[1])?, side(-ends[0], -table[0])?);
    Some(above.max(below).min(f32::MAX))
}

/// The sum of squared errors of elements at a scale, rounded to nearest.
fn error(table: &Tabulated, scaling: &Scaling, scale: &BlockScale, elements: &[f32]) -> f64 {
    let mut scaled = elements.to_vec();
    let pair = [scale.encode, scale.decode];
    scaling.quantize.quantize_all(&mut scaled, pair);
    let mut rounded = vec![0.0; scaled.len()];
    if table.fake_quant(&scaled, &mut rounded, &QuantParams::IDENTITY, &mut []).is_err() {
        return f64::INFINITY;
    }
    scaling.dequantize.dequantize_all(&mut rounded, pair);
    let finite = elements.iter().zip(&rounded).filter(|(x, _)| x.is_finite());
    finite.map(|(x, y)| (f64::from(*y) - f64::from(*x)).powi(2)).sum()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::sync::Arc;

    use altgrad_plugin_api::{CodebookChoice, Conventions, FormatSpec, RandomKey};

    use super::*;
    use crate::{Axis, Block, Cast, Grid, Shape};

    /// Four codes: -2, -1, 0, 1.
    const VALUES: [f32; 4] = [-2.0, -1.0, 0.0, 1.0];

    fn applied(grid: &Grid, values: &[f32], block: Block) -> crate::Applied {
        let (cast, shape) = (Cast { block, ..Cast::default() }, Shape { rows: 1, columns: values.len() });
        let key = RandomKey::default();
        let prepared = cast.prepare(grid, values, shape, Axis::Rows, &key).unwrap();
        let codes = match cast.codes_of_tables(grid, &prepared, &key).unwrap() {
            Some(codes) => codes,
            None => cast
                .codes(grid, prepared.scaled(), &key, |scaled, rounding| {
                    let mut codes = vec![0; scaled.len()];
                    let params = QuantParams { rounding, ..QuantParams::IDENTITY };
                    grid.rounder().unwrap().encode(scaled, &mut codes, &params).map(|()| codes)
                })
                .unwrap(),
        };
        prepared.finish(grid, codes).unwrap()
    }

    fn grid(conventions: Conventions) -> Grid {
        Grid::new(&FormatSpec::Table(VALUES.to_vec().into()), &conventions).unwrap()
    }

    #[test]
    fn a_zero_point_follows_the_signs_of_a_block() {
        let grid = grid(Conventions::default().shifted_by(&VALUES, [-2.0, -1.0, 1.0]));
        // From -2 to 1, from 0 to 3, from -3 to 0, from -1 to 2, then zeros.
        let blocks = [[-4.0, 2.0], [3.0, 9.0], [-6.0, -0.6], [-1.0, 2.0], [0.0, 0.0]];
        let applied = applied(&grid, blocks.as_flattened(), Block::Along(2));
        assert_eq!(applied.tables, [0, 1, 3, 2, 0]);
        assert_eq!(applied.values, [-4.0, 2.0, 3.0, 9.0, -6.0, -0.0, -1.0, 2.0, 0.0, 0.0]);
        assert_eq!(applied.codes, [0, 3, 1, 3, 0, 3, 0, 3, 2, 2]);
        assert_eq!(applied.scales, [2.0, 3.0, 2.0, 1.0, 1.0]);
        assert_eq!(applied.overflow, 0);
    }

    #[test]
    fn a_block_takes_the_table_with_the_least_error() {
        let near_zero = vec![-1.0, -0.25, 0.25, 1.0];
        let grid = Grid::new(
            &FormatSpec::Table(vec![-1.0, -0.5, 0.5, 1.0].into()),
            &Conventions::default().choosing(CodebookChoice::LEAST_ERROR, [near_zero]),
        )
        .unwrap();
        let blocks = [[4.0, 1.1, -1.0, 0.9], [4.0, 2.0, -2.1, 1.9], [1.0, 1.0, 1.0, -1.0]];
        let applied = applied(&grid, blocks.as_flattened(), Block::Along(4));
        // Equal errors: the first.
        assert_eq!(applied.tables, [1, 0, 0]);
        assert_eq!(applied.values, [4.0, 1.0, -1.0, 1.0, 4.0, 2.0, -2.0, 2.0, 1.0, 1.0, 1.0, -1.0]);
    }

    #[test]
    fn magnitudes_of_the_format_are_scaled_to_the_target() {
        let half = |block: &[f32]| Ok(block.iter().fold(0f32, |most, x| most.max(x.abs())) / 2.0);
        let grid = grid(Conventions::default().with_magnitude()).with_magnitude(Arc::new(half));
        let found = applied(&grid, &[4.0, 1.9, -8.0, 0.5], Block::Along(2));
        assert_eq!(found.scales, [2.0, 4.0]);
        assert_eq!(found.values, [2.0, 2.0, -8.0, 0.0]);
        assert_eq!((found.overflow, found.tables.len()), (1, 0));
        let without = self::grid(Conventions::default().with_magnitude());
        let shape = Shape { rows: 1, columns: 1 };
        let refused = Cast::default().prepare(&without, &[1.0], shape, Axis::Rows, &RandomKey::default());
        assert!(matches!(refused, Err(CastError::Magnitude(_))));
    }

    #[test]
    fn scales_of_the_tensor_do_not_combine_with_tables() {
        let grid = grid(Conventions::default().shifted_by(&VALUES, [1.0]));
        let mut cast = Cast { block: Block::Along(16), ..Cast::default() };
        assert!(cast.check(&grid).is_ok());
        cast.scaling.storage = crate::Storage::E4m3;
        assert!(cast.check(&grid).is_ok());
        cast.scaling.tensor = true;
        assert!(cast.check(&grid).is_err());
    }
}

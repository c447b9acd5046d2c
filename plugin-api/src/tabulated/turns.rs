//! The search of an element's place among ascending values.
//!
//! The leading bits of an element leave few values to compare it with. The search has no branch that depends on the
//! element, so that none waits for another.

/// The leading bits of an f32: sign, exponent and two bits of the significand.
const LEADING: u32 = 11;

/// Where rounding turns from each value to the next: the least f32 that goes to the upper one.
#[derive(Debug, Clone)]
pub(super) struct Turns {
    /// Ascending, then NaN, which nothing reaches, for each step of the search beyond the last.
    least: Vec<f32>,
    /// For all leading bits, the number of turns at or below the least f32 with these bits.
    first: Box<[u16; 1 << LEADING]>,
    /// Halvings that find the place of an element among the turns with its leading bits.
    halvings: u32,
}

impl Turns {
    /// The turns between `values`, which ascend, at most 2^16. `goes_up(i, x)` says for an `x` strictly between value
    /// `i` and the next whether it goes to the next one; it holds from some `x` on.
    pub(super) fn new(values: &[f32], goes_up: impl Fn(usize, f32) -> bool) -> Self {
        let turn = |index: usize| {
            let (mut below, mut turned) = (rank(values[index]), rank(values[index + 1]));
            while below + 1 < turned {
                let middle = i32::midpoint(below, turned);
                *(if goes_up(index, value(middle)) { &mut turned } else { &mut below }) = middle;
            }
            value(turned)
        };
        let mut least: Vec<f32> = (0..values.len() - 1).map(turn).collect();
        let mut first = Box::new([0; 1 << LEADING]);
        let mut most = 0;
        for (leading, first) in (0u32..).zip(first.iter_mut()) {
            let ends = [0, (1 << (u32::BITS - LEADING)) - 1];
            let mut ends = ends.map(|rest| f32::from_bits((leading << (u32::BITS - LEADING)) | rest));
            ends.sort_by(f32::total_cmp);
            let [low, high] = ends.map(|end| least.partition_point(|turn| *turn <= end));
            *first = low as u16;
            most = most.max(high.saturating_sub(low));
        }
        let places = (most + 1).next_power_of_two();
        least.extend(std::iter::repeat_n(f32::NAN, places));
        Self { least, first, halvings: places.ilog2() }
    }

    /// The number of turns at or below `x`, which is the index of its value; some index for NaN.
    #[inline]
    pub(super) fn index(&self, x: f32) -> u32 {
        let mut index = usize::from(self.first[(x.to_bits() >> (u32::BITS - LEADING)) as usize]);
        for half in (0..self.halvings).rev() {
            // A shift: compilers make a branch of a product, which is predicted wrongly for one element in three.
            index += usize::from(x >= self.least[index + (1 << half) - 1]) << half;
        }
        index as u32
    }
}

/// Finite values in ascending order as integers; both zeros have 0.
fn rank(value: f32) -> i32 {
    let magnitude = value.abs().to_bits().cast_signed();
    if value.is_sign_negative() { -magnitude } else { magnitude }
}

/// The value of this rank.
fn value(rank: i32) -> f32 {
    let magnitude = f32::from_bits(rank.unsigned_abs());
    if rank < 0 { -magnitude } else { magnitude }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rank_is_that_of_its_value() {
        for at in [0, 1, -1, 1000, -1000, rank(f32::MAX), rank(f32::MIN), rank(f32::MIN_POSITIVE)] {
            assert_eq!(rank(value(at)), at);
        }
        assert_eq!(rank(-0.0), 0);
    }

    #[test]
    fn turns_are_found_to_the_bit_among_few_and_many() {
        for count in [2u8, 3, 16, 33, 34, 200, 255] {
            let values: Vec<f32> = (0..count).map(|i| f32::from(i) - 7.0).collect();
            // A third of the way up, inclusive.
            let bound = |i: usize| values[i] + 1.0 / 3.0;
            let turns = Turns::new(&values, |i, x| x >= bound(i));
            let inner = (0..values.len() - 1).flat_map(|i| {
                let turn = bound(i);
                [(values[i], i), (turn.next_down(), i), (turn, i + 1), (values[i + 1], i + 1)]
            });
            let last = values.len() - 1;
            let outer = [(f32::NEG_INFINITY, 0), (-1e9, 0), (f32::INFINITY, last), (1e9, last)];
            for (x, expected) in inner.chain(outer) {
                assert_eq!(turns.index(x) as usize, expected, "{x} among {count} values");
            }
            assert!([f32::NAN, -f32::NAN].into_iter().all(|nan| turns.index(nan) as usize <= last));
        }
    }
}

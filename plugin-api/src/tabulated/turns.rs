//! The search of an element's place among ascending values.
//!
//! The leading bits of an element leave few values to compare it with, mostly one. The search has no branch that
//! depends on the element, so that none waits for another.

/// The leading bits of an f32 that choose what it is compared with: sign, exponent, and from two to seven bits of the
/// significand, as few as leave one comparison.
const LEADING: [u32; 2] = [11, 16];

/// Where rounding turns from each value to the next: the least f32 that goes to the upper one.
#[derive(Debug, Clone)]
pub(super) struct Turns {
    /// Ascending, then NaN, which nothing reaches, for each step of the search beyond the last.
    least: Vec<f32>,
    /// For all leading bits, the number of turns at or below the least f32 with these bits.
    first: Vec<u16>,
    /// The number of other bits.
    rest: u32,
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
        let [mut leading, limit] = LEADING;
        let (mut first, mut most) = starts(&least, leading);
        while most > 1 && leading < limit {
            leading += 1;
            (first, most) = starts(&least, leading);
        }
        let places = (most + 1).next_power_of_two();
        least.extend(std::iter::repeat_n(f32::NAN, places));
        Self { least, first, rest: u32::BITS - leading, halvings: places.ilog2() }
    }

    /// [`Self::index`] of each element.
    pub(super) fn indices(&self, elements: &[f32], indices: &mut [u32]) {
        if self.halvings > 1 {
            for (&x, index) in elements.iter().zip(indices) {
                *index = self.index(x);
            }
            return;
        }
        for (&x, index) in elements.iter().zip(indices) {
            let first = self.first[(x.to_bits() >> self.rest) as usize];
            *index = u32::from(first) + u32::from(x >= self.least[usize::from(first)]);
        }
    }

    /// The turns, of which there are `count`.
    pub(super) fn least(&self, count: usize) -> &[f32] {
        &self.least[..count]
    }

    /// The number of turns at or below `x`, which is the index of its value; some index for NaN.
    #[inline]
    pub(super) fn index(&self, x: f32) -> u32 {
        let mut index = usize::from(self.first[(x.to_bits() >> self.rest) as usize]);
        for half in (0..self.halvings).rev() {
            // A shift: compilers make a branch of a product, which is predicted wrongly for one element in three.
            index += usize::from(x >= self.least[index + (1 << half) - 1]) << half;
        }
        index as u32
    }
}

/// For all leading bits, the number of turns at or below the least f32 with these bits; and the largest number of turns
/// above that and up to the largest f32 with them.
fn starts(turns: &[f32], leading: u32) -> (Vec<u16>, usize) {
    let (rest, half) = (u32::BITS - leading, 1u32 << (leading - 1));
    let (mut first, mut passed, mut most) = (vec![0; 1 << leading], 0, 0);
    // Ascending: negative numbers begin with the largest magnitude.
    for bits in (half..2 * half).rev().chain(0..half) {
        let mut ends = [0, (1 << rest) - 1].map(|rest_bits| f32::from_bits((bits << rest) | rest_bits));
        if bits >= half {
            ends.reverse();
        }
        let [low, high] = ends.map(|end| {
            passed += turns[passed..].iter().take_while(|turn| **turn <= end).count();
            passed
        });
        first[bits as usize] = low as u16;
        most = most.max(high - low);
    }
    (first, most)
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
                let mut indices = [9];
                turns.indices(&[x], &mut indices);
                assert_eq!(indices[0] as usize, expected, "{x} among {count} values");
            }
            assert!([f32::NAN, -f32::NAN].into_iter().all(|nan| turns.index(nan) as usize <= last));
        }
    }
}

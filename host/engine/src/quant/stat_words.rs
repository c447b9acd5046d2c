//! The statistics of the CPU function as u32 words, in the form in which kernels return theirs.

use altgrad_plugin_api::QuantStats as FormatStats;

/// Number of words: the eight fields of [`FormatStats`], 64 bits each, low word first.
#[cfg(any(feature = "gpu", test))]
pub(super) const WORDS: usize = 16;

/// The words of some statistics.
pub(super) fn to_words(stats: &FormatStats) -> Vec<u32> {
    let &FormatStats { amax, overflow, underflow, nan, nonzero, sum_x2, sum_err2, sum_x_xhat } = stats;
    let fields = [
        u64::from(amax.to_bits()),
        overflow,
        underflow,
        nan,
        nonzero,
        sum_x2.to_bits(),
        sum_err2.to_bits(),
        sum_x_xhat.to_bits(),
    ];
    fields.iter().flat_map(|&field| [field as u32, (field >> 32) as u32]).collect()
}

/// The statistics in some words; `None` if their number is wrong.
pub(super) fn from_words(words: &[u32]) -> Option<FormatStats> {
    let (pairs, []) = words.as_chunks::<2>() else { return None };
    let fields: Vec<u64> = pairs.iter().map(|&[low, high]| u64::from(low) | u64::from(high) << 32).collect();
    let &[amax, overflow, underflow, nan, nonzero, sum_x2, sum_err2, sum_x_xhat] = fields.as_slice() else {
        return None;
    };
    let [sum_x2, sum_err2, sum_x_xhat] = [sum_x2, sum_err2, sum_x_xhat].map(f64::from_bits);
    let amax = f32::from_bits(amax as u32);
    Some(FormatStats { amax, overflow, underflow, nan, nonzero, sum_x2, sum_err2, sum_x_xhat })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statistics_survive_the_round_trip_through_words() {
        let stats = FormatStats {
            amax: 1.5,
            overflow: 1 << 40,
            underflow: 2,
            nan: 3,
            nonzero: 4,
            sum_x2: 1e300,
            sum_err2: -0.1,
            sum_x_xhat: 7.0,
        };
        assert_eq!(to_words(&stats).len(), WORDS);
        assert_eq!(from_words(&to_words(&stats)), Some(stats));
        assert_eq!(from_words(&[0; 15]), None);
    }
}

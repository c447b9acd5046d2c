//! What an optimizer's launches count: the metrics of an update, made where it happens.
//!
//! Every launch of an update begins its scalars with [`Counting::words`], and has the statistics words [`STATISTICS`] and one partial
//! sum, `ulp_sum`. Definitions: docs/numerics.md, sections 7.2, 7.7 and 7.8. "Stored" is the f32 product of a value and the grid's scale.

use crate::{ErrorKind, KernelText, MergeRule, PluginError, grid::MinifloatGrid};

/// Flag: words are wanted.
pub const COUNT: u32 = 1;
/// Flag: of codes too; on a grid that [`Counting::codes`] takes.
pub const CODES: u32 = 2;
/// Flag: codes that come back; they are kept in `MEMORY`. With [`CODES`] only.
pub const PAST: u32 = 4;
/// Flag: elements that stay without a gradient; how long is kept in `MEMORY`.
pub const DEAD: u32 = 8;

/// Bins of the update-survival spectrum: one for all below 2^-24 ULP, then eight an octave up to 2^16.
pub const SPECTRUM_BINS: usize = 321;
/// Words before the spectrum's.
const SINGLE: [&str; 11] = [
    "scratch",
    "scratch",
    "unchanged",
    "with_gradient",
    "stalled",
    "flipped",
    "sign_flipped",
    "no_code",
    "crossings",
    "returned",
    "dead",
];

/// The words, in order; all are sums.
///
/// - `scratch`: what the launches of one update tell each other; means nothing to the host.
/// - `unchanged`: gradient not zero, value the same.
/// - Of codes, to nearest-even: `with_gradient`: gradient not zero; `stalled`: of those, code the same; `flipped`: code not the same;
///   `sign_flipped`: nor the sign; `no_code`: NaN before or after, in a format without; `crossings`: exponents differ, those below
///   `2^emin` taken for emin; `returned`: the code before the update is that of two updates ago, and not the last one's.
/// - `dead`: as many updates in a row as the window is long with a gradient below the limit.
/// - `ulp_spectrum`: elements by the codes they moved; NaN counts as the largest.
pub const STATISTICS: &[(&str, MergeRule)] = &statistics();

const fn statistics() -> [(&'static str, MergeRule); SINGLE.len() + SPECTRUM_BINS] {
    let mut all = [("ulp_spectrum", MergeRule::ADD); SINGLE.len() + SPECTRUM_BINS];
    let mut i = 0;
    while i < SINGLE.len() {
        all[i].0 = SINGLE[i];
        i += 1;
    }
    all
}

/// Place of the first word of a name; past the end for another name.
#[must_use]
pub const fn word(name: &str) -> usize {
    let mut i = 0;
    while i < STATISTICS.len() && !same(STATISTICS[i].0.as_bytes(), name.as_bytes()) {
        i += 1;
    }
    i
}

const fn same(a: &[u8], b: &[u8]) -> bool {
    let mut i = 0;
    while i < a.len() && i < b.len() && a[i] == b[i] {
        i += 1;
    }
    i == a.len() && i == b.len()
}

/// What one launch is to count.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Counting {
    flags: u32,
    /// f32 bits of scale and `2^emin`; significand bits; largest finite code; NaN's, `u32::MAX` if there is none.
    grid: [u32; 5],
    /// f32 bits of the limit, and the window.
    dead: [u32; 2],
}

impl Counting {
    /// Words that say it.
    pub const WORDS: usize = 8;

    /// Nothing but what values say.
    #[must_use]
    pub fn values() -> Self {
        Self { flags: COUNT, ..Self::default() }
    }

    /// And codes, on a grid of up to 8 bits whose `2^emin` lies between 2^-100 and 2^100; `None` for others. stored = scale * value.
    #[must_use]
    pub fn codes(self, grid: &MinifloatGrid, scale: f32) -> Option<Self> {
        let fits = grid.bits() <= 8 && (-100..=100).contains(&grid.emin());
        fits.then(|| {
            let edge = ((grid.emin() + 127) as u32) << 23;
            let nan = grid.nan_code().map_or(u32::MAX, u32::from);
            let (bits, max) = (grid.spec().significand_bits, u32::from(grid.max_code()));
            Self { flags: self.flags | CODES, grid: [scale.to_bits(), edge, bits, max, nan], ..self }
        })
    }

    /// And codes that come back, if codes are counted: remembers them.
    #[must_use]
    pub fn past(self) -> Self {
        Self { flags: self.flags | if self.flags & CODES == 0 { 0 } else { PAST }, ..self }
    }

    /// And elements whose gradients have been below `limit` for `window` updates: remembers how long.
    #[must_use]
    pub fn dead(self, limit: f32, window: u16) -> Self {
        Self { flags: self.flags | DEAD, dead: [limit.to_bits(), window.into()], ..self }
    }

    /// Whether words are wanted.
    #[must_use]
    pub fn counts(&self) -> bool {
        self.flags & COUNT != 0
    }

    /// Whether elements need a memory.
    #[must_use]
    pub fn remembers(&self) -> bool {
        self.flags & (PAST | DEAD) != 0
    }

    /// Whether anything is to be done.
    #[must_use]
    pub fn is_due(&self) -> bool {
        self.flags != 0
    }

    /// The scalars: flags, scale, `2^emin`, M, largest code, NaN's code, limit, window.
    #[must_use]
    pub fn words(&self) -> [u32; Self::WORDS] {
        let [scale, edge, bits, max, nan] = self.grid;
        [self.flags, scale, edge, bits, max, nan, self.dead[0], self.dead[1]]
    }
}

/// What the launches of one update counted.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct UpdateCounts {
    words: Vec<u32>,
    /// Sum of the codes that elements moved; not finite if a value is not.
    pub ulp_sum: f64,
}

impl UpdateCounts {
    /// From the words and the partial sums of all cubes.
    ///
    /// # Errors
    /// `SHAPE`: there are not as many words as [`STATISTICS`].
    pub fn new(words: Vec<u32>, sums: &[f32]) -> Result<Self, PluginError> {
        if words.len() != STATISTICS.len() {
            return Err(PluginError::shape(format!("an update counts {} words", words.len())));
        }
        Ok(Self { words, ulp_sum: sums.iter().map(|&sum| f64::from(sum)).sum() })
    }

    /// The first word of a name; 0 for another name.
    #[must_use]
    pub fn get(&self, name: &str) -> u64 {
        self.words.get(word(name)).copied().unwrap_or(0).into()
    }

    /// Elements by the codes they moved.
    #[must_use]
    pub fn spectrum(&self) -> &[u32] {
        &self.words[word("ulp_spectrum").min(self.words.len())..]
    }
}

impl KernelText {
    /// Refuses a text for updates that does not count what this page says.
    ///
    /// # Errors
    /// `UNSUPPORTED`.
    pub fn check_update(&self) -> Result<(), PluginError> {
        let words = self.statistics.iter().map(|word| (word.name.as_str(), word.merge));
        let sums: Vec<_> = self.partial_sums.iter().map(|sum| (sum.name.as_str(), sum.exponent)).collect();
        // A launch that prepares an update has no sums.
        if words.eq(STATISTICS.iter().copied()) && (sums.is_empty() || sums == [("ulp_sum", 0)]) {
            return Ok(());
        }
        let message = format!("kernel `{}` does not count what updates count", self.entry);
        Err(PluginError::new(ErrorKind::UNSUPPORTED, message))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::{Domain, grid::minifloat};

    fn grid(e: u32, m: u32, domain: Domain) -> MinifloatGrid {
        MinifloatGrid::new(minifloat(e, m, domain).unwrap()).unwrap()
    }

    #[test]
    fn words_have_their_places() {
        assert_eq!((word("scratch"), word("unchanged"), word("ulp_spectrum")), (0, 2, 11));
        assert_eq!((word("flip"), STATISTICS.len()), (332, 332));
    }

    #[test]
    fn what_is_counted_is_said() {
        let values = Counting::values();
        assert_eq!(values.past(), values, "no codes, none that come back");
        let codes = values.codes(&grid(4, 3, Domain::FN), 2.0).unwrap().past().dead(1e-8, 100);
        let edge = 2f32.powi(-6).to_bits();
        let words = [15, 2f32.to_bits(), edge, 3, 0x7e, 0x7f, 1e-8f32.to_bits(), 100];
        assert_eq!(codes.words(), words);
        assert_eq!(values.codes(&grid(7, 0, Domain::FIN), 1.0).unwrap().words()[5], u32::MAX);
        assert_eq!(values.codes(&grid(5, 10, Domain::IEEE), 1.0), None, "16 bits");
        assert!(!Counting::default().is_due() && Counting::default().dead(1.0, 1).remembers());
    }

    #[test]
    fn counts_are_read_by_name() {
        let mut words: Vec<u32> = (0..332).collect();
        let counts = UpdateCounts::new(words.clone(), &[1.5, 2.0]).unwrap();
        assert_eq!((counts.get("unchanged"), counts.get("dead"), counts.get("x")), (2, 10, 0));
        assert_eq!((counts.spectrum().len(), counts.spectrum()[0], counts.ulp_sum), (321, 11, 3.5));
        words.pop();
        assert!(UpdateCounts::new(words, &[]).is_err());
    }
}

//! Input and output of the engine's counting kernel: the metrics of an update, counted on the device that computes it.
//!
//! Definitions: docs/numerics.md, sections 7.2, 7.7 and 7.8. "Stored" is the f32 product of a value and the grid's
//! scale. A new metric is a word more here, in [`UpdateCounts`] and in the kernel; no plugin needs a change.

use altgrad_base::diagnostic::Diagnostic;
use altgrad_plugin_api::grid::MinifloatGrid;

use super::spectrum;

/// Flag: words are requested.
pub(super) const COUNT: u32 = 1;
/// Flag: codes are counted, on a grid that [`Counting::codes`] supports.
pub(super) const CODES: u32 = 2;
/// Flag: returning codes are counted, which are remembered. With [`CODES`] only.
pub(super) const PAST: u32 = 4;
/// Flag: permanently dead elements are counted; the number of updates is remembered.
pub(super) const DEAD: u32 = 8;

/// The words before the spectrum's, by their place; all are sums.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Word {
    Unchanged,
    WithGradient,
    Stalled,
    Flipped,
    SignFlipped,
    NoCode,
    Crossings,
    Returned,
    Dead,
}

/// Place of the spectrum's first word.
pub(super) const SPECTRUM: usize = Word::Dead as usize + 1;
/// Number of words.
pub(super) const WORDS: usize = SPECTRUM + spectrum::BINS;

/// The requested counts of a launch.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Counting {
    flags: u32,
    /// f32 bits of scale and `2^emin`; significand bits; largest finite code; NaN's, `u32::MAX` if there is none; the
    /// sign's bit.
    grid: [u32; 6],
    /// f32 bits of the limit, and the window.
    dead: [u32; 2],
}

impl Counting {
    /// A kernel that measures values only.
    #[must_use]
    pub fn values() -> Self {
        Self { flags: COUNT, ..Self::default() }
    }

    /// Also counts codes, on a grid of up to 8 bits whose `2^emin` lies between 2^-100 and 2^100; `None` for others.
    /// stored = scale * value.
    #[must_use]
    pub fn codes(self, grid: &MinifloatGrid, scale: f32) -> Option<Self> {
        let fits = grid.bits() <= 8 && (-100..=100).contains(&grid.emin());
        fits.then(|| {
            let edge = ((grid.emin() + 127) as u32) << 23;
            let nan = grid.nan_code().map_or(u32::MAX, u32::from);
            let bits = grid.spec().significand_bits;
            let [max, sign] = [grid.max_code(), grid.sign_bit()].map(u32::from);
            Self { flags: self.flags | CODES, grid: [scale.to_bits(), edge, bits, max, nan, sign], ..self }
        })
    }

    /// Also counts returning codes, if codes are counted.
    #[must_use]
    pub fn past(self) -> Self {
        Self { flags: self.flags | if self.flags & CODES == 0 { 0 } else { PAST }, ..self }
    }

    /// Also counts elements whose gradients have been below `limit` for `window` updates.
    #[must_use]
    pub fn dead(self, limit: f32, window: u16) -> Self {
        Self { flags: self.flags | DEAD, dead: [limit.to_bits(), window.into()], ..self }
    }

    /// True if words are counted.
    #[must_use]
    pub fn counts(&self) -> bool {
        self.flags & COUNT != 0
    }

    /// True if elements need a memory.
    #[must_use]
    pub fn remembers(&self) -> bool {
        self.flags & (PAST | DEAD) != 0
    }

    /// True if anything is counted.
    #[must_use]
    pub fn is_due(&self) -> bool {
        self.flags != 0
    }

    /// The kernel's scalars: flags, scale, `2^emin`, M, largest code, NaN's code, the sign's bit, limit, window.
    #[cfg(any(feature = "gpu", test))]
    pub(super) fn scalars(&self) -> [u32; 9] {
        let [scale, edge, bits, max, nan, sign] = self.grid;
        [self.flags, scale, edge, bits, max, nan, sign, self.dead[0], self.dead[1]]
    }
}

/// The counts of a launch.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct UpdateCounts {
    /// Elements whose gradient is not zero and whose value stayed.
    pub unchanged: u64,
    /// Elements whose gradient is not zero.
    pub with_gradient: u64,
    /// Elements whose gradient is not zero and whose code stayed. Codes are to nearest-even.
    pub stalled: u64,
    /// Elements whose code changed.
    pub flipped: u64,
    /// Elements whose code and sign changed.
    pub sign_flipped: u64,
    /// Elements that are NaN before or after, in a format without NaN.
    pub no_code: u64,
    /// Elements whose exponent changed, those below `2^emin` taken for emin.
    pub crossings: u64,
    /// Elements whose code before the update equals that of two updates ago but not that of the last one.
    pub returned: u64,
    /// Elements whose gradient has been below the limit for as many consecutive updates as the window has.
    pub dead: u64,
    /// Elements by the codes they moved; NaN counts as the largest.
    pub spectrum: Vec<u32>,
    /// Sum of the codes that elements moved; not finite if a value is not.
    pub ulp_sum: f64,
}

impl UpdateCounts {
    /// The counts from the words and sums of all cubes.
    ///
    /// # Errors
    /// [`Fault::Run`](altgrad_base::diagnostic::Fault::Run): the device returned another number of words.
    pub fn new(words: &[u32], sums: &[f32]) -> Result<Self, Diagnostic> {
        let wrong = || Diagnostic::run(format!("the device counted {} words of an update", words.len()));
        let (single, spectrum) = words.split_at_checked(SPECTRUM).ok_or_else(wrong)?;
        if words.len() != WORDS {
            return Err(wrong());
        }
        let word = |word: Word| u64::from(single[word as usize]);
        Ok(Self {
            unchanged: word(Word::Unchanged),
            with_gradient: word(Word::WithGradient),
            stalled: word(Word::Stalled),
            flipped: word(Word::Flipped),
            sign_flipped: word(Word::SignFlipped),
            no_code: word(Word::NoCode),
            crossings: word(Word::Crossings),
            returned: word(Word::Returned),
            dead: word(Word::Dead),
            spectrum: spectrum.to_vec(),
            ulp_sum: sums.iter().map(|&sum| f64::from(sum)).sum(),
        })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use altgrad_plugin_api::{Domain, grid::minifloat};

    use super::*;

    fn grid(e: u32, m: u32, domain: Domain) -> MinifloatGrid {
        MinifloatGrid::new(minifloat(e, m, domain).unwrap()).unwrap()
    }

    #[test]
    fn what_is_counted_is_said() {
        let values = Counting::values();
        assert_eq!(values.past(), values, "no codes, none that come back");
        let codes = values.codes(&grid(4, 3, Domain::FN), 2.0).unwrap().past().dead(1e-8, 100);
        let edge = 2f32.powi(-6).to_bits();
        assert_eq!(codes.scalars(), [15, 2f32.to_bits(), edge, 3, 0x7e, 0x7f, 0x80, 1e-8f32.to_bits(), 100]);
        assert_eq!(values.codes(&grid(7, 0, Domain::FIN), 1.0).unwrap().scalars()[5], u32::MAX);
        assert_eq!(values.codes(&grid(2, 1, Domain::FIN), 1.0).unwrap().scalars()[6], 8, "of four bits");
        assert_eq!(values.codes(&grid(5, 10, Domain::IEEE), 1.0), None, "16 bits");
        assert!(!Counting::default().is_due() && Counting::default().dead(1.0, 1).remembers());
    }

    #[test]
    fn counts_are_read_by_their_places() {
        let mut words: Vec<u32> = (0..WORDS as u32).collect();
        let counts = UpdateCounts::new(&words, &[1.5, 2.0]).unwrap();
        assert_eq!((counts.unchanged, counts.stalled, counts.dead), (0, 2, 8));
        assert_eq!((counts.spectrum.len(), counts.spectrum[0], counts.ulp_sum), (321, 9, 3.5));
        words.pop();
        assert!(UpdateCounts::new(&words, &[]).is_err() && UpdateCounts::new(&[], &[]).is_err());
    }
}

//! Conventions of a format beyond the values of its codes: the target of scales, the thresholds of rounding to nearest,
//! tables that blocks choose from, and a magnitude of blocks in place of the largest.
//!
//! All have defaults that suit minifloats and integers. A format whose precision tapers, such as a posit, declares its
//! own: its largest values are few and far apart, so a tensor that is scaled to them loses most of its digits.
//! Definitions: docs/numerics.md, sections 2.2 and 4.1.

use crate::{
    PluginError, ValueGrid,
    abi::stable::{
        StableAbi,
        std_types::{ROption, RVec},
    },
    number::numbered,
};

/// Smallest and largest magnitude that can be declared: with every margin the scale's numerator is a normal f32.
const TARGETS: [f32; 2] = [f32::from_bits((127 - 90) << 23), f32::from_bits((127 + 90) << 23)];

numbered! {
    /// The choice of a block's table. Of equal ones, the first is taken.
    CodebookChoice {
        /// The one with the least sum of squared errors, elements being rounded to nearest.
        LEAST_ERROR = 0,
        /// The one with the largest scale that takes no element beyond its values. For tables that are shifted copies
        /// of one, this is a zero point.
        LARGEST_SCALE = 1,
    }
}

/// The conventions of a format.
#[repr(C)]
#[derive(StableAbi, Debug, Clone, PartialEq, Default)]
pub struct Conventions {
    /// The magnitude that the largest magnitude of a tensor, or of a block, is scaled to: from 2^-90 to 2^90. None: the
    /// largest finite value. Values beyond the largest value saturate.
    pub amax_target: ROption<f32>,
    /// Thresholds of rounding to nearest, one between any two neighbouring finite values, ascending. A threshold may
    /// equal a neighbour. At the threshold itself the rule for ties decides. Empty: midpoints.
    pub thresholds: RVec<f32>,
    /// Tables beside that of the format's description, each with a value for each code. A block of a tensor has the
    /// values of one of them, or those of the description. Empty: all blocks have the same values.
    pub codebooks: RVec<RVec<f32>>,
    /// The choice of a block's table, if there are several.
    pub choice: CodebookChoice,
    /// True if [`Format::magnitude`](crate::Format::magnitude) gives the magnitude of a block that its scale maps to
    /// the target. False: the largest magnitude.
    pub has_magnitude: bool,
}

impl Default for CodebookChoice {
    fn default() -> Self {
        Self::LEAST_ERROR
    }
}

impl Conventions {
    /// Most tables beside that of the description.
    pub const MOST_CODEBOOKS: usize = 1 << 10;

    /// The same conventions with this target of scales.
    #[must_use]
    pub fn scaled_to(self, amax_target: f32) -> Self {
        Self { amax_target: ROption::RSome(amax_target), ..self }
    }

    /// The same conventions with these thresholds.
    #[must_use]
    pub fn turning_at(self, thresholds: Vec<f32>) -> Self {
        Self { thresholds: thresholds.into(), ..self }
    }

    /// The same conventions with these tables, of which a block has one.
    #[must_use]
    pub fn choosing(self, choice: CodebookChoice, codebooks: impl IntoIterator<Item = Vec<f32>>) -> Self {
        Self { codebooks: codebooks.into_iter().map(RVec::from).collect(), choice, ..self }
    }

    /// The same conventions with a zero point for each block: the tables are those of `values`, the description's,
    /// minus each of `zeros`.
    #[must_use]
    pub fn shifted_by(self, values: &[f32], zeros: impl IntoIterator<Item = f32>) -> Self {
        let shifted = |zero: f32| values.iter().map(|value| value - zero).collect();
        self.choosing(CodebookChoice::LARGEST_SCALE, zeros.into_iter().map(shifted))
    }

    /// The same conventions, with [`Format::magnitude`](crate::Format::magnitude) for the scales of blocks.
    #[must_use]
    pub fn with_magnitude(self) -> Self {
        Self { has_magnitude: true, ..self }
    }

    /// True if blocks differ in more than a scale from their largest magnitudes: they choose a table, or have a
    /// magnitude of the format's.
    #[must_use]
    pub fn has_own_blocks(&self) -> bool {
        self.has_magnitude || !self.codebooks.is_empty()
    }

    /// The magnitude to which a tensor's largest magnitude is scaled, in a format of these values.
    #[must_use]
    pub fn target(&self, values: &ValueGrid) -> f32 {
        self.amax_target.into_option().unwrap_or_else(|| values.max_finite())
    }

    /// Refuses conventions that are impossible for a format of these values.
    ///
    /// # Errors
    /// [`ErrorKind::CONFIG`](crate::ErrorKind::CONFIG): a magnitude out of range, a number of thresholds other than the
    /// number of gaps between values, a threshold outside its gap, an unknown choice, or a table of another length,
    /// without two finite values, or beside thresholds.
    pub fn check(&self, values: &ValueGrid) -> Result<(), PluginError> {
        let fault = |what: String| Err(PluginError::config(format!("the format declares {what}")));
        let [least, most] = TARGETS;
        let declared = self.amax_target.into_option();
        if let Some(target) = declared.filter(|target| !(least..=most).contains(target)) {
            return fault(format!("that amax is scaled to {target:e}: from 2^-90 to 2^90"));
        }
        if ![CodebookChoice::LEAST_ERROR, CodebookChoice::LARGEST_SCALE].contains(&self.choice) {
            return fault(format!("the choice {} among tables, which is unknown", self.choice.0));
        }
        if self.codebooks.len() > Self::MOST_CODEBOOKS {
            return fault(format!("{} tables: at most {}", self.codebooks.len(), Self::MOST_CODEBOOKS));
        }
        for (index, table) in self.codebooks.iter().enumerate() {
            if table.len() != values.codes() {
                let (count, codes) = (table.len(), values.codes());
                return fault(format!("table {} with {count} values for {codes} codes", index + 1));
            }
            let mut finite = table.iter().filter(|value| value.is_finite());
            let first = finite.next();
            if !finite.any(|value| Some(value) != first) {
                return fault(format!("a table {} without two finite values", index + 1));
            }
        }
        if self.thresholds.is_empty() {
            return Ok(());
        }
        if !self.codebooks.is_empty() {
            return fault("thresholds of rounding and several tables, which exclude each other".into());
        }
        let sorted = values.finite_values();
        let gaps = sorted.len() - 1;
        if self.thresholds.len() != gaps {
            return fault(format!("{} thresholds of rounding for {gaps} gaps", self.thresholds.len()));
        }
        let outside = |(gap, threshold): &(&[f32], &f32)| !(gap[0]..=gap[1]).contains(*threshold);
        match sorted.windows(2).zip(self.thresholds.iter()).find(outside) {
            Some((gap, threshold)) => {
                fault(format!("the threshold {threshold:e} between the values {:e} and {:e}", gap[0], gap[1]))
            }
            None => Ok(()),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::FormatSpec;

    fn values() -> ValueGrid {
        ValueGrid::new(&FormatSpec::Table(vec![0.0, 1.0, f32::NAN, -4.0].into())).unwrap()
    }

    #[test]
    fn by_default_the_largest_value_is_the_target() {
        assert_eq!(Conventions::default().target(&values()), 1.0);
        assert_eq!(Conventions::default().scaled_to(0.5).target(&values()), 0.5);
        assert!(Conventions::default().check(&values()).is_ok());
    }

    #[test]
    fn what_no_format_can_mean_is_refused() {
        let refused = |conventions: Conventions| conventions.check(&values()).is_err();
        for target in [0.0, -1.0, f32::NAN, f32::INFINITY, 1e-30, 1e30] {
            assert!(refused(Conventions::default().scaled_to(target)), "{target}");
        }
        let turning = |thresholds: &[f32]| Conventions::default().turning_at(thresholds.to_vec());
        assert!(!refused(turning(&[-4.0, 0.0])) && !refused(turning(&[-1.0, 1.0])));
        let of = |tables: &[&[f32]]| {
            Conventions::default()
                .choosing(CodebookChoice::LEAST_ERROR, tables.iter().map(|table| table.to_vec()))
        };
        assert!(!refused(of(&[&[0.0, 1.0, 2.0, 3.0], &[-1.0, -2.0, -3.0, 0.0]])));
        assert!(refused(of(&[&[0.0, 1.0]])) && refused(of(&[&[0.0, f32::NAN, f32::NAN, f32::INFINITY]])));
        assert!(refused(of(&[&[0.0, 1.0, 2.0, 3.0]]).turning_at(vec![-1.0, 0.5])));
        assert!(refused(Conventions { choice: CodebookChoice(9), ..Conventions::default() }));
        for thresholds in [&[0.0][..], &[-5.0, 0.5], &[0.5, 0.6], &[f32::NAN, 0.5], &[-1.0, 0.5, 2.0]] {
            assert!(refused(turning(thresholds)), "{thresholds:?}");
        }
    }
}

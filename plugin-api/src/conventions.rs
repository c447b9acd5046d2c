//! Conventions of a format beyond the values of its codes: the target of scales, and the thresholds of rounding to
//! nearest.
//!
//! Both have defaults that suit minifloats and integers. A format whose precision tapers, such as a posit, declares its
//! own: its largest values are few and far apart, so a tensor that is scaled to them loses most of its digits.
//! Definitions: docs/numerics.md, sections 2.2 and 4.1.

use crate::{
    PluginError, ValueGrid,
    abi::stable::{
        StableAbi,
        std_types::{ROption, RVec},
    },
};

/// Smallest and largest magnitude that can be declared: with every margin the scale's numerator is a normal f32.
const TARGETS: [f32; 2] = [f32::from_bits((127 - 90) << 23), f32::from_bits((127 + 90) << 23)];

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
}

impl Conventions {
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

    /// The magnitude to which a tensor's largest magnitude is scaled, in a format of these values.
    #[must_use]
    pub fn target(&self, values: &ValueGrid) -> f32 {
        self.amax_target.into_option().unwrap_or_else(|| values.max_finite())
    }

    /// Refuses conventions that are impossible for a format of these values.
    ///
    /// # Errors
    /// [`ErrorKind::CONFIG`](crate::ErrorKind::CONFIG): a magnitude out of range, a number of thresholds other than the
    /// number of gaps between values, or a threshold outside its gap.
    pub fn check(&self, values: &ValueGrid) -> Result<(), PluginError> {
        let fault = |what: String| Err(PluginError::config(format!("the format declares {what}")));
        let [least, most] = TARGETS;
        let declared = self.amax_target.into_option();
        if let Some(target) = declared.filter(|target| !(least..=most).contains(target)) {
            return fault(format!("that amax is scaled to {target:e}: from 2^-90 to 2^90"));
        }
        if self.thresholds.is_empty() {
            return Ok(());
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
        for thresholds in [&[0.0][..], &[-5.0, 0.5], &[0.5, 0.6], &[f32::NAN, 0.5], &[-1.0, 0.5, 2.0]] {
            assert!(refused(turning(thresholds)), "{thresholds:?}");
        }
    }
}

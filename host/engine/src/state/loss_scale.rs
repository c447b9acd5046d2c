//! Loss scaling (arXiv:1710.03740): the loss is multiplied before the backward pass and gradients are divided after it,
//! so that small gradients stay in the range of their format. The dynamic rule and its constants are those of PyTorch's
//! `GradScaler`.

use altgrad_config::LossScaleChoice;
use serde::{Deserialize, Serialize};

/// The first scale of the dynamic rule.
const FIRST: f32 = 65536.0;
/// Steps in a row without an overflow after which the scale doubles.
const GROWTH_INTERVAL: u64 = 2000;
/// Bounds of the scale, 2^-126 and 2^126: it and its reciprocal are normal f32.
const RANGE: [f32; 2] = [f32::MIN_POSITIVE, 1.0 / f32::MIN_POSITIVE];

/// The loss scale of a run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum LossScaler {
    /// A constant scale.
    Fixed(f32),
    /// A scale that depends on the gradients.
    Dynamic(DynamicLossScale),
}

/// A dynamic loss scale between two steps, as checkpoints keep it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct DynamicLossScale {
    /// The scale of the next step, a power of two.
    pub scale: f32,
    /// Steps in a row, up to now, without an overflow, since the scale last changed.
    pub good_steps: u64,
    /// Steps that were skipped since the run began.
    pub skipped_steps: u64,
}

impl Default for DynamicLossScale {
    fn default() -> Self {
        Self { scale: FIRST, good_steps: 0, skipped_steps: 0 }
    }
}

impl DynamicLossScale {
    /// Refuses a state that no run of `steps` steps can have.
    ///
    /// # Errors
    /// The field, and its value with the reason.
    pub fn check(&self, steps: u64) -> Result<(), (&'static str, String)> {
        let Self { scale, good_steps, skipped_steps } = *self;
        if !(RANGE[0]..=RANGE[1]).contains(&scale) || scale.to_bits() & 0x007f_ffff != 0 {
            return Err(("scale", format!("{scale:e}, which is no power of two from 2^-126 to 2^126")));
        }
        if good_steps > steps.min(GROWTH_INTERVAL - 1) {
            return Err(("good_steps", format!("{good_steps} after {steps} steps")));
        }
        if skipped_steps > steps {
            return Err(("skipped_steps", format!("{skipped_steps} after {steps} steps")));
        }
        Ok(())
    }

    /// Updates the scale after a step. Returns whether the step is to be skipped.
    fn update(&mut self, overflowed: bool) -> bool {
        let [least, most] = RANGE;
        if overflowed {
            self.scale = (self.scale * 0.5).max(least);
            self.good_steps = 0;
            self.skipped_steps += 1;
        } else {
            self.good_steps += 1;
            if self.good_steps == GROWTH_INTERVAL {
                self.scale = (self.scale * 2.0).min(most);
                self.good_steps = 0;
            }
        }
        overflowed
    }
}

impl LossScaler {
    /// No scaling.
    pub const OFF: Self = Self::Fixed(1.0);

    /// The loss scale that a run file requests.
    #[must_use]
    pub fn new(choice: LossScaleChoice) -> Self {
        match choice {
            LossScaleChoice::Fixed(scale) => Self::Fixed(scale as f32),
            LossScaleChoice::Dynamic => Self::Dynamic(DynamicLossScale::default()),
        }
    }

    /// The factor of the next step's loss; `None` if it is 1.
    #[must_use]
    pub fn factor(&self) -> Option<f32> {
        let scale = match self {
            Self::Fixed(scale) => *scale,
            Self::Dynamic(state) => state.scale,
        };
        (scale != 1.0).then_some(scale)
    }

    /// The state of the dynamic rule.
    #[must_use]
    pub fn state(&self) -> Option<DynamicLossScale> {
        match self {
            Self::Fixed(_) => None,
            Self::Dynamic(state) => Some(*state),
        }
    }

    /// Continues from a checkpoint. A run that had no dynamic scale begins with the initial one.
    pub fn restore(&mut self, saved: Option<DynamicLossScale>) {
        if let (Self::Dynamic(state), Some(saved)) = (self, saved) {
            *state = saved;
        }
    }

    /// Updates the scale after a step, depending on whether its gradients overflowed. Returns whether the update is to
    /// be skipped; never with a fixed scale.
    pub fn update(&mut self, overflowed: bool) -> bool {
        match self {
            Self::Fixed(_) => false,
            Self::Dynamic(state) => state.update(overflowed),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn it_doubles_after_good_steps_and_halves_at_an_overflow() {
        let mut scaler = LossScaler::new(LossScaleChoice::Dynamic);
        assert_eq!(scaler.factor(), Some(65536.0));
        assert!(scaler.update(true));
        for _ in 0..1999 {
            assert!(!scaler.update(false));
            assert_eq!(scaler.factor(), Some(32768.0));
        }
        assert!(!scaler.update(false));
        assert_eq!(
            scaler.state(),
            Some(DynamicLossScale { scale: 65536.0, good_steps: 0, skipped_steps: 1 })
        );
        for _ in 0..1000 {
            scaler.update(true);
        }
        assert_eq!(scaler.factor(), Some(2f32.powi(-126)));
        scaler.state().unwrap().check(5000).unwrap();
    }

    #[test]
    fn a_fixed_scale_skips_nothing_and_1_is_none() {
        let mut scaler = LossScaler::new(LossScaleChoice::Fixed(3.0));
        assert!(!scaler.update(true));
        assert_eq!((scaler.factor(), scaler.state()), (Some(3.0), None));
        assert_eq!(LossScaler::new(LossScaleChoice::default()).factor(), None);
    }

    #[test]
    fn states_that_no_run_has_are_refused() {
        let sound = DynamicLossScale { scale: 8.0, good_steps: 3, skipped_steps: 1 };
        assert_eq!(sound.check(4), Ok(()));
        for (state, field) in [
            (DynamicLossScale { scale: 0.0, ..sound }, "scale"),
            (DynamicLossScale { scale: f32::NAN, ..sound }, "scale"),
            (DynamicLossScale { scale: 3.0, ..sound }, "scale"),
            (DynamicLossScale { good_steps: 5, ..sound }, "good_steps"),
            (DynamicLossScale { skipped_steps: 5, ..sound }, "skipped_steps"),
        ] {
            assert_eq!(state.check(4).unwrap_err().0, field);
        }
    }
}

//! The part of an update that the rounding at its end removed, without master weights.

use std::ops::Add;

use rayon::prelude::*;

/// Elements per parallel task.
const PART: usize = 1 << 16;

/// Sums over the elements of an update: `d` is the intended change, `r` the remaining one.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct UpdateLoss {
    /// Sum of `d r`.
    pub realized: f64,
    /// Sum of `d^2`.
    pub intended: f64,
}

impl UpdateLoss {
    /// The loss of one parameter: values before the update, as the optimizer left them, and after they were rounded;
    /// `[n]` each. With error feedback, the residuals before and after: what they keep is not lost.
    #[must_use]
    pub fn of(before: &[f32], intended: &[f32], after: &[f32], residuals: Option<[&[f32]; 2]>) -> Self {
        let Some([found, left]) = residuals else {
            return Self::between([before, intended], [before, after]);
        };
        // In f32, as the optimizer adds them.
        let carried = |values: &[f32], residual: &[f32]| -> Vec<f32> {
            values.iter().zip(residual).map(|(w, r)| w + r).collect()
        };
        let (before, after) = (carried(before, found), carried(after, left));
        Self::between([&before, intended], [&before, &after])
    }

    /// The loss of two changes: of the values that were intended, and of those that were realized; `[n]` each.
    #[must_use]
    pub fn between(intended: [&[f32]; 2], realized: [&[f32]; 2]) -> Self {
        let difference = |from: &f32, to: &f32| f64::from(*to) - f64::from(*from);
        let part = |([a, b], [x, y]): ([&[f32]; 2], [&[f32]; 2])| {
            let changes = a.iter().zip(b).zip(x.iter().zip(y));
            changes.fold(Self::default(), |sum, ((a, b), (x, y))| {
                let (d, r) = (difference(a, b), difference(x, y));
                Self { realized: sum.realized + d * r, intended: sum.intended + d * d }
            })
        };
        let parts = parts(intended).zip(parts(realized));
        // Added in their order, so that the sum does not depend on the threads.
        parts.map(part).collect::<Vec<_>>().into_iter().fold(Self::default(), Self::add)
    }

    /// Share of the intended update that is lost; `None` if none was intended, or a sum is not finite.
    #[must_use]
    pub fn share(self) -> Option<f64> {
        let share = 1.0 - self.realized / self.intended;
        (self.intended > 0.0 && share.is_finite()).then_some(share)
    }
}

/// The parts of two tensors, one pair per task.
fn parts([a, b]: [&[f32]; 2]) -> impl IndexedParallelIterator<Item = [&[f32]; 2]> {
    a.par_chunks(PART).zip(b.par_chunks(PART)).map(|(a, b)| [a, b])
}

/// The sums over two parameters.
impl Add for UpdateLoss {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { realized: self.realized + other.realized, intended: self.intended + other.intended }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_by_hand() {
        let before = [1.0, 2.0, -4.0];
        let intended = [1.5, 2.25, -4.0];
        let share = |after: &[f32]| UpdateLoss::of(&before, &intended, after, None).share();
        assert_eq!(share(&intended), Some(0.0), "nothing is lost");
        assert_eq!(share(&before), Some(1.0), "nothing moves");
        // d = 0.5, 0.25, 0 and r = 1, 0, 0: 1 - 0.5/0.3125.
        assert_eq!(share(&[2.0, 2.0, -4.0]), Some(1.0 - 0.5 / 0.3125), "more than was intended");
        assert_eq!(UpdateLoss::of(&before, &before, &intended, None).share(), None, "nothing was intended");
        assert_eq!(UpdateLoss::of(&before, &[f32::NAN, 0.0, 0.0], &before, None).share(), None);
    }

    #[test]
    fn a_residual_keeps_what_the_weight_does_not() {
        // The optimizer adds 0.25 to weight and residual, 1 + 0.25 and 2 - 0.5: d = 0.25 and 0.25.
        let ([before, intended], found) = ([[1.0f32, 2.0], [1.5, 1.75]], [0.25f32, -0.5]);
        let share = |after: [f32; 2], left: [f32; 2]| {
            UpdateLoss::of(&before, &intended, &after, Some([&found[..], &left[..]])).share()
        };
        assert_eq!(share([1.0, 2.0], [0.5, -0.25]), Some(0.0), "no weight moves, and nothing is lost");
        assert_eq!(share([2.0, 2.0], [-0.5, -0.25]), Some(0.0), "an unfinished move counts only once");
        // r = 0.25 and 0: 1 - 0.0625/0.125.
        assert_eq!(share([1.0, 2.0], [0.5, -0.5]), Some(0.5), "a residual's own rounding loses the second");
    }

    #[test]
    fn two_changes_by_hand() {
        // d = 2 and 1, r = 1 and 3: 1 - 5/5.
        let loss = UpdateLoss::between([&[0.0, 4.0], &[2.0, 5.0]], [&[7.0, 1.0], &[8.0, 4.0]]);
        assert_eq!((loss.realized, loss.intended, loss.share()), (5.0, 5.0, Some(0.0)));
    }
}

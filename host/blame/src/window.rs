//! The steps in which rounding at the found causes matters.
//!
//! With the causes undone before step `t` and rounded from there on, a part of their effect is recovered: none at 0,
//! all at the end. The window is where the part grows from 10 to 90 %, found by two bisections over a grid of
//! sixteenths; they assume that the part grows with `t`.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::{
    Options,
    lab::{Effect, Halt, Lab, Look},
    trial::Setting,
};

/// Points of the grid.
const GRID: u64 = 16;

/// Steps in which rounding at a cause matters.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Window {
    /// The cause, or all of them.
    pub name: String,
    /// Rounding before this step has at most 10 % of the effect.
    pub from: u64,
    /// Rounding from this step on has at most 10 % of the effect.
    pub until: u64,
    /// Steps, and the part of the effect that is recovered if the cause is undone before the step: those that were
    /// measured between the first, 0, and the last, 1.
    pub recovered: Vec<(u64, f64)>,
}

/// The window of these causes, whose effect is `undone`; `None` for runs of fewer than 16 steps.
///
/// # Errors
/// See [`Halt`].
pub fn of(name: &str, members: &[usize], undone: Effect, lab: &mut Lab<'_>) -> Result<Option<Window>, Halt> {
    let Options { from, steps, .. } = lab.options;
    if steps.saturating_sub(from) < GRID || undone.mean <= 0.0 {
        return Ok(None);
    }
    let at = |point: u64| from + (steps - from) * point / GRID;
    let mut recovered = BTreeMap::from([(0, 0.0), (GRID, 1.0)]);
    let mut recovers = |point: u64, part: f64| -> Result<bool, Halt> {
        let until = Setting { until: Some(at(point)), ..Setting::without(members.iter().copied()) };
        let effect = lab.difference(&Setting::default(), &until, 1, Look::First)?;
        let share = effect.map(|effect| effect.mean / undone.mean);
        recovered.extend(share.map(|share| (point, share)));
        Ok(share.is_some_and(|share| share >= part))
    };
    // The first point that recovers a part.
    let mut first = |part: f64| -> Result<u64, Halt> {
        let (mut low, mut high) = (0, GRID);
        while high - low > 1 {
            let middle = low.midpoint(high);
            if recovers(middle, part)? { high = middle } else { low = middle }
        }
        Ok(high)
    };
    let (from, until) = (at(first(0.1)? - 1), at(first(0.9)?));
    let recovered = recovered.into_iter().map(|(point, share)| (at(point), share)).collect();
    Ok(Some(Window { name: name.into(), from, until, recovered }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use altgrad_base::diagnostic::Diagnostic;

    use crate::lab::{Losses, TrialLoss};

    /// A run that loses 0.01 in each rounded step from 50 to 79.
    struct Planted;

    impl Losses for Planted {
        fn losses(&mut self, trials: &[(Setting, u64)]) -> Result<Vec<TrialLoss>, Diagnostic> {
            let loss = |setting: &Setting| {
                let rounded = match (setting.undone.is_empty(), setting.until) {
                    (true, _) => 0,
                    (false, None) => 160,
                    (false, Some(until)) => until,
                };
                2.0 + (50..80).filter(|step| *step >= rounded).count() as f64 * 0.01
            };
            Ok(trials.iter().map(|(setting, _)| TrialLoss::Known(loss(setting))).collect())
        }
    }

    #[test]
    fn the_window_holds_the_steps_that_matter() {
        let mut runs = Planted;
        let options = Options { seeds: 3, from: 0, steps: 160, budget: 1000 };
        let mut lab = Lab::new(1, options, &mut runs);
        let undone =
            Effect { mean: 0.3, half_width: 0.0, seeds: 3, sd: None, level: 0.05, is_positive: true };
        let window = of("a", &[0], undone, &mut lab).unwrap().unwrap();
        assert_eq!((window.from, window.until), (50, 80));
        // Two bisections over sixteenths, of at most four runs each.
        let steps: Vec<u64> = window.recovered.iter().map(|(step, _)| *step).collect();
        assert_eq!(steps, [0, 40, 50, 60, 70, 80, 160]);
        assert!((window.recovered[3].1 - 1.0 / 3.0).abs() < 1e-9);
    }
}

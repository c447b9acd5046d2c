//! The steps in which rounding at the found causes matters.
//!
//! With the causes undone before step `t` and rounded from there on, a part of their effect is recovered: none at 0,
//! all at the end. The window is where the part grows from 10 to 90 %, found by two bisections over a grid of
//! sixteenths; they assume that the part grows with `t`.

use serde::Serialize;

use crate::{
    lab::{Effect, Halt, Lab, Look},
    trial::Setting,
};

/// Points of the grid.
const GRID: u64 = 16;

/// Steps in which rounding matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Window {
    /// Rounding before this step has at most 10 % of the effect.
    pub from: u64,
    /// Rounding from this step on has at most 10 % of the effect.
    pub until: u64,
}

/// The window of these causes, whose effect is `undone`; `None` for runs of fewer than 16 steps.
///
/// # Errors
/// See [`Halt`].
pub fn of(members: &[usize], undone: Effect, lab: &mut Lab<'_>) -> Result<Option<Window>, Halt> {
    let steps = lab.options.steps;
    if steps < GRID || undone.mean <= 0.0 {
        return Ok(None);
    }
    let at = |point: u64| steps * point / GRID;
    let mut recovers = |point: u64, part: f64| -> Result<bool, Halt> {
        if point == 0 || point == GRID {
            return Ok(point == GRID);
        }
        let until = Setting { until: Some(at(point)), ..Setting::without(members.iter().copied()) };
        let effect = lab.difference(&Setting::default(), &until, 1, Look::First)?;
        Ok(effect.is_some_and(|effect| effect.mean >= part * undone.mean))
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
    Ok(Some(Window { from: at(first(0.1)? - 1), until: at(first(0.9)?) }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Options, lab::Losses};

    /// A run that loses 0.01 in each rounded step from 50 to 79.
    struct Planted;

    impl Losses for Planted {
        fn losses(&mut self, trials: &[(Setting, u64)]) -> Result<Vec<Option<f64>>, Halt> {
            let loss = |setting: &Setting| {
                let rounded = match (setting.undone.is_empty(), setting.until) {
                    (true, _) => 0,
                    (false, None) => 160,
                    (false, Some(until)) => until,
                };
                2.0 + (50..80).filter(|step| *step >= rounded).count() as f64 * 0.01
            };
            Ok(trials.iter().map(|(setting, _)| Some(loss(setting))).collect())
        }
    }

    #[test]
    fn the_window_holds_the_steps_that_matter() {
        let mut runs = Planted;
        let options = Options { seeds: 3, steps: 160, budget: 1000 };
        let mut lab = Lab::new(1, options, &mut runs);
        let undone = Effect { mean: 0.3, half_width: 0.0 };
        let window = of(&[0], undone, &mut lab).unwrap().unwrap();
        assert_eq!(window, Window { from: 50, until: 80 });
    }
}

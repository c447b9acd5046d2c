//! `[tune]` and `[stable]`: the tried learning rates, and the range of the search for the largest stable one.

use altgrad_base::diagnostic::Diagnostic;
use serde::Deserialize;

/// Significant digits of tried values. More would add no information, and values are parts of names.
const DIGITS: usize = 3;
/// Most values in a grid.
const MOST_POINTS: usize = 100;

/// `[tune]`: each combination without its seed is run with the value that has the lowest held-out loss.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TuneSection {
    /// The key that is tuned, a positive number. With `train.lr`, `train.min_lr` stays the same part of it.
    pub key: String,
    /// The seed of all trials. Default: the base's. A seed that no run has keeps the choice independent of the
    /// measurement.
    pub seed: Option<u64>,
    /// The values, or `from`, `to` and `points`.
    pub values: Vec<f64>,
    /// First value of a grid with equal ratios.
    pub from: Option<f64>,
    /// Last value of the grid.
    pub to: Option<f64>,
    /// The number of values in the grid.
    pub points: Option<usize>,
    /// Steps after which the worse half of the remaining trials ends; the others resume from their checkpoints.
    /// Default: none, every trial is a whole run.
    pub rungs: Vec<u64>,
}

impl Default for TuneSection {
    fn default() -> Self {
        Self {
            key: LR.to_string(),
            seed: None,
            values: Vec::new(),
            from: None,
            to: None,
            points: None,
            rungs: Vec::new(),
        }
    }
}

/// `[stable]`: for each combination without its seed, the largest value with which it trains.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct StableSection {
    /// As in `[tune]`.
    pub key: String,
    /// As in `[tune]`.
    pub seed: Option<u64>,
    /// The lower end of the search. Default: 1e-4.
    pub from: f64,
    /// The upper end. Default: 1.
    pub to: f64,
    /// The search ends when the smallest unstable value found is at most this many times the largest stable one.
    /// Default: 1.25.
    pub ratio: f64,
}

impl Default for StableSection {
    fn default() -> Self {
        Self { key: LR.to_string(), seed: None, from: 1e-4, to: 1.0, ratio: 1.25 }
    }
}

/// The learning rate's key.
pub(super) const LR: &str = "train.lr";

/// The key at fault, and its error.
type Fault = (&'static str, Diagnostic);

fn refuse(key: &'static str, message: String, hint: &str) -> Result<(), Fault> {
    Err((key, Diagnostic::config(message).hint(hint)))
}

fn is_rate(value: f64) -> bool {
    value.is_finite() && value > 0.0
}

impl TuneSection {
    /// Checks that the section is valid. `elsewhere`: entries of an axis may have the tried values.
    pub(super) fn check(&self, elsewhere: bool) -> Result<(), Fault> {
        let grid = [self.from.is_some(), self.to.is_some(), self.points.is_some()];
        let either = "give values = [...], or from, to and points";
        let silent = elsewhere && grid == [false; 3];
        if self.values.is_empty() && grid != [true; 3] && !silent {
            return refuse("tune", "`tune` has no values to try".into(), either);
        }
        if !self.values.is_empty() && grid != [false; 3] {
            return refuse("tune.values", "`tune` gives values and a grid".into(), either);
        }
        for (key, value) in [("tune.from", self.from), ("tune.to", self.to)] {
            if value.is_some_and(|value| !is_rate(value)) {
                return refuse(key, format!("`{key}` must be positive and finite"), "a rate such as 1e-3");
            }
        }
        if let Some(value) = self.values.iter().find(|value| !is_rate(**value)) {
            let message = format!("`tune.values` must be positive and finite, one is {value}");
            return refuse("tune.values", message, "rates such as 1e-3");
        }
        let is_known = |(index, value): &(usize, &f64)| self.values[..*index].contains(*value);
        if let Some((_, value)) = self.values.iter().enumerate().find(is_known) {
            let message = format!("`tune.values` holds {value} twice");
            return refuse("tune.values", message, "remove one of the two equal values");
        }
        if let (Some(from), Some(to)) = (self.from, self.to)
            && from >= to
        {
            return refuse(
                "tune.to",
                format!("`tune.to` ({to}) must be above `tune.from` ({from})"),
                "swap them",
            );
        }
        if self.points.is_some_and(|points| !(2..=MOST_POINTS).contains(&points)) {
            let message = format!("`tune.points` must be from 2 to {MOST_POINTS}");
            return refuse("tune.points", message, "5 values over two decades are a start");
        }
        if !self.rungs.is_sorted_by(|a, b| a < b) || self.rungs.first() == Some(&0) {
            let message = "`tune.rungs` must be rising numbers of steps, from 1".to_string();
            return refuse("tune.rungs", message, "such as [50, 100]");
        }
        Ok(())
    }

    /// The values to try, rising, each once.
    #[must_use]
    pub fn grid(&self) -> Vec<f64> {
        let mut values = match (self.from, self.to, self.points) {
            (Some(from), Some(to), Some(points)) => {
                let steps = (points - 1) as f64;
                (0..points).map(|index| rounded(from * (to / from).powf(index as f64 / steps))).collect()
            }
            _ => self.values.clone(),
        };
        values.sort_by(f64::total_cmp);
        values.dedup();
        values
    }
}

impl StableSection {
    pub(super) fn check(&self) -> Result<(), Fault> {
        for (key, value) in [("stable.from", self.from), ("stable.to", self.to)] {
            if !is_rate(value) {
                return refuse(
                    key,
                    format!("`{key}` must be positive and finite, found {value}"),
                    "a rate such as 1e-3",
                );
            }
        }
        if self.from >= self.to {
            let message = format!("`stable.to` ({}) must be above `stable.from` ({})", self.to, self.from);
            return refuse("stable.to", message, "swap them");
        }
        if !(1.01..=100.0).contains(&self.ratio) {
            let message = format!("`stable.ratio` must be from 1.01 to 100, found {}", self.ratio);
            return refuse("stable.ratio", message, "1.25 takes about 8 trials over four decades");
        }
        Ok(())
    }
}

/// The value with few digits.
pub(super) fn rounded(value: f64) -> f64 {
    to_digits(value, DIGITS)
}

/// The value with that many digits, at least one.
pub(super) fn to_digits(value: f64, digits: usize) -> f64 {
    let precision = digits.saturating_sub(1);
    // The text is that of a number.
    format!("{value:.precision$e}").parse().unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grid_has_equal_ratios_and_few_digits() {
        let grid = |from, to, points| {
            TuneSection { from: Some(from), to: Some(to), points: Some(points), ..TuneSection::default() }
                .grid()
        };
        assert_eq!(grid(1e-4, 1e-2, 5), [1e-4, 3.16e-4, 1e-3, 3.16e-3, 1e-2]);
        assert_eq!(grid(300.0, 3000.0, 2), [300.0, 3000.0]);
        let values = TuneSection { values: vec![3e-3, 1e-3, 3e-3], ..TuneSection::default() };
        assert_eq!(values.grid(), [1e-3, 3e-3]);
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let tune = |text: &str| toml::from_str::<TuneSection>(text).map(|tune| tune.check(false));
        for (text, key) in [
            ("seed = 1", "tune"),
            ("from = 1e-3\nto = 1e-2", "tune"),
            ("values = [1e-3]\npoints = 3", "tune.values"),
            ("values = [1e-3, -1.0]", "tune.values"),
            ("values = [3e-3, 1e-3, 0.003]", "tune.values"),
            ("from = 0.0\nto = 1.0\npoints = 3", "tune.from"),
            ("from = 2.0\nto = 1.0\npoints = 3", "tune.to"),
            ("from = 1.0\nto = 2.0\npoints = 1", "tune.points"),
            ("values = [1.0]\nrungs = [9, 9]", "tune.rungs"),
        ] {
            let found = tune(text).map(|found| found.map_err(|(key, _)| key));
            assert_eq!(found, Ok(Err(key)), "{text}");
        }
        assert!(tune("values = [1]\nrungs = [5, 9]").is_ok_and(|found| found.is_ok()));
    }
}

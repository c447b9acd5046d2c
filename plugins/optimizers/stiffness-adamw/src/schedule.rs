//! The stiffness schedule: the multiplier of the factor over the updates.

use altgrad_plugin_api::{Config, OptionSpec, PluginError, texts};

/// The course of the amount from 1 to its end.
#[derive(Debug, Clone, Copy)]
enum Shape {
    Constant,
    Linear,
    Cosine,
}

/// A multiplier of 1 that changes over a number of updates and then stays.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Schedule {
    shape: Shape,
    updates: u64,
    end: f64,
}

impl Schedule {
    /// The course of the factor.
    pub(crate) const SHAPE: OptionSpec = OptionSpec::text("schedule", "constant")
        .choices(texts!["constant", "linear", "cosine"])
        .help("How the factor changes from 1, on top of the learning rate's own schedule");

    /// The number of updates.
    pub(crate) const UPDATES: OptionSpec = OptionSpec::integer("schedule_updates", 1000)
        .range(1.0, 1e12)
        .help("Updates until `schedule_end` is reached");

    /// The final value.
    pub(crate) const END: OptionSpec = OptionSpec::float("schedule_end", 0.1)
        .range(0.0, 1e6)
        .help("What the factor is multiplied by from then on; not used if `schedule` is constant");

    pub(crate) fn new(config: &Config) -> Result<Self, PluginError> {
        let shape = match config.text("schedule")? {
            "linear" => Shape::Linear,
            "cosine" => Shape::Cosine,
            _ => Shape::Constant,
        };
        let updates = config.integer("schedule_updates")?.unsigned_abs();
        Ok(Self { shape, updates, end: config.float("schedule_end")? })
    }

    /// The multiplier of update `update`, from 1: exactly 1 in the first.
    pub(crate) fn at(&self, update: u64) -> f64 {
        let done = (update.saturating_sub(1) as f64 / self.updates as f64).min(1.0);
        let way = match self.shape {
            Shape::Constant => 0.0,
            Shape::Linear => done,
            Shape::Cosine => 0.5 - 0.5 * (std::f64::consts::PI * done).cos(),
        };
        1.0 + way * (self.end - 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_have_their_known_points() {
        let rows = [
            (Shape::Constant, [1.0, 1.0, 1.0, 1.0]),
            (Shape::Linear, [1.0, 0.8, 0.6, 0.2]),
            // A quarter of the way in time is (1 - sqrt(1/2)) / 2 of the way.
            (Shape::Cosine, [1.0, 1.0 - 0.8 * (0.5 - 0.5 * 0.5f64.sqrt()), 0.6, 0.2]),
        ];
        for (shape, expected) in rows {
            let schedule = Schedule { shape, updates: 100, end: 0.2 };
            for (update, expected) in [1, 26, 51, 101].into_iter().zip(expected) {
                assert!((schedule.at(update) - expected).abs() < 1e-12, "{shape:?} at {update}");
            }
            assert_eq!(schedule.at(u64::MAX), schedule.at(101));
        }
    }
}

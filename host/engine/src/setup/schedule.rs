//! Learning-rate schedules: linear warm-up, then cosine, trapezoidal or constant.

use altgrad_config::{ScheduleChoice, TrainSection};

/// A learning rate for every step.
#[derive(Debug, Clone, PartialEq)]
pub struct Schedule {
    lr: f64,
    min_lr: f64,
    warmup: u64,
    after: After,
}

#[derive(Debug, Clone, PartialEq)]
enum After {
    /// Half a cosine from `lr` at the end of the warm-up to `min_lr` at step `decay`, `min_lr` from there on.
    Cosine { decay: u64 },
    /// `lr`, then linearly to `min_lr` over the last `cooldown` steps before `end`.
    Trapezoidal { end: u64, cooldown: u64 },
    /// `lr`.
    Constant,
}

impl Schedule {
    /// The schedule of a validated run file.
    #[must_use]
    pub fn new(section: &TrainSection) -> Self {
        let after = match section.schedule {
            ScheduleChoice::Cosine => {
                After::Cosine { decay: section.decay_steps.unwrap_or(section.max_steps) }
            }
            ScheduleChoice::Trapezoidal => After::Trapezoidal {
                end: section.max_steps,
                cooldown: section.cooldown_steps.unwrap_or(section.max_steps / 5),
            },
            ScheduleChoice::Constant => After::Constant,
        };
        Self { lr: section.lr, min_lr: section.min_lr, warmup: section.warmup_steps, after }
    }

    /// Learning rate of a step, from 0.
    #[must_use]
    pub fn lr(&self, step: u64) -> f64 {
        if step < self.warmup {
            // nanoGPT: the first step has a rate above zero, and `warmup` itself the full one.
            return self.lr * (step + 1) as f64 / (self.warmup + 1) as f64;
        }
        match self.after {
            After::Cosine { decay } if step >= decay => self.min_lr,
            After::Cosine { decay } => {
                let progress = (step - self.warmup) as f64 / (decay - self.warmup) as f64;
                self.min_lr + 0.5 * (1.0 + (std::f64::consts::PI * progress).cos()) * (self.lr - self.min_lr)
            }
            After::Trapezoidal { end, cooldown } => {
                let into = (step + 1 + cooldown).saturating_sub(end).min(cooldown);
                if into == 0 {
                    return self.lr;
                }
                self.lr + (self.min_lr - self.lr) * into as f64 / cooldown as f64
            }
            After::Constant => self.lr,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schedule(choice: ScheduleChoice) -> Schedule {
        Schedule::new(&TrainSection {
            max_steps: 20,
            lr: 1.0,
            min_lr: 0.1,
            warmup_steps: 4,
            schedule: choice,
            ..TrainSection::default()
        })
    }

    #[test]
    fn tabled_values() {
        let rows = [
            (ScheduleChoice::Cosine, 0, 0.2),
            (ScheduleChoice::Cosine, 3, 0.8),
            (ScheduleChoice::Cosine, 4, 1.0),
            (ScheduleChoice::Cosine, 12, 0.55),
            (ScheduleChoice::Cosine, 20, 0.1),
            (ScheduleChoice::Cosine, 99, 0.1),
            (ScheduleChoice::Trapezoidal, 2, 0.6),
            (ScheduleChoice::Trapezoidal, 15, 1.0),
            (ScheduleChoice::Trapezoidal, 16, 0.775),
            (ScheduleChoice::Trapezoidal, 19, 0.1),
            (ScheduleChoice::Constant, 19, 1.0),
        ];
        for (choice, step, expected) in rows {
            let lr = schedule(choice).lr(step);
            assert!((lr - expected).abs() < 1e-12, "{choice:?} step {step}: {lr}, expected {expected}");
        }
    }
}

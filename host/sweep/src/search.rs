//! Rates found by trials: the best of a grid, by whole runs or successive halving, and the largest stable one by
//! bisection.
//!
//! A trial is a run of its own with the stated seed, without sinks and measurements, which change nothing in the
//! training. It keeps the measurements and thresholds of alerts if one of them switches casts. Groups, the combinations
//! without their seeds, are searched side by side.

use altgrad_base::diagnostic::Diagnostic;
use altgrad_config::{
    AlertsSection, CastPhase, CastTrigger, CurvatureSection, ObserveSection, RunConfig, ShadowSection,
};
use toml::Value;

use super::{
    Halt, Sweep,
    bisection::Bisection,
    combine::Combination,
    names,
    outcome::Outcome,
    rates::{StableSection, TuneSection},
    successive_halving::SuccessiveHalving,
};
/// Evaluations of a trial at least, twice the number needed to detect a rising loss.
const EVALUATIONS: u64 = 10;

/// Removes sinks and measurements from a run file; those of alerts stay if one of them switches casts.
pub fn without_measurements(config: &mut RunConfig) {
    config.sink.clear();
    config.curvature = CurvatureSection::default();
    config.observe = ObserveSection::default();
    config.checkpoint.keep_best = false;
    config.checkpoint.on_anomaly = false;
    let on_alert = |phase: &CastPhase| matches!(phase.trigger, CastTrigger::On(_));
    if !config.quant.schedule.iter().any(on_alert) {
        config.shadow = ShadowSection::default();
        config.metrics = config.metrics.off();
        config.alerts = AlertsSection::default();
    }
}

impl Sweep {
    /// One combination of each group, in order.
    pub(super) fn groups(&self) -> Vec<Combination> {
        let mut groups: Vec<Combination> = Vec::new();
        for combination in &self.combinations {
            if !groups.iter().any(|known| known.group == combination.group) {
                groups.push(combination.clone());
            }
        }
        groups
    }

    /// The run file of a trial.
    pub(super) fn trial(
        &self,
        group: &Combination,
        key: &str,
        value: f64,
        seed: u64,
    ) -> Result<RunConfig, Diagnostic> {
        let seed_value = i64::try_from(seed).unwrap_or(i64::MAX);
        let last = key.rsplit('.').next().unwrap_or_default();
        let name = format!("{}_{last}{}_s{seed}", group.group, names::number(value));
        let mut sets = self.matrix.with_rate(group, key, value)?;
        sets.push(("run.seed".to_string(), Value::Integer(seed_value)));
        let (mut config, _) = self.matrix.resolve(group, &sets, &self.folder.trials(), &name)?;
        without_measurements(&mut config);
        let train = &mut config.train;
        let most = train.max_steps.div_ceil(EVALUATIONS);
        train.eval_interval = if train.eval_interval == 0 { most } else { train.eval_interval.min(most) };
        Ok(config)
    }

    /// The seed of trials: the stated one or the base's.
    pub(super) fn trial_seed(&self, stated: Option<u64>) -> Result<u64, Diagnostic> {
        let base = || altgrad_config::load(&self.matrix.base, &[]).map(|(config, _)| config.run.seed);
        stated.map_or_else(base, Ok)
    }

    /// Finds each group's best rate.
    pub(super) fn tune(&mut self, tune: &TuneSection) -> Result<(), Halt> {
        let (groups, seed) = (self.groups(), self.trial_seed(tune.seed)?);
        let halving = |group: &Combination| {
            let (key, grid) = group.tune.clone()?;
            Some((group.clone(), SuccessiveHalving::new(&group.group, key, seed, grid)))
        };
        let mut halvings: Vec<(Combination, SuccessiveHalving)> = groups.iter().filter_map(halving).collect();
        for rung in tune.rungs.iter().copied().map(Some).chain([None]) {
            let mut configs = Vec::new();
            for (group, halving) in &halvings {
                for value in &halving.left {
                    let config = self.trial(group, &halving.tuned.key, *value, seed)?;
                    let until = rung.unwrap_or(config.train.max_steps);
                    configs.push((config, until));
                }
            }
            let phase = rung.map_or("tuning".to_string(), |rung| format!("tuning up to step {rung}"));
            let mut outcomes = self.batch(&phase, &configs)?.into_iter();
            for (_, halving) in &mut halvings {
                let own: Vec<Outcome> = outcomes.by_ref().take(halving.left.len()).collect();
                halving.judge(&own, rung.is_none());
            }
        }
        self.tuned = halvings.into_iter().map(|(_, halving)| halving.close()).collect();
        Ok(())
    }

    /// Finds each group's largest stable rate.
    pub(super) fn find_stable(&mut self, section: &StableSection) -> Result<(), Halt> {
        let (groups, seed) = (self.groups(), self.trial_seed(section.seed)?);
        let bisection = |group: &Combination| Bisection::new(&group.group, section, seed);
        let mut bisections: Vec<Bisection> = groups.iter().map(bisection).collect();
        loop {
            let mut asked: Vec<(usize, f64)> = Vec::new();
            for (index, bisection) in bisections.iter().enumerate() {
                asked.extend(bisection.next().into_iter().map(|value| (index, value)));
            }
            if asked.is_empty() {
                break;
            }
            let mut configs = Vec::new();
            for (index, value) in &asked {
                let config = self.trial(&groups[*index], &section.key, *value, seed)?;
                let until = config.train.max_steps;
                configs.push((config, until));
            }
            let outcomes = self.batch("largest stable rate", &configs)?;
            for (((index, value), (config, _)), outcome) in asked.iter().zip(&configs).zip(&outcomes) {
                bisections[*index].judge(*value, outcome);
                self.failures.extend(outcome.unjudged().map(|why| (config.run.name.clone(), why)));
            }
        }
        self.stable = bisections.into_iter().map(|bisection| bisection.stable).collect();
        Ok(())
    }
}

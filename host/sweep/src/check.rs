//! Checks of a sweep before it writes anything.

use altgrad_base::diagnostic::Diagnostic;
use altgrad_config::{DeviceChoice, RunConfig};

use super::{CheckRun, Sweep, combine::Combination};
impl Sweep {
    /// Every combination passes `check_run`, and every run that has started matches its combination. Returns the
    /// devices of the combinations.
    pub(super) fn check(&self, check_run: CheckRun<'_>) -> Result<Vec<DeviceChoice>, Diagnostic> {
        let mut devices = Vec::new();
        for group in &self.groups() {
            for (key, value, seed) in self.tried(group)? {
                self.check_key(&key)?;
                let config = self.trial(group, &key, value, seed)?;
                self.folder.check(&config)?;
                self.check_rungs(&config)?;
            }
        }
        // The first trial of the others is a run of the matrix with another rate; of these the key may be wrong.
        for (group, stable) in
            self.groups().iter().flat_map(|group| self.matrix.stable.iter().map(move |s| (group, s)))
        {
            let (config, source) = self.resolve(group, Some(&(stable.key.clone(), stable.from)))?;
            check_run(config, &source).map_err(|error| self.matrix.placed(group, error))?;
        }
        for combination in &self.combinations {
            let first = combination.tune.as_ref().and_then(|(key, grid)| Some((key.clone(), *grid.first()?)));
            let (config, source) = self.resolve(combination, first.as_ref())?;
            let task = self.folder.task(&config, config.train.max_steps);
            devices.push(task.device);
            if first.is_none() {
                self.folder.check(&config)?;
            }
            if !task.is_done() {
                check_run(config, &source).map_err(|error| self.matrix.placed(combination, error))?;
            }
        }
        Ok(devices)
    }

    /// A key whose value is found by trials cannot be an axis.
    fn check_key(&self, key: &str) -> Result<(), Diagnostic> {
        if !self.matrix.axes.iter().any(|axis| axis.name == key) {
            return Ok(());
        }
        Err(Diagnostic::config(format!("`{key}` is both an axis and found by trials"))
            .at(self.matrix.source.path().display())
            .hint("remove the axis, or look for another key in [tune] and [stable]"))
    }

    fn check_rungs(&self, config: &RunConfig) -> Result<(), Diagnostic> {
        let steps = config.train.max_steps;
        match self.matrix.tune.as_ref().and_then(|tune| tune.rungs.last()) {
            Some(last) if *last >= steps => {
                let message =
                    format!("`tune.rungs` must be below `train.max_steps` ({steps}), the last is {last}");
                Err(Diagnostic::config(message)
                    .at(self.matrix.source.locate("tune.rungs"))
                    .hint("remove it: the whole run is added as the last rung"))
            }
            _ => Ok(()),
        }
    }

    /// Keys, values and seeds of a group's trials that are known beforehand.
    fn tried(&self, group: &Combination) -> Result<Vec<(String, f64, u64)>, Diagnostic> {
        let mut found = Vec::new();
        if let (Some(tune), Some((key, grid))) = (&self.matrix.tune, &group.tune) {
            let seed = self.trial_seed(tune.seed)?;
            found.extend(grid.iter().map(|value| (key.clone(), *value, seed)));
        }
        if let Some(stable) = &self.matrix.stable {
            let seed = self.trial_seed(stable.seed)?;
            found.extend([stable.from, stable.to].map(|value| (stable.key.clone(), value, seed)));
        }
        Ok(found)
    }
}

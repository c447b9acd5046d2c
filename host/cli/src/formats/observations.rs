//! Observed distributions: of a run's `histograms.csv`, or of a file of f32 values.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use altgrad_base::diagnostic::Diagnostic;
use altgrad_casts::design::{Distribution, LogGrid};
use altgrad_metrics::{MetricId, Role, families::observation::OBSERVED_RELATIVE};
use altgrad_run_folder::rows::Rows;

use crate::raw_f32;

/// Counts of a step and role, in the bins of [`LogGrid`].
pub(super) type Counted = (u64, String, Vec<u64>);

/// Counts by step and role, in the order of steps.
pub(super) struct Observations {
    counted: Vec<Counted>,
    /// The elements that share a scale, as a run file has them.
    pub(super) block: String,
    /// The largest magnitude, where all elements share a scale; else 1.
    pub(super) unit: f64,
    /// The run file, if there is a run.
    pub(super) config: Option<PathBuf>,
}

impl Observations {
    /// Reads a run folder, its `histograms.csv`, or f32 values.
    ///
    /// # Errors
    /// There are no observations, or they have other blocks.
    pub(super) fn read(path: &Path, scale_block: Option<u32>) -> Result<Self, Diagnostic> {
        if path.extension().is_some_and(|extension| extension == "f32") {
            return Self::of_values(&raw_f32::read(path)?, scale_block);
        }
        let folder = if path.is_dir() { path } else { path.parent().unwrap_or(Path::new(".")) };
        let file = if path.is_dir() { path.join("histograms.csv") } else { path.to_owned() };
        let config = folder.join("config.toml");
        let config = config.is_file().then_some(config);
        let block = match &config {
            Some(config) => {
                let (read, _) = altgrad_config::load(config, &[])?;
                toml::Value::from(read.observe.block).to_string()
            }
            None => scale_block.map_or("\"tensor\"".to_owned(), |block| block.to_string()),
        };
        if let Some(wanted) = scale_block.filter(|wanted| wanted.to_string() != block) {
            return Err(Diagnostic::config(format!(
                "--scale-block is {wanted}, but the run observed blocks of {block}"
            ))
            .at(file.display())
            .hint(format!("leave --scale-block out, or run again with observe.block = {wanted}")));
        }
        let counted = counts(&file).map_err(|message| Diagnostic::config(message).at(file.display()))?;
        if counted.is_empty() {
            return Err(Diagnostic::config("there are no observed distributions").at(file.display()).hint(
                "run with [observe], such as formats = [\"E4M3\"], and a [[sink]] named csv; or give a file of f32 values that ends with .f32",
            ));
        }
        Ok(Self { counted, block, unit: 1.0, config })
    }

    fn of_values(values: &[f32], scale_block: Option<u32>) -> Result<Self, Diagnostic> {
        let mut grid = LogGrid::default();
        let block = scale_block.map_or(values.len(), |block| block as usize);
        grid.add_matrix(values, values.len(), [1, block]);
        if grid.counts().iter().all(|count| *count == 0) {
            return Err(
                Diagnostic::config("all values are zero, infinite or NaN").hint("give values to design for")
            );
        }
        let amax = values.iter().map(|x| x.abs()).filter(|x| x.is_finite()).fold(0.0, f32::max);
        Ok(Self {
            counted: vec![(0, "values".to_owned(), grid.counts().to_vec())],
            block: scale_block.map_or("\"tensor\"".to_owned(), |block| block.to_string()),
            unit: if scale_block.is_none() { f64::from(amax) } else { 1.0 },
            config: None,
        })
    }

    /// Those of these roles; all, if none is named.
    ///
    /// # Errors
    /// A role was not observed.
    pub(super) fn of_roles(mut self, roles: &[String]) -> Result<Self, Diagnostic> {
        let known = self.roles().join(", ");
        if let Some(other) = roles.iter().find(|role| !self.counted.iter().any(|(_, of, _)| of == *role)) {
            return Err(Diagnostic::config(format!("the role `{other}` was not observed"))
                .at("--role")
                .hint(format!("observed roles: {known}")));
        }
        self.counted.retain(|(_, role, _)| roles.is_empty() || roles.contains(role));
        Ok(self)
    }

    /// The roles, each once.
    pub(super) fn roles(&self) -> Vec<&str> {
        let all: BTreeSet<&str> = self.counted.iter().map(|(_, role, _)| role.as_str()).collect();
        let order = |role: &&str| Role::ALL.iter().position(|known| known.name() == *role);
        let mut roles: Vec<&str> = all.into_iter().collect();
        roles.sort_by_key(order);
        roles
    }

    /// Every second step, and the others; none of these if there is one step.
    pub(super) fn halves(&self) -> (Vec<Counted>, Vec<Counted>) {
        let steps: BTreeSet<u64> = self.counted.iter().map(|(step, ..)| *step).collect();
        let is_held_out =
            |step: u64| steps.iter().position(|known| *known == step).is_some_and(|place| place % 2 == 1);
        self.counted.iter().cloned().partition(|(step, ..)| !is_held_out(*step))
    }
}

/// The rows of a file of distributions. Each is a step and role.
fn counts(path: &Path) -> Result<Vec<Counted>, String> {
    let Some(mut rows) = Rows::open(path)? else { return Err("there is no such file".to_owned()) };
    let columns = ["name", "layer", "counts"].map(|name| rows.column(name));
    let [Some(name), Some(layer), Some(counts)] = columns else {
        return Err("it has no columns `name`, `layer` and `counts`".to_owned());
    };
    let bins = LogGrid::default().counts().len();
    let mut found = Vec::new();
    while let Some((step, cells)) = rows.next_row()? {
        let Ok(text) = std::str::from_utf8(&cells[name]) else { continue };
        let id = text
            .parse::<MetricId>()
            .ok()
            .filter(|id| *id.definition() == OBSERVED_RELATIVE && cells[layer].is_empty());
        let Some(role) = id.and_then(|id| id.statistic.role) else { continue };
        let numbers = std::str::from_utf8(&cells[counts]).unwrap_or_default().split(' ');
        let Ok(numbers) = numbers.map(str::parse).collect::<Result<Vec<u64>, _>>() else {
            return Err(format!("the counts of {text} are damaged"));
        };
        if numbers.len() != bins {
            return Err(format!("{text} has {} bins, this version has {bins}", numbers.len()));
        }
        found.push((step, role.name().to_owned(), numbers));
    }
    Ok(found)
}

/// The distribution of all counts. With `by_role` each role has the same expected square in all.
pub(super) fn pooled(counted: &[Counted], by_role: bool) -> Distribution {
    let mut masses: Vec<f64> = Vec::new();
    let roles: BTreeSet<&str> = counted.iter().map(|(_, role, _)| role.as_str()).collect();
    for role in roles {
        let mut sums = vec![0u64; LogGrid::default().counts().len()];
        for (.., counts) in counted.iter().filter(|(_, of, _)| of == role) {
            sums.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
        }
        let [.., square] = LogGrid::distribution_of(&sums).total();
        let weight = if by_role && square > 0.0 { 1.0 / square } else { 1.0 };
        masses.resize(sums.len(), 0.0);
        masses.iter_mut().zip(&sums).for_each(|(mass, sum)| *mass += weight * *sum as f64);
    }
    LogGrid::distribution_by(&masses)
}

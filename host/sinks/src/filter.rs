//! The rows and metrics that a sink receives.

use std::collections::HashMap;

use altgrad_metrics::{MetricId, families::training::VAL_LOSS};
use wildmatch::WildMatch;

use crate::row::Row;

/// The keys of a `[[sink]]` that choose rows and metrics. Patterns have `*` for any text and `?` for a character.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilterChoice {
    /// Names of metrics that it gets; empty: all.
    pub include: Vec<String>,
    /// Names of metrics that it does not get, of those.
    pub exclude: Vec<String>,
    /// It receives one step in this many; steps with an evaluation always. At least 1.
    pub every: u64,
    /// It receives metrics of layers and histograms at one step in this many, of those. At least 1.
    pub layers_every: u64,
}

impl Default for FilterChoice {
    fn default() -> Self {
        Self { include: Vec::new(), exclude: Vec::new(), every: 1, layers_every: 1 }
    }
}

impl FilterChoice {
    /// True if the sink receives anything of a row.
    pub(crate) fn takes_row(&self, row: &Row) -> bool {
        let is_evaluation = |(id, _): &(MetricId, f64)| std::ptr::eq(id.definition(), &VAL_LOSS);
        row.record.step.is_multiple_of(self.every) || row.record.values.iter().any(is_evaluation)
    }
}

/// A filter with its decisions so far.
#[derive(Debug)]
pub(crate) struct Filter {
    include: Vec<WildMatch>,
    exclude: Vec<WildMatch>,
    layers_every: u64,
    /// The decision for each name.
    known: HashMap<String, bool>,
}

impl Filter {
    pub(crate) fn new(choice: &FilterChoice) -> Self {
        // The name of a metric in run files of 0.1.0.
        let pattern = |pattern: &String| WildMatch::new(&pattern.replace("grad_snr", "grad_mean_over_std"));
        let patterns = |patterns: &[String]| patterns.iter().map(pattern).collect::<Vec<_>>();
        Self {
            include: patterns(&choice.include),
            exclude: patterns(&choice.exclude),
            layers_every: choice.layers_every,
            known: HashMap::new(),
        }
    }

    /// True if the sink ever receives a metric.
    pub(crate) fn takes(&mut self, name: &str) -> bool {
        if let Some(known) = self.known.get(name) {
            return *known;
        }
        let any = |patterns: &[WildMatch]| patterns.iter().any(|pattern| pattern.matches(name));
        let takes = (self.include.is_empty() || any(&self.include)) && !any(&self.exclude);
        self.known.insert(name.to_owned(), takes);
        takes
    }

    /// True if the sink receives a metric at a step.
    pub(crate) fn takes_at(&mut self, step: u64, id: &MetricId, name: &str) -> bool {
        (id.layer().is_none() || self.takes_layers_at(step)) && self.takes(name)
    }

    /// True if the sink receives metrics of layers and histograms at a step.
    pub(crate) fn takes_layers_at(&self, step: u64) -> bool {
        step.is_multiple_of(self.layers_every)
    }
}

#[cfg(test)]
mod tests {
    use altgrad_metrics::MetricRecord;

    use super::*;

    fn choice(include: &[&str], exclude: &[&str]) -> FilterChoice {
        let owned = |patterns: &[&str]| patterns.iter().map(ToString::to_string).collect();
        FilterChoice { include: owned(include), exclude: owned(exclude), ..FilterChoice::default() }
    }

    #[test]
    fn names_are_included_and_then_excluded() {
        let takes = |include: &[&str], exclude: &[&str], name: &str| {
            let mut filter = Filter::new(&choice(include, exclude));
            assert_eq!(filter.takes(name), filter.takes(name));
            filter.takes(name)
        };
        assert!(takes(&[], &[], "train/loss"));
        assert!(takes(&["train/*", "val/loss"], &[], "val/loss"));
        assert!(!takes(&["train/*"], &[], "val/loss"));
        assert!(takes(&["*grad_snr*"], &[], "grad_mean_over_std/wte.weight"));
        assert!(!takes(&["train/*"], &["*_norm"], "train/grad_norm"));
        assert!(!takes(&[], &["quant/*"], "quant/weight/sqnr_db"));
    }

    #[test]
    fn rows_come_every_so_many_steps_and_with_each_evaluation() {
        let choice = FilterChoice { every: 10, ..FilterChoice::default() };
        let row = |step, evaluated: bool| {
            let mut record = MetricRecord::new(step);
            record.push_some(&VAL_LOSS, evaluated.then_some(2.0));
            Row::new(record)
        };
        let taken = [(0, false), (5, false), (7, true), (20, false)];
        assert_eq!(
            taken.map(|(step, evaluated)| choice.takes_row(&row(step, evaluated))),
            [true, false, true, true]
        );
    }
}

//! What the runs say about their configurations, and what they do not.
//!
//! A configuration is held against the baseline by differences of held-out losses, paired by seed, at the last step that
//! both runs evaluated, if it is not the first: untrained models are equal. Pairs of configurations are told apart only where
//! the paired t-test, Holm-corrected over all pairs, says so; with one seed nothing is.

use altgrad_metrics::{MetricDefinition, families::speed::TOKENS_PER_S, report::columns};
use serde::{Serialize, Serializer};

pub use super::pairs::Separated;
use super::{
    group::Group,
    pairs::{Pair, comparable, pairs, separated, span},
    ranking,
    run::{Evaluation, Run},
    stats::Sample,
};

/// How far from the baseline's loss is still within it, as a share.
pub const TOLERANCE: f64 = 0.1;

/// How a configuration's held-out loss stands to the baseline's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It is the baseline.
    Baseline,
    /// The ratio's interval, or with one seed the ratio, lies within 10 %.
    Within,
    /// It lies above.
    Worse,
    /// It lies below.
    Better,
    /// The interval reaches over a border.
    Open,
    /// Runs of other data, without a common seed or a step that both evaluated after the first update, or no baseline.
    NotComparable,
    /// No run came to a loss.
    Failed,
}

impl Verdict {
    /// In a table.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Baseline => "baseline",
            Self::Within => "within 10 %",
            Self::Worse => "outside: worse",
            Self::Better => "outside: better",
            Self::Open => "open",
            Self::NotComparable => "not comparable",
            Self::Failed => "failed",
        }
    }
}

/// One configuration.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    /// Its label.
    pub label: String,
    /// Format, for its colour.
    pub format: String,
    /// Seeds with a final loss, and all.
    pub seeds: [usize; 2],
    /// First and last of the steps at which the final losses were measured.
    pub steps: Option<[u64; 2]>,
    /// Final held-out loss, nats per token.
    pub loss: Option<Sample>,
    /// Lowest held-out loss of any run.
    pub best: Option<f64>,
    /// `exp` of the mean final loss.
    pub perplexity: Option<f64>,
    /// First and last of the steps at which it is held against the baseline.
    pub compared_at: Option<[u64; 2]>,
    /// Loss minus the baseline's, by seed, at those steps.
    pub difference: Option<Sample>,
    /// Mean loss over the baseline's, of the same seeds.
    pub ratio: Option<f64>,
    /// Its interval, the baseline's mean taken as it is.
    pub ratio_interval: Option<[f64; 2]>,
    /// Within 10 % or not.
    pub verdict: Verdict,
    /// Means over steps and runs of the metrics that have a column.
    #[serde(flatten)]
    pub metrics: MetricColumns,
}

/// A value for each of the metrics' [`columns`].
#[derive(Debug, Clone, PartialEq)]
pub struct MetricColumns(pub Vec<Option<f64>>);

impl Serialize for MetricColumns {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(columns().iter().map(|(_, column)| column.key).zip(&self.0))
    }
}

/// The answer.
#[derive(Debug, Clone, Serialize)]
pub struct Comparison {
    /// One a configuration.
    pub rows: Vec<Row>,
    /// The baseline's label.
    pub baseline: Option<String>,
    /// Pairs that could be tested: at least two common seeds.
    pub pairs_tested: usize,
    /// Those told apart.
    pub separated: Vec<Separated>,
    /// What may be said of an order, in sentences.
    pub ranking: Vec<String>,
    /// What to know before reading the numbers.
    pub notes: Vec<String>,
}

impl Comparison {
    /// Compares groups; `baseline` is the number of one.
    #[must_use]
    pub fn new(runs: &[Run], groups: &[Group], baseline: Option<usize>) -> Self {
        let mut rows: Vec<Row> = groups
            .iter()
            .enumerate()
            .map(|(index, group)| row(runs, groups, group, index, baseline))
            .collect();
        let (pairs_tested, separated) = separated(runs, groups);
        let sentences = ranking::sentences(groups, pairs_tested, &separated);
        if ranking::is_total(groups, &separated) {
            let loss = |row: &Row| row.loss.map_or(f64::INFINITY, |loss| loss.mean);
            rows.sort_by(|a, b| loss(a).total_cmp(&loss(b)));
        }
        let notes = ranking::notes(runs, groups, baseline);
        let baseline = baseline.map(|index| groups[index].label.clone());
        Self { rows, baseline, pairs_tested, separated, ranking: sentences, notes }
    }
}

/// The group that a user names: by its label, or a run of it by name or folder; or else the one without formats.
#[must_use]
pub fn baseline(runs: &[Run], groups: &[Group], named: Option<&str>) -> Option<usize> {
    let Some(named) = named else { return unquantized(groups) };
    let place = |path: &std::path::Path| std::fs::canonicalize(path).ok();
    let wanted = place(named.as_ref());
    let is_it = |run: &Run| run.name == named || wanted.is_some() && place(&run.path) == wanted;
    let of_group = |group: &Group| group.runs.iter().chain(&group.repeated).any(|run| is_it(&runs[*run]));
    groups.iter().position(|group| group.label == named).or_else(|| groups.iter().position(of_group))
}

/// Of several groups without formats the one in fp32 with AdamW, else the first.
fn unquantized(groups: &[Group]) -> Option<usize> {
    let adamw = |group: &Group| group.format == "fp32" && group.optimizer.as_deref() == Some("adamw");
    groups.iter().position(adamw).or_else(|| groups.iter().position(Group::is_unquantized))
}

fn row(runs: &[Run], groups: &[Group], group: &Group, index: usize, baseline: Option<usize>) -> Row {
    let finals: Vec<Evaluation> = group.runs.iter().filter_map(|run| runs[*run].final_loss()).collect();
    let losses: Vec<f64> = finals.iter().map(|last| last.loss).collect();
    let loss = Sample::of(&losses);
    let bests = group.runs.iter().filter_map(|run| Some(runs[*run].best_loss()?.1));
    let over = |value: &dyn Fn(&Run) -> Option<f64>| {
        let values: Vec<f64> = group.runs.iter().filter_map(|run| value(&runs[*run])).collect();
        Sample::of(&values).map(|sample| sample.mean)
    };
    let against = baseline.map(|baseline| &groups[baseline]);
    let pairs = against.filter(|other| comparable(runs, group, other)).map(|other| pairs(runs, group, other));
    let pairs = pairs.unwrap_or_default();
    let sample = |value: fn(&Pair) -> f64| Sample::of(&pairs.iter().map(value).collect::<Vec<_>>());
    let difference = sample(Pair::difference);
    let scale = sample(|pair| pair.other).map(|sample| sample.mean).filter(|mean| *mean > 0.0);
    let ratio = difference.zip(scale).map(|(difference, scale)| 1.0 + difference.mean / scale);
    let ratio_interval = difference.and_then(|difference| difference.interval()).zip(scale);
    let ratio_interval = ratio_interval.map(|(ends, scale)| ends.map(|end| 1.0 + end / scale));
    let verdict = match ratio {
        _ if baseline == Some(index) => Verdict::Baseline,
        _ if losses.is_empty() => Verdict::Failed,
        None => Verdict::NotComparable,
        Some(ratio) => verdict(ratio_interval.unwrap_or([ratio, ratio])),
    };
    let compared = |verdict| verdict != Verdict::Baseline;
    Row {
        label: group.label.clone(),
        format: group.format.clone(),
        seeds: [losses.len(), group.runs.len()],
        steps: span(finals.iter().map(|last| last.step)),
        loss,
        best: bests.min_by(f64::total_cmp),
        perplexity: loss.map(|loss| loss.mean.exp()),
        compared_at: span(pairs.iter().map(|pair| pair.step)).filter(|_| compared(verdict)),
        difference: difference.filter(|_| compared(verdict)),
        ratio,
        ratio_interval: ratio_interval.filter(|_| compared(verdict)),
        verdict,
        metrics: MetricColumns(
            columns().iter().map(|(metric, _)| over(&|run| of_run(run, metric))).collect(),
        ),
    }
}

/// A metric's mean over a run. `run.json` knows the rate better than its rows.
fn of_run(run: &Run, metric: &'static MetricDefinition) -> Option<f64> {
    if *metric == TOKENS_PER_S { run.tokens_per_s() } else { run.mean(metric) }
}

fn verdict([low, high]: [f64; 2]) -> Verdict {
    let (least, most) = (1.0 - TOLERANCE, 1.0 + TOLERANCE);
    match () {
        () if low > most => Verdict::Worse,
        () if high < least => Verdict::Better,
        () if low >= least && high <= most => Verdict::Within,
        () => Verdict::Open,
    }
}

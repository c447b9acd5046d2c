//! Comparison of configurations, and its limits.
//!
//! A configuration is compared with its baseline (see the module `sets`) by differences of held-out losses, paired by
//! seed, at the last step that both runs evaluated, if it is not the first: untrained models are equal. Each treatment
//! is tested against its baseline by the paired t-test, Holm-corrected over these tests; every pair of a set on
//! request. Where no difference is shown, the smallest that would have been is. With one seed nothing is tested.

use altgrad_metrics::{MetricDefinition, families::speed::TOKENS_PER_S, report::columns};
use serde::{Serialize, Serializer};

mod ranking;
mod request;

pub use self::request::ComparisonChoice;
pub use super::pairs::{Pair, Separated};
pub use super::sets::{Basis, Set};
use super::{
    group::Group,
    pairs::{Tested, pairs, separated, span},
    power,
    run::{LossAtStep, Run},
    sets::{self, Contrast},
    stats::{CONFIDENCE, Sample},
};

/// The default margin: the largest relative deviation from the baseline's loss that counts as equivalent.
pub const MARGIN: f64 = 0.1;

/// The user's options of a comparison.
#[derive(Debug, Clone, Copy)]
pub struct Choice {
    /// The index of the baseline of its set.
    pub baseline: Option<usize>,
    /// The margin: the largest relative deviation from the baseline's loss that counts as equivalent.
    pub margin: f64,
    /// True if every pair of a set is tested, and not only those with the baseline.
    pub all_pairs: bool,
}

impl Default for Choice {
    fn default() -> Self {
        Self { baseline: None, margin: MARGIN, all_pairs: false }
    }
}

/// A configuration's held-out loss compared with the baseline's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LossVerdict {
    /// It is the baseline.
    Baseline,
    /// The ratio's interval, or with one seed the ratio, lies within the margin.
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

impl LossVerdict {
    /// In a table.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Baseline => "baseline",
            Self::Within => "within margin",
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
    /// First and last of the steps at which it is compared with the baseline.
    pub compared_at: Option<[u64; 2]>,
    /// Loss minus the baseline's, by seed, at those steps.
    pub difference: Option<Sample>,
    /// The losses of the same seeds, one entry a seed.
    pub pairs: Vec<Pair>,
    /// Mean loss over the baseline's, of the same seeds.
    pub ratio: Option<f64>,
    /// Its interval, the baseline's mean taken as it is.
    pub ratio_interval: Option<[f64; 2]>,
    /// The label of its baseline.
    pub baseline: Option<String>,
    /// The criterion by which the two were chosen.
    pub basis: Option<Basis>,
    /// p-value of the difference, corrected for the number of tests; missing where it was not tested.
    pub p_holm: Option<f64>,
    /// The smallest true difference that its test finds with probability [`power::POWER`].
    pub detectable: Option<f64>,
    /// Within the margin or not.
    pub verdict: LossVerdict,
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
    /// Sets of comparable configurations, the largest first.
    pub sets: Vec<Set>,
    /// The margin: the largest relative deviation from the baseline's loss that counts as equivalent.
    pub margin: f64,
    /// Pairs that could be tested: at least two common seeds.
    pub pairs_tested: usize,
    /// Pairs that differ significantly.
    pub separated: Vec<Separated>,
    /// Sentences about the significance of differences.
    pub ranking: Vec<String>,
    /// Notes about the numbers.
    pub notes: Vec<String>,
}

impl Comparison {
    /// Compares groups.
    #[must_use]
    pub fn new(runs: &[Run], groups: &[Group], choice: Choice) -> Self {
        let (sets, contrasts) = sets::sets(runs, groups, choice.baseline);
        let held: Vec<(usize, usize)> = match choice.all_pairs {
            true => sets.iter().flat_map(|set| pairs_of(&set.groups)).collect(),
            false => contrasts
                .iter()
                .filter(|contrast| contrast.is_tested)
                .map(|contrast| (contrast.group, contrast.baseline))
                .collect(),
        };
        let (tests, separated) = separated(runs, groups, held.into_iter());
        let compared = Compared { runs, groups, contrasts: &contrasts, tests: &tests, choice };
        let mut rows: Vec<Row> = (0..groups.len()).map(|group| compared.row(group, &sets)).collect();
        let ranking = ranking::sentences(groups, &sets, &rows, &tests, &separated, choice.all_pairs);
        if choice.all_pairs && ranking::is_total(groups, &separated) {
            let loss = |row: &Row| row.loss.map_or(f64::INFINITY, |loss| loss.mean);
            rows.sort_by(|a, b| loss(a).total_cmp(&loss(b)));
        }
        let notes = ranking::notes(runs, groups, &sets, &contrasts);
        let margin = choice.margin;
        Self { rows, sets, margin, pairs_tested: tests.len(), separated, ranking, notes }
    }

    /// The label of the baseline of the largest set.
    #[must_use]
    pub fn baseline(&self) -> Option<&str> {
        self.sets.first()?.baseline.as_deref()
    }
}

/// Every pair of some groups.
fn pairs_of(groups: &[usize]) -> Vec<(usize, usize)> {
    let with = |index: usize| groups[index + 1..].iter().map(move |other| (groups[index], *other));
    (0..groups.len()).flat_map(with).collect()
}

/// The configuration that a user names: by its label, a run of it by name or folder, its format if it is unquantized,
/// or a part of the names of its runs that no other configuration has in a sweep: `none` of `none_s1` and `none_s2`.
#[must_use]
pub fn named(runs: &[Run], groups: &[Group], named: &str) -> Option<usize> {
    let place = |path: &std::path::Path| std::fs::canonicalize(path).ok();
    let wanted = place(named.as_ref());
    let is_it = |run: &Run| run.name == named || wanted.is_some() && place(&run.path) == wanted;
    let of_group = |group: &Group| group.runs.iter().chain(&group.repeated).any(|run| is_it(&runs[*run]));
    let by = |is: &dyn Fn(&Group) -> bool| groups.iter().position(is);
    // Parts are separated by `_`, which a part may hold too.
    let has_part = |run: &usize| format!("_{}_", runs[*run].name).contains(&format!("_{named}_"));
    let with_part = |group: &Group| group.runs.iter().chain(&group.repeated).all(has_part);
    let only = || {
        let mut found = (0..groups.len()).filter(|group| with_part(&groups[*group]));
        found.next().filter(|_| found.next().is_none())
    };
    by(&|group| group.label == named)
        .or_else(|| by(&of_group))
        .or_else(|| by(&|group| group.is_unquantized && group.format == named))
        .or_else(only)
}

/// The input of rows.
struct Compared<'a> {
    runs: &'a [Run],
    groups: &'a [Group],
    contrasts: &'a [Contrast],
    tests: &'a [Tested],
    choice: Choice,
}

impl Compared<'_> {
    fn row(&self, index: usize, sets: &[Set]) -> Row {
        let (runs, group) = (self.runs, &self.groups[index]);
        let finals: Vec<LossAtStep> = group.runs.iter().filter_map(|run| runs[*run].final_loss()).collect();
        let losses: Vec<f64> = finals.iter().map(|last| last.loss).collect();
        let loss = Sample::of(&losses);
        let bests = group.runs.iter().filter_map(|run| Some(runs[*run].best_loss()?.1));
        let over = |value: &dyn Fn(&Run) -> Option<f64>| {
            let values: Vec<f64> = group.runs.iter().filter_map(|run| value(&runs[*run])).collect();
            Sample::of(&values).map(|sample| sample.mean)
        };
        let contrast = self.contrasts.iter().find(|contrast| contrast.group == index);
        let pairs = contrast.map(|contrast| pairs(runs, group, &self.groups[contrast.baseline]));
        let pairs = pairs.unwrap_or_default();
        let sample = |value: fn(&Pair) -> f64| Sample::of(&pairs.iter().map(value).collect::<Vec<_>>());
        let difference = sample(Pair::difference);
        let scale = sample(|pair| pair.other).map(|sample| sample.mean).filter(|mean| *mean > 0.0);
        let ratio = difference.zip(scale).map(|(difference, scale)| 1.0 + difference.mean / scale);
        let ratio_interval = difference.and_then(|difference| difference.interval()).zip(scale);
        let ratio_interval = ratio_interval.map(|(ends, scale)| ends.map(|end| 1.0 + end / scale));
        let is_baseline = sets.iter().any(|set| set.baseline.as_ref() == Some(&group.label))
            || self.contrasts.iter().any(|contrast| contrast.baseline == index);
        let verdict = match ratio {
            _ if is_baseline && contrast.is_none() => LossVerdict::Baseline,
            _ if losses.is_empty() => LossVerdict::Failed,
            None => LossVerdict::NotComparable,
            Some(ratio) => verdict(ratio_interval.unwrap_or([ratio, ratio]), self.choice.margin),
        };
        let test = contrast.filter(|contrast| contrast.is_tested).and_then(|contrast| self.test(contrast));
        let level = (1.0 - CONFIDENCE) / self.tests.len().max(1) as f64;
        let detectable =
            test.and_then(|test| power::detectable(test.difference.n, test.difference.sd?, level));
        Row {
            label: group.label.clone(),
            format: group.format.clone(),
            seeds: [losses.len(), group.runs.len()],
            steps: span(finals.iter().map(|last| last.step)),
            loss,
            best: bests.min_by(f64::total_cmp),
            perplexity: loss.map(|loss| loss.mean.exp()),
            compared_at: span(pairs.iter().map(|pair| pair.step)),
            difference,
            pairs,
            ratio: if verdict == LossVerdict::Baseline { loss.map(|_| 1.0) } else { ratio },
            ratio_interval,
            baseline: contrast.map(|contrast| self.groups[contrast.baseline].label.clone()),
            basis: contrast.map(|contrast| contrast.basis),
            p_holm: test.map(|test| test.p_holm),
            detectable,
            verdict,
            metrics: MetricColumns(
                columns().iter().map(|(metric, _)| over(&|run| of_run(run, metric))).collect(),
            ),
        }
    }

    fn test(&self, contrast: &Contrast) -> Option<&Tested> {
        let pair = [contrast.group, contrast.baseline];
        self.tests.iter().find(|test| [test.a, test.b] == pair || [test.b, test.a] == pair)
    }
}

/// A metric's mean over a run. `run.json` has a more accurate rate than its rows.
fn of_run(run: &Run, metric: &'static MetricDefinition) -> Option<f64> {
    if *metric == TOKENS_PER_S { run.tokens_per_s() } else { run.mean(metric) }
}

fn verdict([low, high]: [f64; 2], margin: f64) -> LossVerdict {
    let (least, most) = (1.0 - margin, 1.0 + margin);
    match () {
        () if low > most => LossVerdict::Worse,
        () if high < least => LossVerdict::Better,
        () if low >= least && high <= most => LossVerdict::Within,
        () => LossVerdict::Open,
    }
}

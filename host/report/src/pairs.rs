//! Pairs of configurations, seed by seed: their comparability, their losses, and their significant differences.

use serde::Serialize;

use super::{
    group::Group,
    run::Run,
    stats::{CONFIDENCE, Sample, holm},
};

/// Two configurations with a significant difference.
#[derive(Debug, Clone, Serialize)]
pub struct Separated {
    /// The one with the lower loss.
    pub lower: String,
    /// The other.
    pub higher: String,
    /// Paired differences, lower minus higher.
    pub difference: Sample,
    /// Corrected for the number of pairs.
    pub p_holm: f64,
}

/// Two configurations that were tested.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tested {
    pub a: usize,
    pub b: usize,
    /// Of `a` minus `b`.
    pub difference: Sample,
    /// Corrected for the number of pairs.
    pub p_holm: f64,
}

/// Held-out losses of two runs of one seed.
#[derive(Debug, Clone, Serialize)]
pub struct Pair {
    /// The seed.
    pub seed: Option<String>,
    /// The last step that both evaluated alike.
    pub step: u64,
    /// True if a run continued after it.
    #[serde(skip)]
    pub is_early: bool,
    /// The run's loss, nats per token.
    pub loss: f64,
    /// The other run's loss.
    #[serde(rename = "baseline_loss")]
    pub other: f64,
}

impl Pair {
    /// The run's loss minus the other.
    #[must_use]
    pub fn difference(&self) -> f64 {
        self.loss - self.other
    }
}

/// The pairs of two groups, one a common seed. Models that were not trained yet are none.
pub(super) fn pairs(runs: &[Run], a: &Group, b: &Group) -> Vec<Pair> {
    let pair = |own: &usize| {
        let own = &runs[*own];
        let other = b.runs.iter().map(|other| &runs[*other]).find(|other| other.seed() == own.seed())?;
        let seed = own.seed().map(ToString::to_string);
        let ends = [own.final_loss()?.step, other.final_loss()?.step];
        let at = |step: u64| other.evaluations.binary_search_by_key(&step, |other| other.step).ok();
        own.evaluations.iter().rev().filter(|own| own.step > 0).find_map(|own| {
            let other = other.evaluations[at(own.step)?];
            (own.is_full == other.is_full).then(|| Pair {
                seed: seed.clone(),
                step: own.step,
                is_early: ends != [own.step; 2],
                loss: own.loss,
                other: other.loss,
            })
        })
    };
    a.runs.iter().filter_map(pair).collect()
}

/// Tests pairs of groups, those with at least two common seeds: returns the number of tested pairs, and those that
/// differ significantly.
pub(super) fn separated(
    runs: &[Run],
    groups: &[Group],
    wanted: impl Iterator<Item = (usize, usize)>,
) -> (Vec<Tested>, Vec<Separated>) {
    let mut tested = Vec::new();
    for (a, b) in wanted {
        let differences: Vec<f64> =
            pairs(runs, &groups[a], &groups[b]).iter().map(Pair::difference).collect();
        let sample = Sample::of(&differences);
        if let Some((sample, p)) = sample.and_then(|sample| Some((sample, sample.p_value()?))) {
            tested.push((a, b, sample, p));
        }
    }
    let corrected = holm(&tested.iter().map(|(.., p)| *p).collect::<Vec<_>>());
    let tested = tested.into_iter().zip(corrected);
    let tested: Vec<Tested> =
        tested.map(|((a, b, difference, _), p_holm)| Tested { a, b, difference, p_holm }).collect();
    let apart = tested.iter().filter(|test| test.p_holm < 1.0 - CONFIDENCE);
    let mut apart: Vec<Separated> = apart
        .map(|test| {
            let Tested { a, b, difference, p_holm } = *test;
            let (lower, higher) = if difference.mean < 0.0 { (a, b) } else { (b, a) };
            let difference = Sample { mean: -difference.mean.abs(), ..difference };
            let [lower, higher] = [lower, higher].map(|group| groups[group].label.clone());
            Separated { lower, higher, difference, p_holm }
        })
        .collect();
    apart.sort_by(|a, b| a.p_holm.total_cmp(&b.p_holm));
    (tested, apart)
}

/// The least and the most of some numbers.
pub(super) fn span(steps: impl Iterator<Item = u64> + Clone) -> Option<[u64; 2]> {
    Some([steps.clone().min()?, steps.max()?])
}

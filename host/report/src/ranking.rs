//! What may be said of an order, in sentences; and what to know before reading the numbers.

use super::{
    group::{Group, differing},
    pairs::{Separated, comparable, pairs, span},
    run::{Run, RunState},
};

/// Pairs that are listed.
const MOST_PAIRS: usize = 40;

/// Whether every pair of groups is told apart: then, and only then, is there an order.
pub(super) fn is_total(groups: &[Group], separated: &[Separated]) -> bool {
    groups.len() > 1 && separated.len() == groups.len() * (groups.len() - 1) / 2
}

/// What the seeds support.
pub(super) fn sentences(groups: &[Group], tested: usize, separated: &[Separated]) -> Vec<String> {
    if groups.len() < 2 {
        return vec!["One configuration: there is nothing to rank.".into()];
    }
    let most = groups.iter().map(|group| group.runs.len()).max().unwrap_or(0);
    if tested == 0 {
        let why = if most < 2 {
            "every configuration has one seed (n = 1)".to_string()
        } else {
            "no two configurations share two finished seeds".to_string()
        };
        return vec![format!(
            "Nothing can be ranked: {why}. Which difference is more than the seeds' noise cannot be said; rows are in the order of their names."
        )];
    }
    let method = format!(
        "Paired by seed, {tested} pair{} of configurations tested at 95 % (Student's t), corrected for their number by Holm's method.",
        if tested == 1 { "" } else { "s" }
    );
    if separated.is_empty() {
        return vec![
            "No ranking: no difference between configurations is larger than the seeds' noise. Rows are in the order of their names.".into(),
            method,
        ];
    }
    let order = if is_total(groups, separated) {
        "Every pair of configurations is told apart: rows are in the order of their loss.".to_string()
    } else {
        format!(
            "{} of {tested} pairs are told apart, the others are not: rows stay in the order of their names.",
            separated.len()
        )
    };
    let each = separated.iter().take(MOST_PAIRS).map(|pair| {
        let difference = pair.difference;
        let half = difference.half_width.map_or(String::new(), |half| format!(" ± {half:.4}"));
        format!(
            "{} ends below {}: {:.4}{half} nats/token (95 %, n = {}, p = {:.2e} after Holm).",
            pair.lower, pair.higher, difference.mean, difference.n, pair.p_holm
        )
    });
    let more =
        separated.len().checked_sub(MOST_PAIRS + 1).map(|more| format!("And {} more pairs.", more + 1));
    [order, method].into_iter().chain(each).chain(more).collect()
}

/// What to know before reading the numbers.
pub(super) fn notes(runs: &[Run], groups: &[Group], baseline: Option<usize>) -> Vec<String> {
    let mut notes = Vec::new();
    match baseline {
        Some(_) => {}
        None => notes.push("No run without formats is among these, and none is named: there is no ratio to a baseline. `--baseline NAME` names one.".into()),
    }
    for group in groups {
        let failed = group.runs.iter().filter(|run| runs[**run].final_loss().is_none()).count();
        if failed > 0 {
            notes.push(format!(
                "{}: {failed} of {} runs came to no final loss and are not in its mean.",
                group.label,
                group.runs.len()
            ));
        }
        if !group.repeated.is_empty() {
            let places: Vec<String> =
                group.repeated.iter().map(|run| runs[*run].path.display().to_string()).collect();
            let s = if places.len() == 1 { "s" } else { "" };
            notes.push(format!(
                "{}: {} repeat{s} the seed of a run that came as far or further, and add{s} no evidence; left out of means and tests.",
                group.label,
                places.join(", "),
            ));
        }
    }
    if let Some(baseline) = baseline.map(|index| &groups[index]) {
        let others: Vec<&str> = groups
            .iter()
            .filter(|group| !comparable(runs, group, baseline))
            .map(|group| group.label.as_str())
            .collect();
        if !others.is_empty() {
            notes.push(format!(
                "Other data, tokens or context than the baseline's, so no ratio: {}.",
                others.join(", ")
            ));
        }
    }
    notes.extend(baseline.iter().flat_map(|index| steps(runs, groups, &groups[*index])));
    let configs =
        || groups.iter().map(|group| &runs[group.runs[0]].config).filter(|config| !config.is_empty());
    let confounds: Vec<String> = differing(configs())
        .into_iter()
        .filter(|key| key.starts_with("model.") || key.starts_with("data.") || key == "train.max_steps")
        .collect();
    if !confounds.is_empty() {
        notes.push(format!(
            "The configurations also differ in {}: losses compare more than formats.",
            confounds.join(", ")
        ));
    }
    let finals = || groups.iter().flat_map(|group| &group.runs).filter_map(|run| runs[*run].final_loss());
    if finals().any(|last| last.is_full) && finals().any(|last| !last.is_full) {
        notes.push(
            "Some held-out losses at the end are of the whole validation split, others of a sample: ratios and tests are at steps evaluated alike."
                .into(),
        );
    }
    if runs.iter().any(|run| matches!(run.state, RunState::Running | RunState::Silent)) {
        notes.push("Some runs are still going.".into());
    }
    let mut devices: Vec<&str> = runs.iter().filter_map(|run| run.status.device.as_deref()).collect();
    devices.sort_unstable();
    devices.dedup();
    if devices.len() > 1 {
        notes.push(format!(
            "The runs are from several devices ({}); bits are equal on one device only.",
            devices.join(", ")
        ));
    }
    notes
}

/// Where configurations are held against the baseline, if that is not at the end of both, or why they are not.
fn steps(runs: &[Run], groups: &[Group], baseline: &Group) -> Vec<String> {
    let ended = |group: &Group| group.runs.iter().any(|run| runs[*run].final_loss().is_some());
    let others = groups.iter().filter(|group| {
        !std::ptr::eq(*group, baseline)
            && comparable(runs, group, baseline)
            && ended(group)
            && ended(baseline)
    });
    let note = |group: &Group| {
        let pairs = pairs(runs, group, baseline);
        let Some([first, last]) = span(pairs.iter().map(|pair| pair.step)) else {
            return Some(format!(
                "{}: no ratio, because no run has the seed of one of the baseline's and an evaluation after the same step, the first aside.",
                group.label
            ));
        };
        let steps = if first == last { format!("step {last}") } else { format!("steps {first} to {last}") };
        pairs.iter().any(|pair| pair.is_early).then(|| {
            format!(
                "{}: held against the baseline at {steps}, the last that both evaluated; its loss and the baseline's are those of their ends.",
                group.label
            )
        })
    };
    others.filter_map(note).collect()
}

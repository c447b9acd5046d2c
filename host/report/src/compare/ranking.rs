//! Sentences about the significance of differences, and notes about the numbers.

use crate::{
    compare::Row,
    group::Group,
    pairs::{Separated, Tested, pairs, span},
    power::POWER,
    run::{Run, RunState},
    sets::{Basis, Contrast, Set},
    stats::{CONFIDENCE, Sample},
};

/// Pairs that are listed.
const MOST_PAIRS: usize = 40;

/// True if every pair of groups differs significantly: only then is there an order.
pub(super) fn is_total(groups: &[Group], separated: &[Separated]) -> bool {
    groups.len() > 1 && separated.len() == groups.len() * (groups.len() - 1) / 2
}

/// Conclusions that the seeds support.
pub(super) fn sentences(
    groups: &[Group],
    sets: &[Set],
    rows: &[Row],
    tests: &[Tested],
    separated: &[Separated],
    all_pairs: bool,
) -> Vec<String> {
    if groups.len() < 2 {
        return vec!["One configuration: there is nothing to rank.".into()];
    }
    let most = groups.iter().map(|group| group.runs.len()).max().unwrap_or(0);
    if tests.is_empty() {
        let why = match () {
            () if sets.iter().all(|set| set.groups.len() < 2) => {
                "no two configurations have the same data, model and length".to_string()
            }
            () if !all_pairs && rows.iter().all(|row| row.baseline.is_none()) => {
                "there is no baseline, that is no unquantized configuration of the same data, model and length"
                    .to_string()
            }
            () if most < 2 => "every configuration has one seed (n = 1)".to_string(),
            () => "no two configurations share two finished seeds".to_string(),
        };
        return vec![format!(
            "Nothing can be ranked: {why}. The significance of differences is unknown; rows are ordered by name."
        )];
    }
    let method = format!(
        "Paired by seed, {} tested at 95 % (Student's t), corrected for their number by Holm's method.",
        match (all_pairs, tests.len()) {
            (true, 1) => "1 pair of configurations".to_string(),
            (true, count) => format!("{count} pairs of configurations"),
            (false, 1) => "1 difference from the baseline".to_string(),
            (false, count) => format!("{count} differences from the baseline"),
        }
    );
    let each: Vec<String> = match all_pairs {
        true => separated.iter().take(MOST_PAIRS).map(told_apart).collect(),
        false => rows.iter().filter_map(against_baseline).collect(),
    };
    let more = all_pairs.then(|| separated.len().checked_sub(MOST_PAIRS + 1)).flatten();
    let more = more.map(|more| format!("And {} more pairs.", more + 1));
    [summary(groups, tests, separated, all_pairs), method].into_iter().chain(each).chain(more).collect()
}

/// The first sentence.
fn summary(groups: &[Group], tests: &[Tested], separated: &[Separated], all_pairs: bool) -> String {
    let (tested, apart) = (tests.len(), separated.len());
    match (all_pairs, apart) {
        (true, _) if is_total(groups, separated) => {
            "Every pair of configurations differs significantly: rows are ordered by loss.".into()
        }
        (true, 0) => format!(
            "None of {tested} pairs differs significantly. That is no evidence that they are equal; rows are ordered by name."
        ),
        (true, _) => format!(
            "{apart} of {tested} pairs differ significantly, the others do not: rows are ordered by name."
        ),
        (false, 0) => "No difference from the baseline is significant. That is no evidence that there is none: the list gives detectable differences.".into(),
        (false, _) => format!("{apart} of {tested} differences from the baseline are significant."),
    }
}

fn told_apart(pair: &Separated) -> String {
    format!(
        "{} ends below {}: {} nats/token (95 %, n = {}, p = {:.2e} after Holm).",
        pair.lower,
        pair.higher,
        with_half(&pair.difference),
        pair.difference.n,
        pair.p_holm
    )
}

fn with_half(difference: &Sample) -> String {
    let half = difference.half_width.map_or(String::new(), |half| format!(" ± {half:.4}"));
    format!("{:.4}{half}", difference.mean)
}

/// The result of the test of a configuration against its baseline.
fn against_baseline(row: &Row) -> Option<String> {
    let (difference, p) = (row.difference?, row.p_holm?);
    let baseline = row.baseline.as_ref()?;
    let basis = match row.basis? {
        Basis::SameSetting => String::new(),
        Basis::BestOf(count) => format!(", each at the best of {count} settings that both were run at"),
        Basis::OwnBest => ", each at its own best setting: they share none".into(),
    };
    let said =
        format!("{} nats/token (95 %, n = {}, p = {p:.2e} after Holm)", with_half(&difference), difference.n);
    if p < 1.0 - CONFIDENCE {
        let side = if difference.mean < 0.0 { "below" } else { "above" };
        return Some(format!("{} ends {side} {baseline}{basis}: {said}.", row.label));
    }
    let found = row.detectable.map_or(String::new(), |least| {
        format!(" A difference of {least:.4} would be found with probability {:.0} %.", POWER * 100.0)
    });
    Some(format!("{} and {baseline}{basis}: no significant difference, {said}.{found}", row.label))
}

/// Notes about the numbers.
pub(super) fn notes(runs: &[Run], groups: &[Group], sets: &[Set], contrasts: &[Contrast]) -> Vec<String> {
    let mut notes: Vec<String> = sets.iter().filter_map(|set| of_set(set, sets.len(), groups)).collect();
    for group in groups {
        let failed = group.runs.iter().filter(|run| runs[**run].final_loss().is_none()).count();
        if failed > 0 {
            notes.push(format!(
                "{}: {failed} of {} runs have no final loss and are not in its mean.",
                group.label,
                group.runs.len()
            ));
        }
        if !group.repeated.is_empty() {
            let places: Vec<String> =
                group.repeated.iter().map(|run| runs[*run].path.display().to_string()).collect();
            let s = if places.len() == 1 { "s" } else { "" };
            notes.push(format!(
                "{}: {} repeat{s} the seed of a run with as many or more steps, and add{s} no evidence; left out of means and tests.",
                group.label,
                places.join(", "),
            ));
        }
    }
    notes.extend(contrasts.iter().filter_map(|contrast| steps(runs, groups, contrast)));
    let finals = || groups.iter().flat_map(|group| &group.runs).filter_map(|run| runs[*run].final_loss());
    if finals().any(|last| last.is_full) && finals().any(|last| !last.is_full) {
        notes.push(
            "Some final held-out losses are of the whole validation split, others of a sample: ratios and tests use steps that were evaluated in the same way."
                .into(),
        );
    }
    if runs.iter().any(|run| matches!(run.state, RunState::Running | RunState::Silent)) {
        notes.push("Some runs are still running.".into());
    }
    let mut devices: Vec<&str> = runs.iter().filter_map(|run| run.status.device.as_deref()).collect();
    devices.sort_unstable();
    devices.dedup();
    if devices.len() > 1 {
        notes.push(format!(
            "The runs are from several devices ({}); results are bit-identical on one device only.",
            devices.join(", ")
        ));
    }
    notes
}

/// A set of configurations and its baseline.
fn of_set(set: &Set, sets: usize, groups: &[Group]) -> Option<String> {
    let name = match (sets, set.what.is_empty()) {
        (1, _) => String::new(),
        (_, true) => set.groups.first().map(|group| format!("{}: ", groups[*group].label))?,
        (_, false) => format!("Runs with {}: ", set.what.join(", ")),
    };
    let is_baseline = |group: &&usize| set.baseline.as_ref() == Some(&groups[**group].label);
    let baseline = set.groups.iter().find(is_baseline);
    let unquantized = match baseline.is_some_and(|group| groups[*group].is_unquantized) {
        true => "Other unquantized ones",
        false => "Unquantized ones",
    };
    let others = match set.alternatives.len() {
        0 => String::new(),
        _ => format!(" {unquantized}: {}; `--baseline NAME` chooses.", set.alternatives.join(", ")),
    };
    let of = if sets == 1 { "" } else { " of these" };
    let no = if name.is_empty() { "No" } else { "no" };
    let the = if name.is_empty() { "The" } else { "the" };
    match &set.baseline {
        Some(_) if set.groups.len() == 1 && sets == 1 => None,
        Some(baseline) if set.groups.len() == 1 => {
            Some(format!("{name}{baseline} alone: no other configuration has this data, model and length."))
        }
        Some(baseline) => Some(format!("{name}{the} baseline{of} is {baseline}.{others}")),
        None => Some(format!(
            "{name}{no} run without formats is among these: there is no baseline and no ratio. `--baseline NAME` names one."
        )),
    }
}

/// The step at which a configuration is compared with its baseline, if it is not the end of both, or the reason why
/// there is no comparison.
fn steps(runs: &[Run], groups: &[Group], contrast: &Contrast) -> Option<String> {
    let (group, baseline) = (&groups[contrast.group], &groups[contrast.baseline]);
    let ended = |group: &Group| group.runs.iter().any(|run| runs[*run].final_loss().is_some());
    if !ended(group) || !ended(baseline) {
        return None;
    }
    let pairs = pairs(runs, group, baseline);
    let Some([first, last]) = span(pairs.iter().map(|pair| pair.step)) else {
        return Some(format!(
            "{}: no ratio, because no run shares a seed and an evaluation after the first with a run of the baseline.",
            group.label
        ));
    };
    let steps = if first == last { format!("step {last}") } else { format!("steps {first} to {last}") };
    pairs.iter().any(|pair| pair.is_early).then(|| {
        format!(
            "{}: compared with the baseline at {steps}, the last at which both were evaluated; the table shows the final losses.",
            group.label
        )
    })
}

//! Facts about the page: its runs, its time, and unknown values.

use std::collections::{BTreeMap, BTreeSet};

use crate::colours::formats;
use crate::{
    events::RecordedEvent,
    failures,
    find::FoundRuns,
    group::Group,
    run::{Run, RunState},
    text::shortened,
};

/// Runs for which the page offers a search.
const MOST_OFFERS: usize = 3;

/// The page's runs, in numbers.
pub(super) fn facts(found: &FoundRuns, groups: &[Group]) -> Vec<(String, String)> {
    let runs = &found.runs;
    let count = |state: RunState| runs.iter().filter(|run| run.state == state).count();
    let states = [
        (RunState::Completed, "completed"),
        (RunState::Running, "running"),
        (RunState::Silent, "silent"),
        (RunState::Interrupted, "interrupted"),
        (RunState::Failed, "failed"),
        (RunState::NotFinite, "not finite"),
        (RunState::Unknown, "CSV alone"),
    ];
    let states = states.iter().filter(|(state, _)| count(*state) > 0);
    let states: Vec<String> = states.map(|(state, name)| format!("{} {name}", count(*state))).collect();
    let seeds = groups.iter().map(|group| group.runs.len());
    let seeds = match (seeds.clone().min(), seeds.max()) {
        (Some(least), Some(most)) if least == most => {
            format!("{most} seed{} each", if most == 1 { "" } else { "s" })
        }
        (Some(least), Some(most)) => format!("{least} to {most} seeds"),
        _ => String::new(),
    };
    let formats = formats(groups).len();
    let optimizers: BTreeSet<&str> = groups.iter().filter_map(|group| group.optimizer.as_deref()).collect();
    let names = optimizers.iter().map(|name| shortened(name, 30)).collect::<Vec<_>>().join(", ");
    let left_out = found.left_out.len();
    let facts = [
        (runs.len().to_string(), format!("runs: {}", states.join(", "))),
        (groups.len().to_string(), format!("configurations, {seeds}")),
        (formats.to_string(), format!("format{}", if formats == 1 { "" } else { "s" })),
        (optimizers.len().to_string(), format!("optimizers: {names}")),
        (left_out.to_string(), "left out, see the end".to_string()),
    ];
    facts.into_iter().filter(|(count, _)| count != "0").collect()
}

/// The number of valid runs, and the unknown facts of the others.
pub(super) fn failure_notes(found: &FoundRuns) -> Vec<String> {
    let plural = |runs: usize| if runs == 1 { "run" } else { "runs" };
    let sound = found.runs.iter().filter(|run| failures::of(run).is_empty()).count();
    let mut notes = vec![format!("{sound} of {} runs show none of these.", found.runs.len())];
    let incomplete = found.runs.iter().filter(|run| !run.status.incomplete.is_empty()).count();
    if incomplete > 0 {
        notes.push(format!(
            "Sinks of {incomplete} {} lack rows or events, as the table of lost rows says: curves of such a run may have holes.",
            plural(incomplete)
        ));
    }
    let mut unknown: BTreeMap<&str, usize> = BTreeMap::new();
    let classes = found.runs.iter().flat_map(failures::unknown);
    classes.for_each(|class| *unknown.entry(class).or_default() += 1);
    notes.extend(
        unknown.iter().map(|(class, runs)| format!("Not known of {runs} {}: {class}.", plural(*runs))),
    );
    notes
}

/// The commands that find the casts behind an alert, for the first rounded runs with one whose causes are not known.
pub(super) fn alert_notes(found: &FoundRuns) -> Vec<String> {
    let rounds = |run: &Run| run.status.kinds.iter().any(|kind| kind.formats.iter().any(Option::is_some));
    let is_open =
        |run: &&Run| rounds(run) && run.causes.is_none() && run.events.iter().any(RecordedEvent::is_alert);
    let note = |run: &Run| {
        format!(
            "`altgrad-host blame {} --from alert` searches the casts behind the alert of {}.",
            run.path.display(),
            run.name
        )
    };
    found.runs.iter().filter(is_open).take(MOST_OFFERS).map(note).collect()
}

/// The causes that were found, in words.
pub(super) fn cause_notes(found: &FoundRuns) -> Vec<String> {
    let note = |run: &Run| {
        let search = run.causes.as_ref()?;
        let rest = if search.is_complete { "" } else { ". The search is not complete" };
        Some(format!("{}: {}{rest}.", run.name, search.sentence))
    };
    found.runs.iter().filter_map(note).collect()
}

/// When the page was made, in UTC.
pub(super) fn made() -> String {
    let Some(seconds) = altgrad_run_folder::events::unix_s() else { return String::new() };
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    // Days to a date: Howard Hinnant's `civil_from_days`, for dates after 1970.
    let z = days + 719_468;
    let (era, day_of_era) = (z / 146_097, z % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    format!("{year}-{month:02}-{day:02} {:02}:{:02} UTC", rest / 3600, rest % 3600 / 60)
}

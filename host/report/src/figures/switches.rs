//! Steps at which runs changed their casts.

use std::collections::BTreeSet;

use crate::events::RecordedEvent;

/// The kind of the event that the engine writes.
const SWITCHED: &str = "casts_switched";
/// Steps that are marked.
const MOST: usize = 24;

/// Each step from which on some run has other casts.
pub(super) fn steps<'a>(events: impl Iterator<Item = &'a RecordedEvent>) -> Vec<u64> {
    // The event is of the step before.
    let first = |event: &RecordedEvent| event.value.map_or(event.step, |step| step as u64);
    let steps: BTreeSet<u64> = events.filter(|event| event.kind == SWITCHED).map(first).collect();
    steps.into_iter().take(MOST).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_step_with_a_change_counts_once() {
        let event = |step, kind: &str| RecordedEvent {
            step,
            level: "info".into(),
            kind: kind.into(),
            text: String::new(),
            place: None,
            value: None,
        };
        let events = [event(9, SWITCHED), event(4, SWITCHED), event(4, SWITCHED), event(5, "best")];
        assert_eq!(steps(events.iter()), [4, 9]);
    }
}

//! Vertical lines where runs changed their casts.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::events::RecordedEvent;

/// The kind of the event that the engine writes.
const SWITCHED: &str = "casts_switched";
/// Steps that are marked.
const MOST: usize = 24;

/// A dotted line at each step from which on some run has other casts.
pub(super) fn lines<'a>(events: impl Iterator<Item = &'a RecordedEvent>) -> Vec<Value> {
    // The event is of the step before if its record put the casts in force.
    let first = |event: &RecordedEvent| event.value.map_or(event.step, |step| step as u64);
    let steps: BTreeSet<u64> = events.filter(|event| event.kind == SWITCHED).map(first).collect();
    let line = |step: u64| {
        json!({
            "type": "line", "xref": "x", "yref": "paper", "x0": step, "x1": step, "y0": 0, "y1": 1,
            "line": { "width": 1, "dash": "dot", "color": "#888888" },
            "label": { "text": "casts change", "textposition": "end", "textangle": -90, "font": { "size": 10 } },
        })
    };
    steps.into_iter().take(MOST).map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_step_with_a_change_has_one_line() {
        let event = |step, kind: &str| RecordedEvent {
            step,
            level: "info".into(),
            kind: kind.into(),
            text: String::new(),
            place: None,
            value: None,
        };
        let events = [event(9, SWITCHED), event(4, SWITCHED), event(4, SWITCHED), event(5, "best")];
        let steps: Vec<Value> = lines(events.iter()).iter().map(|line| line["x0"].clone()).collect();
        assert_eq!(steps, [json!(4), json!(9)]);
    }
}

//! The text of a row: written to the spool, and sent to the server unchanged.
//!
//! `{"_step":7,` metrics `,` timings `,"_timestamp":...,"_runtime":...}`. What a repeated step must repeat comes first,
//! so that two rows are compared as text up to [`Head::reproducible`]. Histograms are kept apart, because they come
//! after their row has been written, and joined when the row is read ([`joined`]).

use altgrad_plugin_api::{Histogram, Metric, PluginError};

use crate::json::{push_list, push_number, push_string};

/// Most bins a server takes.
const MAX_BINS: usize = 512;
/// Names that are the server's own.
const RESERVED: [&str; 4] = ["_step", "_timestamp", "_runtime", "_wandb"];

/// A row without its histograms.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Head {
    /// The JSON object.
    pub text: String,
    /// Length of the part that does not depend on the machine or the hour.
    pub reproducible: usize,
}

impl Head {
    /// The row of a step: `timestamp` in seconds since 1970, `runtime` in seconds since the run began.
    ///
    /// # Errors
    /// `CONFIG` if a metric has a name that the server reserves.
    pub(crate) fn new(
        step: u64,
        metrics: &[Metric<'_>],
        timestamp: f64,
        runtime: f64,
    ) -> Result<Self, PluginError> {
        let mut text = format!("{{\"_step\":{step}");
        let mut push = |timing: bool| {
            for metric in metrics.iter().filter(|metric| metric.name.timing == timing) {
                push_key(&mut text, metric.name.name.as_str());
                push_number(&mut text, metric.value);
            }
            text.len()
        };
        let reproducible = push(false);
        push(true);
        if let Some(metric) = metrics.iter().find(|metric| RESERVED.contains(&metric.name.name.as_str())) {
            let message = format!("a metric must not be called `{}`: W&B keeps that name", metric.name.name);
            return Err(PluginError::config(message));
        }
        text.push_str(",\"_timestamp\":");
        push_number(&mut text, timestamp);
        text.push_str(",\"_runtime\":");
        push_number(&mut text, runtime);
        text.push('}');
        Ok(Self { text, reproducible })
    }
}

fn push_key(text: &mut String, name: &str) {
    text.push(',');
    push_string(text, name);
    text.push(':');
}

/// A histogram as a field of its row, `"name":{...}`. More bins than a server takes are added up in equal groups.
pub(crate) fn histogram(histogram: &Histogram<'_>) -> String {
    let (counts, edges) = (histogram.counts.as_slice(), histogram.edges.as_slice());
    let group = counts.len().div_ceil(MAX_BINS).max(1);
    let counts: Vec<u64> = counts.chunks(group).map(|counts| counts.iter().sum()).collect();
    let last = edges.last().filter(|_| (edges.len() - 1) % group != 0);
    let edges: Vec<f64> = edges.iter().step_by(group).chain(last).copied().collect();
    let mut text = String::new();
    push_string(&mut text, histogram.name.as_str());
    text.push_str(":{\"_type\":\"histogram\",\"values\":");
    push_list(&mut text, &counts, |text, count| text.push_str(&count.to_string()));
    text.push_str(",\"bins\":");
    push_list(&mut text, &edges, push_number);
    text.push('}');
    text
}

/// The line the server gets: the row with its histograms.
pub(crate) fn joined<'a>(head: &str, histograms: impl Iterator<Item = &'a str>) -> String {
    let mut line = head.strip_suffix('}').unwrap_or(head).to_string();
    for histogram in histograms {
        line.push(',');
        line.push_str(histogram);
    }
    line.push('}');
    line
}

/// The closing values as an object.
pub(crate) fn closing(metrics: &[Metric<'_>]) -> String {
    let mut text = String::from("{");
    for metric in metrics {
        if text.len() > 1 {
            text.push(',');
        }
        push_string(&mut text, metric.name.name.as_str());
        text.push(':');
        push_number(&mut text, metric.value);
    }
    text.push('}');
    text
}

/// The text before the `_runtime` of a row of ours without histograms, and its value in seconds.
pub(crate) fn runtime(head: &str) -> Option<(&str, f64)> {
    let (before, after) = head.rsplit_once("\"_runtime\":")?;
    Some((before, after.strip_suffix('}')?.parse().ok()?))
}

/// A row of ours, delayed by some seconds.
pub(crate) fn delayed(head: &str, seconds: f64) -> String {
    let Some((before, runtime)) = runtime(head) else { return head.to_string() };
    let mut text = format!("{before}\"_runtime\":");
    push_number(&mut text, runtime + seconds);
    text.push('}');
    text
}

/// The step in a row.
pub(crate) fn step_of(head: &str) -> Option<u64> {
    let digits = head.strip_prefix("{\"_step\":")?;
    digits[..digits.find(|digit: char| !digit.is_ascii_digit())?].parse().ok()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use altgrad_plugin_api::MetricName;

    use super::*;

    #[test]
    fn a_row_puts_what_repeats_first() {
        let metric = |name: &'static str, timing, value| Metric {
            name: MetricName { name: name.into(), timing },
            value,
        };
        let row = [metric("t\"s", true, 2.0), metric("loss", false, f64::NAN)];
        let head = Head::new(7, &row, 1.5, 0.25).unwrap();
        assert_eq!(head.text, r#"{"_step":7,"loss":NaN,"t\"s":2.0,"_timestamp":1.5,"_runtime":0.25}"#);
        assert_eq!(&head.text[..head.reproducible], r#"{"_step":7,"loss":NaN"#);
        assert_eq!(step_of(&head.text), Some(7));
        assert!(delayed(&head.text, 2.5).ends_with(r#","_timestamp":1.5,"_runtime":2.75}"#));
        assert!(Head::new(7, &[metric("_step", false, 0.0)], 0.0, 0.0).is_err());
        let line = joined(&head.text, ["\"h\":{}"].into_iter());
        assert!(line.ends_with(r#""_runtime":0.25,"h":{}}"#), "{line}");
    }

    #[test]
    fn bins_are_added_up_to_what_a_server_takes() {
        let counts: Vec<u64> = (0..1030).collect();
        let edges: Vec<f64> = (0..1031).map(f64::from).collect();
        let name = "h".into();
        let text =
            histogram(&Histogram { name, edges: edges.as_slice().into(), counts: counts.as_slice().into() });
        let value = crate::json::parse(text.strip_prefix("\"h\":").unwrap()).unwrap();
        let list = |key: &str| value[key].as_array().unwrap().clone();
        let (values, bins) = (list("values"), list("bins"));
        assert!(values.len() <= 512 && bins.len() == values.len() + 1, "{} {}", values.len(), bins.len());
        assert_eq!(
            values.iter().filter_map(crate::json::number).sum::<f64>(),
            f64::from((0..1030).sum::<i32>())
        );
        assert_eq!((bins[0].as_str(), bins.last().unwrap().as_str()), (Some("0.0"), Some("1030.0")));
    }
}

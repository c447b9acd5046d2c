//! A trace of a few steps of a run: the host's spans, the launches, and the kernels on the device.
//!
//! [`StepProfiler`] records steps, [`StepTrace`] writes them in the Trace Event Format (Chromium), which Perfetto
//! and `chrome://tracing` show. [`spans`] and [`launches`] are also what `bench` measures with.

pub mod launches;
pub mod spans;

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use self::{
    launches::{KernelLaunch, LaunchRecorder},
    spans::{SpanRecorder, SpanTime},
};

/// The file of a trace in the run folder.
pub const PROFILE: &str = "profile.json";

/// Records the trace of some steps.
#[derive(Debug)]
pub struct StepProfiler {
    steps: u64,
    /// Steps that have begun.
    begun: u64,
    recording: Option<(SpanRecorder, LaunchRecorder, Instant)>,
}

impl StepProfiler {
    /// A trace of `steps` steps, from the second one of the process on, because the first one compiles kernels.
    #[must_use]
    pub fn new(steps: u64) -> Self {
        Self { steps, begun: 0, recording: None }
    }

    /// To be called before each step. Returns the trace after its last step.
    pub fn before_step(&mut self) -> Option<StepTrace> {
        self.begun += 1;
        if self.begun == 2 {
            self.recording = Some((SpanRecorder::start(), LaunchRecorder::start(true), Instant::now()));
        }
        if self.begun == self.steps + 2 { self.end() } else { None }
    }

    /// The trace, if the run ends before its last step.
    pub fn end(&mut self) -> Option<StepTrace> {
        let (spans, launches, start) = self.recording.take()?;
        Some(StepTrace { spans: spans.take(), launches: launches.end(), start })
    }
}

/// The trace of some steps.
#[derive(Debug)]
pub struct StepTrace {
    spans: Vec<SpanTime>,
    launches: Vec<KernelLaunch>,
    start: Instant,
}

/// Rows of the trace: a process and a thread.
const HOST: (u32, u32) = (1, 1);
const LAUNCHES: (u32, u32) = (1, 2);
const DEVICE: (u32, u32) = (2, 1);

impl StepTrace {
    /// The trace in the Trace Event Format. Times are microseconds since the trace began.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let mut events = vec![named("process_name", HOST, "host"), named("thread_name", HOST, "training")];
        let time = |(process, thread), name: &str, start, duration: Duration| {
            json!({
                "name": name, "ph": "X", "pid": process, "tid": thread,
                "ts": self.us(start), "dur": us(duration),
            })
        };
        let spans = self.spans.iter().map(|span| time(HOST, span.name, span.start, span.end - span.start));
        events.extend(spans);
        if !self.launches.is_empty() {
            events.push(named("thread_name", LAUNCHES, "launches"));
        }
        for launch in &self.launches {
            let name = short(launch.kernel);
            events.push(json!({
                "name": name, "ph": "i", "s": "t", "pid": LAUNCHES.0, "tid": LAUNCHES.1,
                "ts": self.us(launch.issued), "args": { "kernel": launch.kernel },
            }));
        }
        let computed: Vec<Value> = self
            .launches
            .iter()
            .filter_map(|launch| Some(time(DEVICE, short(launch.kernel), launch.began?, launch.duration?)))
            .collect();
        if !computed.is_empty() {
            events.extend([named("process_name", DEVICE, "device"), named("thread_name", DEVICE, "kernels")]);
            events.extend(computed);
        }
        json!({ "traceEvents": events, "displayTimeUnit": "ms" })
    }

    fn us(&self, at: Instant) -> f64 {
        us(at.saturating_duration_since(self.start))
    }
}

fn us(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e6
}

/// The name of a process or thread.
fn named(what: &str, (process, thread): (u32, u32), name: &str) -> Value {
    json!({ "name": what, "ph": "M", "pid": process, "tid": thread, "args": { "name": name } })
}

/// The last name of a type such as `a::b::Kernel<c::D>`.
fn short(kernel: &str) -> &str {
    let path = kernel.split('<').next().unwrap_or(kernel);
    path.rsplit("::").next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_step_is_not_recorded_and_the_others_lie_on_the_hosts_row() {
        let mut profiler = StepProfiler::new(2);
        let mut traces = Vec::new();
        for _ in 0..4 {
            traces.extend(profiler.before_step());
            tracing::debug_span!("step").in_scope(|| tracing::debug_span!("forward").in_scope(|| ()));
        }
        assert!(profiler.end().is_none() && traces.len() == 1);
        let trace = traces[0].to_json();
        let events = trace["traceEvents"].as_array().unwrap();
        let of = |name: &str| events.iter().filter(|event| event["name"] == name).collect::<Vec<_>>();
        let (steps, forward) = (of("step"), of("forward"));
        assert_eq!((steps.len(), forward.len()), (2, 2));
        for (step, forward) in steps.iter().zip(forward) {
            let range = |event: &Value| {
                let start = event["ts"].as_f64().unwrap();
                (start, start + event["dur"].as_f64().unwrap())
            };
            assert!(range(step).0 <= range(forward).0 && range(forward).1 <= range(step).1);
        }
    }

    #[test]
    fn a_run_that_ends_early_keeps_what_was_recorded() {
        let mut profiler = StepProfiler::new(9);
        for _ in 0..3 {
            assert!(profiler.before_step().is_none());
        }
        assert!(profiler.end().is_some());
        assert!(StepProfiler::new(9).end().is_none());
    }

    #[test]
    fn kernels_lie_on_rows_of_their_own() {
        let start = Instant::now();
        let launch = KernelLaunch {
            kernel: "a::b::Moments<f32>",
            issued: start + Duration::from_micros(5),
            began: Some(start + Duration::from_micros(9)),
            duration: Some(Duration::from_micros(3)),
        };
        let unmeasured = KernelLaunch { began: None, duration: None, ..launch };
        let trace = StepTrace { spans: Vec::new(), launches: vec![launch, unmeasured], start }.to_json();
        let events = trace["traceEvents"].as_array().unwrap();
        let of = |process: u32| {
            let rows = events.iter().filter(|event| event["pid"] == process && event["name"] == "Moments");
            rows.map(|event| (event["ph"].as_str().unwrap(), event["ts"].as_f64().unwrap()))
                .collect::<Vec<_>>()
        };
        assert_eq!(of(1), [("i", 5.0), ("i", 5.0)]);
        assert_eq!(of(2), [("X", 9.0)]);
    }
}

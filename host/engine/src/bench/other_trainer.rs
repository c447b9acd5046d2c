//! The step time of another trainer, a program that takes a size and a mode and prints one line of JSON.
//!
//! The command is `PROGRAM ARGS --size SIZE --mode MODE --steps N --warmup N --threads N`; `step_s_median`,
//! `step_s_min` and `peak_rss_mb` are read from its output.

use std::process::Command;

use altgrad_base::diagnostic::Diagnostic;
use serde::{Deserialize, Serialize};

/// The trainer's report on its steps.
#[derive(Debug, Clone, Copy, Deserialize)]
struct Answer {
    step_s_median: f64,
    step_s_min: f64,
    #[serde(default)]
    peak_rss_mb: Option<f64>,
}

/// A case compared with the other trainer.
#[derive(Debug, Serialize)]
pub struct Beside {
    /// The requested mode.
    pub mode: &'static str,
    /// Milliseconds per step: median of the medians of its runs.
    pub median_ms: f64,
    /// The least milliseconds of a step.
    pub least_ms: f64,
    /// Ratio of our median to its median.
    pub median_ratio: f64,
    /// Ratio of our least time to its least time.
    pub least_ratio: f64,
    /// Its peak, MB, if it reports one.
    pub peak_rss_mb: Option<f64>,
}

/// Another trainer and its answers so far, by mode.
#[derive(Debug)]
pub struct OtherTrainer<'a> {
    command: &'a str,
    size: &'a str,
    answers: Vec<(&'static str, Answer)>,
}

/// Its mode for one of our cases: it computes no metrics.
pub(super) fn mode(case: &str) -> Option<&'static str> {
    match case.split('+').next()? {
        "fp32" => Some("fp32"),
        "bf16" => Some("bf16"),
        "E5M2" => Some("e5m2"),
        "E4M3" => Some("e4m3"),
        _ => None,
    }
}

impl<'a> OtherTrainer<'a> {
    /// A trainer without answers; `command` is a program and its first arguments.
    #[must_use]
    pub fn new(command: &'a str, size: &'a str) -> Self {
        Self { command, size, answers: Vec::new() }
    }

    /// Runs some of its steps in a mode.
    ///
    /// # Errors
    /// The trainer cannot be started, fails, or gives an invalid answer.
    pub(super) fn run(&mut self, mode: &'static str, steps: u64, warmup: u64) -> Result<(), Diagnostic> {
        let failed = |what: String| {
            Diagnostic::run(format!("`{}`, to be timed in turn with ours: {what}", self.command)).hint(
                "it must take --size, --mode, --steps, --warmup and --threads, and print a line of JSON",
            )
        };
        let mut parts = self.command.split_whitespace();
        let program = parts.next().ok_or_else(|| failed("no program is named".into()))?;
        let mut command = Command::new(program);
        command.args(parts).args(["--size", self.size, "--mode", mode]);
        for (name, number) in
            [("--steps", steps), ("--warmup", warmup), ("--threads", rayon::current_num_threads() as u64)]
        {
            command.args([name, &number.to_string()]);
        }
        let output = command.output().map_err(|error| failed(error.to_string()))?;
        let (text, errors) =
            (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        if !output.status.success() {
            let last = errors.lines().last().unwrap_or_default();
            return Err(failed(format!("{}: {last}", output.status)));
        }
        let line = text.lines().last().unwrap_or_default();
        let answer =
            serde_json::from_str(line).map_err(|error| failed(format!("it answered `{line}`: {error}")))?;
        self.answers.push((mode, answer));
        Ok(())
    }

    /// Compares one of our cases, by its median and least milliseconds, with the trainer's answers; `None` without
    /// answers.
    pub(super) fn beside(&self, case: &str, [median_ms, least_ms]: [f64; 2]) -> Option<Beside> {
        let mode = mode(case)?;
        let answers: Vec<Answer> =
            self.answers.iter().filter(|(of, _)| *of == mode).map(|(_, answer)| *answer).collect();
        let mut medians: Vec<f64> = answers.iter().map(|answer| answer.step_s_median * 1e3).collect();
        medians.sort_by(f64::total_cmp);
        let median = *medians.get(medians.len() / 2)?;
        let least = answers.iter().fold(f64::INFINITY, |least, answer| least.min(answer.step_s_min * 1e3));
        Some(Beside {
            mode,
            median_ms: median,
            least_ms: least,
            median_ratio: median_ms / median,
            least_ratio: least_ms / least,
            peak_rss_mb: answers.iter().filter_map(|answer| answer.peak_rss_mb).reduce(f64::max),
        })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// A shell whose script ends before the arguments matter.
    fn written(script: &str) -> tempfile::TempPath {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), script).unwrap();
        file.into_temp_path()
    }

    #[test]
    fn answers_become_ratios() {
        let script =
            written("echo log; echo '{\"step_s_median\": 0.02, \"step_s_min\": 0.01, \"size\": \"'$2'\"}'");
        let command = format!("sh {}", script.display());
        let mut other = OtherTrainer::new(&command, "tiny");
        assert!(other.beside("fp32", [1.0, 1.0]).is_none());
        other.run("fp32", 2, 1).unwrap();
        let beside = other.beside("fp32+metrics", [10.0, 10.0]).unwrap();
        assert_eq!((beside.median_ratio, beside.least_ratio, beside.peak_rss_mb), (0.5, 1.0, None));
        assert!(other.beside("hybrid", [1.0, 1.0]).is_none() && other.beside("E5M2", [1.0, 1.0]).is_none());
    }

    #[test]
    fn another_trainer_that_fails_is_reported() {
        for (script, expected) in
            [("echo broken >&2; exit 3", "exit status: 3: broken"), ("echo 5", "it answered `5`")]
        {
            let script = written(script);
            let command = format!("sh {}", script.display());
            let error = OtherTrainer::new(&command, "tiny").run("fp32", 1, 0).unwrap_err();
            assert!(error.to_string().contains(expected), "{error}");
        }
        let error = OtherTrainer::new("/no/such/program", "tiny").run("fp32", 1, 0).unwrap_err();
        assert!(error.to_string().contains("No such file"), "{error}");
    }
}

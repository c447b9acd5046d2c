//! The report of `plugins check`: a line a check as they come in, or one JSON object at the end.

use std::collections::{BTreeMap, BTreeSet};

use altgrad_base::{diagnostic::Diagnostic, println};
use serde::Serialize;

use super::protocol::{Contents, Verdict};

/// One line of the report.
#[derive(Debug, Serialize)]
pub(super) struct Line {
    /// The format as a run file names it, `optimizer NAME` or `sink NAME`; none for the library as a whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) plugin: Option<String>,
    pub(super) check: &'static str,
    pub(super) what: &'static str,
    #[serde(flatten)]
    pub(super) verdict: Verdict,
    pub(super) seconds: f64,
    /// The command that runs a failed check again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) replay: Option<String>,
}

impl Line {
    fn plugin(&self) -> &str {
        self.plugin.as_deref().unwrap_or("library")
    }
}

/// The place of the panic that a failure names: `src/lib.rs:12:9`.
fn panic_place(why: &str) -> Option<&str> {
    let (_, panic) = why.split_once("panicked in `")?;
    let (_, place) = panic.split_once("` at ")?;
    place.split_once(": ").map(|(place, _)| place)
}

/// The lines so far.
#[derive(Debug)]
pub(super) struct Report {
    json: bool,
    contents: Option<(String, String)>,
    lines: Vec<Line>,
    /// Places of panics that a line has shown.
    panics: BTreeSet<String>,
    /// Checks of the last plugin that failed by those again, by place.
    again: BTreeMap<String, Vec<&'static str>>,
    not_run: usize,
}

/// The JSON object.
#[derive(Debug, Serialize)]
struct Json<'a> {
    library: Option<&'a str>,
    sha256: Option<&'a str>,
    checks: &'a [Line],
    passed: usize,
    failed: usize,
    skipped: usize,
    warnings: usize,
    /// Checks that were skipped because others were not done in time.
    not_run: usize,
}

impl Report {
    pub(super) fn new(json: bool) -> Self {
        Self {
            json,
            contents: None,
            lines: Vec::new(),
            panics: BTreeSet::new(),
            again: BTreeMap::new(),
            not_run: 0,
        }
    }

    /// The library is loaded: which it is.
    pub(super) fn opens(&mut self, contents: &Contents) {
        self.contents = Some((contents.library.clone(), contents.sha256.clone()));
    }

    /// One more check is done.
    pub(super) fn add(&mut self, line: Line) {
        if !self.json {
            self.print(&line);
        }
        self.lines.push(line);
    }

    fn print(&mut self, line: &Line) {
        if self.lines.last().is_some_and(|last| last.plugin != line.plugin) {
            self.print_panics_again();
        }
        let verdict = match &line.verdict {
            Verdict::Ok => "ok".to_string(),
            Verdict::Skipped(why) => format!("skipped: {why}"),
            Verdict::Warned(why) => format!("WARNING: {why}"),
            Verdict::Failed(why) => {
                let place = panic_place(why).map(str::to_owned);
                if let Some(place) = place.filter(|place| !self.panics.insert(place.clone())) {
                    self.again.entry(place).or_default().push(line.check);
                    return;
                }
                format!("FAILED: {why}")
            }
        };
        println!("{:<12} {:<24} {verdict}", line.plugin(), line.check);
        if let Some(replay) = &line.replay {
            println!("{:<12} {:<24} again: {replay}", "", "");
        }
    }

    /// One line for all checks of a plugin that failed by a panic that was shown before.
    fn print_panics_again(&mut self) {
        let plugin = self.lines.last().map_or("", Line::plugin);
        for (place, checks) in std::mem::take(&mut self.again) {
            let count = format!("{} more", checks.len());
            println!("{plugin:<12} {count:<24} FAILED: panicked at {place} again: {}", checks.join(", "));
        }
    }

    /// Skips that number of checks.
    pub(super) fn stopped(&mut self, not_run: usize) {
        self.not_run = not_run;
        self.print_panics_again();
        if not_run > 0 && !self.json {
            println!("stopped: three checks were not done in time, and the other {not_run} were not run");
        }
    }

    fn count(&self, is: impl Fn(&Verdict) -> bool) -> usize {
        self.lines.iter().filter(|line| is(&line.verdict)).count()
    }

    /// Prints the remaining lines; returns whether any check failed.
    pub(super) fn close(&mut self) -> Result<bool, Diagnostic> {
        self.print_panics_again();
        let passed = self.count(|verdict| matches!(verdict, Verdict::Ok));
        let failed = self.count(|verdict| matches!(verdict, Verdict::Failed(_)));
        let skipped = self.count(|verdict| matches!(verdict, Verdict::Skipped(_)));
        let warnings = self.count(|verdict| matches!(verdict, Verdict::Warned(_)));
        if self.json {
            let (library, sha256) =
                self.contents.as_ref().map(|(library, sha256)| (library.as_str(), sha256.as_str())).unzip();
            let json = Json {
                library,
                sha256,
                checks: &self.lines,
                passed,
                failed,
                skipped,
                warnings,
                not_run: self.not_run,
            };
            let text = serde_json::to_string_pretty(&json)
                .map_err(|error| Diagnostic::run(format!("cannot write the report ({error})")))?;
            println!("{text}");
        } else {
            let warned = if warnings > 0 { format!(", {warnings} with a warning") } else { String::new() };
            let all = self.lines.len();
            println!("{all} checks: {passed} passed, {failed} failed, {skipped} skipped{warned}");
        }
        Ok(failed > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::panic_place;

    #[test]
    fn a_panic_is_known_by_its_place() {
        let first = "step 3: `log` failed: panicked in `log` at src/lib.rs:4:5: index 3: out of range";
        assert_eq!(panic_place(first), Some("src/lib.rs:4:5"));
        let later =
            "`state` failed: `state` was called after the plugin panicked: panicked in `log` at a.rs:1:2: b";
        assert_eq!(panic_place(later), Some("a.rs:1:2"));
        assert_eq!(panic_place("hung: not done after 2 s"), None);
    }
}

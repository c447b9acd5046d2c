//! The report of `plugins check`: a line a check as they come in, or one JSON object at the end.

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

/// The lines so far.
#[derive(Debug)]
pub(super) struct Report {
    json: bool,
    contents: Option<(String, String)>,
    lines: Vec<Line>,
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
    /// Checks that were skipped because others hung.
    not_run: usize,
}

impl Report {
    pub(super) fn new(json: bool) -> Self {
        Self { json, contents: None, lines: Vec::new(), not_run: 0 }
    }

    /// The library is loaded: which it is.
    pub(super) fn opens(&mut self, contents: &Contents) {
        self.contents = Some((contents.library.clone(), contents.sha256.clone()));
    }

    /// One more check is done.
    pub(super) fn add(&mut self, line: Line) {
        if !self.json {
            let verdict = match &line.verdict {
                Verdict::Ok => "ok".to_string(),
                Verdict::Skipped(why) => format!("skipped: {why}"),
                Verdict::Failed(why) => format!("FAILED: {why}"),
            };
            println!("{:<12} {:<24} {verdict}", line.plugin.as_deref().unwrap_or("library"), line.check);
            if let Some(replay) = &line.replay {
                println!("{:<12} {:<24} again: {replay}", "", "");
            }
        }
        self.lines.push(line);
    }

    /// Skips that number of checks.
    pub(super) fn stopped(&mut self, not_run: usize) {
        self.not_run = not_run;
        if not_run > 0 && !self.json {
            println!("stopped: three checks hung, and the other {not_run} were not run");
        }
    }

    fn count(&self, is: impl Fn(&Verdict) -> bool) -> usize {
        self.lines.iter().filter(|line| is(&line.verdict)).count()
    }

    /// Prints the remaining lines; returns whether any check failed.
    pub(super) fn close(&self) -> Result<bool, Diagnostic> {
        let passed = self.count(|verdict| matches!(verdict, Verdict::Ok));
        let failed = self.count(|verdict| matches!(verdict, Verdict::Failed(_)));
        let skipped = self.count(|verdict| matches!(verdict, Verdict::Skipped(_)));
        if self.json {
            let (library, sha256) =
                self.contents.as_ref().map(|(library, sha256)| (library.as_str(), sha256.as_str())).unzip();
            let json =
                Json { library, sha256, checks: &self.lines, passed, failed, skipped, not_run: self.not_run };
            let text = serde_json::to_string_pretty(&json)
                .map_err(|error| Diagnostic::run(format!("cannot write the report ({error})")))?;
            println!("{text}");
        } else {
            println!("{} checks: {passed} passed, {failed} failed, {skipped} skipped", self.lines.len());
        }
        Ok(failed > 0)
    }
}

//! The writing side: rows, histograms, alerts and the end, each on disk when the call returns.
//!
//! A resumed run repeats the steps from its checkpoint on. The spool has some of them already, and perhaps the server
//! too. Such a row is built in memory and compared with the one on disk, timings aside: an equal one is skipped, and
//! the first that differs cuts the spool there. Each step is therefore in the spool once, independent of the rows that
//! had been sent when the run was killed. A row that the disk refuses is counted; the next one is tried again.

use std::{
    collections::{HashSet, VecDeque},
    fs::File,
    io,
    path::Path,
    sync::Arc,
    time::{Instant, SystemTime, UNIX_EPOCH},
};

use altgrad_plugin_api::{Histogram, Metric, PluginError};

use crate::{
    index::{End, Index, RowAt, SpooledAlert, stored},
    row::{self, Head},
    shared::Shared,
    spool::{Kind, Spool},
};

/// Longest line a server takes: below its 10 MiB.
const MAX_LINE: usize = (10 << 20) - (200 << 10);

/// The rows and histograms that did not fit on the disk or into a line.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Loss {
    pub rows: u64,
    pub histograms: u64,
    pub others: u64,
    /// The first reason.
    pub why: Option<String>,
}

impl Loss {
    /// The loss in words, if there is one.
    pub(crate) fn describe(&self) -> Option<String> {
        let counts = [(self.rows, "rows"), (self.histograms, "histograms"), (self.others, "other records")];
        let lost: Vec<String> = counts
            .iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, what)| format!("{count} {what}"))
            .collect();
        let why = self.why.as_deref().unwrap_or("a histogram came without its row");
        (!lost.is_empty()).then(|| format!("{} lost: {why}", lost.join(", ")))
    }
}

/// The writing side.
#[derive(Debug)]
pub(crate) struct Journal {
    spool: Spool,
    file: File,
    shared: Arc<Shared>,
    /// The last step that counts.
    last: Option<u64>,
    /// Length of the last row's line.
    last_line: usize,
    /// Rows on disk that are expected to come again.
    again: VecDeque<RowAt>,
    /// A row that came again, while its histograms come.
    repeated: Option<(u64, Head, Vec<String>)>,
    /// Alerts on disk that are expected to come again.
    alerts_again: HashSet<(u64, String)>,
    started: Instant,
    /// Seconds of earlier segments, steps that come again included: no row is to be earlier than one before it.
    runtime_before: f64,
    /// Rows on disk that count.
    rows: u64,
    pub loss: Loss,
}

/// Seconds since 1970, to the microsecond.
pub(crate) fn now() -> f64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_micros() as f64 / 1e6
}

impl Journal {
    /// Continues a spool that `index` has read whole. `runtime_before` counts where the spool knows of no row.
    ///
    /// # Errors
    /// The spool cannot be opened for reading.
    pub(crate) fn open(
        path: &Path,
        spool: Spool,
        index: &Index,
        resume_step: Option<u64>,
        runtime_before: f64,
        shared: Arc<Shared>,
    ) -> io::Result<Self> {
        let from = resume_step.unwrap_or(u64::MAX);
        let kept = index.rows.partition_point(|row| row.step < from);
        let file = File::open(path)?;
        let before = index.rows.last().and_then(|&row| runtime_of(&file, row));
        let alerts = index.alerts.iter().filter(|alert| alert.step >= from);
        let again: VecDeque<RowAt> = index.rows[kept..].iter().copied().collect();
        let journal = Self {
            spool,
            file,
            last: index.rows.last().map(|row| row.step),
            last_line: index.rows.last().map_or(0, |row| row.len),
            alerts_again: alerts.map(|alert| (alert.step, alert.kind.clone())).collect(),
            repeated: None,
            started: Instant::now(),
            runtime_before: before.unwrap_or(runtime_before),
            rows: index.rows.len() as u64,
            loss: Loss::default(),
            again,
            shared,
        };
        journal.hold();
        journal.shared.commit(journal.spool.len());
        Ok(journal)
    }

    /// Says from which step on the uploader has to wait.
    fn hold(&self) {
        self.shared.lock().hold = self.again.front().map_or(u64::MAX, |row| row.step);
    }

    /// Rows that count, on disk; after some cuts fewer.
    pub(crate) fn rows(&self) -> u64 {
        self.rows
    }

    /// Rows on disk of steps that were logged, without those that are expected to come again.
    pub(crate) fn logged(&self) -> u64 {
        self.rows.saturating_sub(self.again.len() as u64)
    }

    /// Flushes the rows to the disk.
    ///
    /// # Errors
    /// The disk fails.
    pub(crate) fn sync(&self) -> io::Result<()> {
        self.spool.sync()
    }

    /// Seconds since the run began, segments before this one included.
    pub(crate) fn runtime(&self) -> f64 {
        self.runtime_before + (self.started.elapsed().as_micros() as f64 / 1e6)
    }

    fn append(&mut self, kind: Kind, payload: &str) -> bool {
        match self.spool.append(kind, payload) {
            Ok(()) => {
                self.shared.commit(self.spool.len());
                true
            }
            Err(error) => {
                self.lost(format!("the spool cannot be written ({error})"));
                false
            }
        }
    }

    /// Records the reason, and reports it the first time.
    fn lost(&mut self, why: String) {
        if self.loss.why.is_none() {
            crate::say(&format!("{why}; the run continues, and lost rows are counted"));
            self.loss.why = Some(why);
        }
    }

    fn append_row(&mut self, step: u64, head: &Head) {
        if head.text.len() > MAX_LINE {
            self.lost(format!("the row of step {step} is longer than a server takes"));
        } else if self.append(Kind::Row, &format!("{} {}", head.reproducible, head.text)) {
            (self.last, self.last_line) = (Some(step), head.text.len());
            self.rows += 1;
            return;
        }
        self.loss.rows += 1;
    }

    fn append_histogram(&mut self, text: &str) {
        if self.last_line + text.len() > MAX_LINE {
            self.lost("a row with its histograms is longer than a server takes".to_string());
        } else if self.append(Kind::Histogram, text) {
            self.last_line += text.len() + 1;
            return;
        }
        self.loss.histograms += 1;
    }

    /// Begins a segment, with facts about the run in JSON.
    pub(crate) fn begin(&mut self, facts: &str) {
        self.loss.others += u64::from(!self.append(Kind::Begin, facts));
    }

    /// Takes a row.
    ///
    /// # Errors
    /// A metric has a name that the server reserves.
    pub(crate) fn row(&mut self, step: u64, metrics: &[Metric<'_>]) -> Result<(), PluginError> {
        self.settle();
        let head = Head::new(step, metrics, now(), self.runtime())?;
        if self.again.is_empty() && self.last.is_none_or(|last| last < step) {
            self.append_row(step, &head);
        } else {
            self.repeated = Some((step, head, Vec::new()));
        }
        Ok(())
    }

    /// Takes a histogram of the row before.
    pub(crate) fn histogram(&mut self, step: u64, histogram: &Histogram<'_>) {
        let text = row::histogram(histogram);
        match &mut self.repeated {
            Some((repeated, _, histograms)) if *repeated == step => histograms.push(text),
            _ if self.last == Some(step) => self.append_histogram(&text),
            _ => self.loss.histograms += 1,
        }
    }

    /// Decides about a row that came again, now that it is complete.
    pub(crate) fn settle(&mut self) {
        let Some((step, head, histograms)) = self.repeated.take() else { return };
        let known = self.again.front().copied();
        if known.is_some_and(|row| row.step == step && self.repeats(row, &head, &histograms)) {
            self.again.pop_front();
        } else {
            let from = known.map_or(step, |row| row.step.min(step));
            if !self.append(Kind::Cut, &from.to_string()) {
                self.loss.rows += 1;
                return;
            }
            // The number of rows that a cut removes is known only for rows that were to be repeated: otherwise counting
            // begins anew.
            let taken = if known.is_some() { self.again.len() as u64 } else { self.rows };
            self.rows = self.rows.saturating_sub(taken);
            self.again.clear();
            self.last = from.checked_sub(1);
            self.append_row(step, &head);
            histograms.iter().for_each(|text| self.append_histogram(text));
        }
        self.hold();
    }

    /// True if a row equals the one on disk, timings aside.
    fn repeats(&self, row: RowAt, head: &Head, histograms: &[String]) -> bool {
        stored(&self.file, row).is_ok_and(|(old, old_histograms)| {
            old.text.get(..old.reproducible) == head.text.get(..head.reproducible)
                && old_histograms == histograms
        })
    }

    /// Takes an alert, unless it is one that comes again.
    pub(crate) fn alert(&mut self, alert: &SpooledAlert) {
        if self.alerts_again.remove(&(alert.step, alert.kind.clone())) {
            return;
        }
        let text = serde_json::to_string(alert).unwrap_or_default();
        self.loss.others += u64::from(!self.append(Kind::Alert, &text));
        self.shared.tell(|state| state.urgent = true);
    }

    /// Takes the closing values.
    pub(crate) fn summary(&mut self, metrics: &[Metric<'_>]) {
        self.settle();
        self.loss.others += u64::from(!self.append(Kind::Summary, &row::closing(metrics)));
    }

    /// Ends the run. What an earlier segment wrote and this one did not repeat, because it stopped before, stays.
    pub(crate) fn end(&mut self, exit_code: i32) {
        self.settle();
        self.again.clear();
        let end = End { exit_code, runtime: self.runtime() };
        let text = serde_json::to_string(&end).unwrap_or_default();
        self.loss.others += u64::from(!self.append(Kind::End, &text));
        self.hold();
    }
}

/// `_runtime` of a row on disk.
fn runtime_of(file: &File, row: RowAt) -> Option<f64> {
    let (head, _) = stored(file, row).ok()?;
    row::runtime(&head.text).map(|(_, runtime)| runtime)
}

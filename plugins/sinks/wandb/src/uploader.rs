//! The uploading side: its own thread, which reads the spool and updates the server to the same state.
//!
//! Requests are made one at a time, and a request that fails is followed by a wait, never by a loss. The failure
//! decides whether to try again (`client.rs`), and the server's own count where to continue (`connect.rs`).

use std::{
    io,
    sync::Arc,
    time::{Duration, Instant},
};

use crate::{
    client::Failure,
    index::Index,
    pace::Pace,
    protocol::{Wire, end_body, rows_body},
    remote::Remote,
    say,
    shared::Shared,
    summary::Summary,
};

/// Bytes of rows in a request, unless one row is longer: well below the 10 MiB that servers take.
const BATCH: usize = 4 << 20;

/// The next action after a step.
enum Next {
    /// Another step: the server took rows, or the run's end.
    Taken,
    /// Another step: the server took something else.
    Again,
    /// Another step: the server answers, but has taken nothing yet.
    Connected,
    /// Wait until then; with `idle`, a new row ends the wait.
    Wait { until: Instant, idle: bool },
    /// All is sent.
    Done,
}

/// The uploading side.
pub(crate) struct Uploader {
    pub(crate) shared: Arc<Shared>,
    pub(crate) index: Index,
    pub(crate) remote: Remote,
    pub(crate) wire: Wire,
    pub(crate) pace: Pace,
    pub(crate) summary: Summary,
    /// True if the server's state is known.
    pub(crate) connected: bool,
    /// True if this process has registered the run at the server.
    pub(crate) upserted: bool,
    /// Not before then to the file stream.
    next: Option<Instant>,
    last_request: Instant,
    failures: u32,
    stop_seen: bool,
    unrecorded: bool,
}

impl Uploader {
    pub(crate) fn new(shared: Arc<Shared>, mut index: Index, remote: Remote, wire: Wire, pace: Pace) -> Self {
        index.runtime_before = remote.runtime_before;
        Self {
            shared,
            index,
            remote,
            wire,
            pace,
            summary: Summary::default(),
            connected: false,
            upserted: false,
            next: None,
            last_request: Instant::now(),
            failures: 0,
            stop_seen: false,
            unrecorded: false,
        }
    }

    /// The thread: it runs until all is sent, the server refuses, or it must stop.
    ///
    /// # Errors
    /// The reason why the server takes no more rows.
    pub(crate) fn serve(&mut self) -> Result<(), String> {
        loop {
            let (stop, committed, finish_by, hold) = {
                let mut state = self.shared.lock();
                state.urgent = false;
                (state.stop, state.committed, state.finish_by, state.hold)
            };
            if stop {
                return Ok(());
            }
            self.read(committed).map_err(|error| format!("the spool cannot be read ({error})"))?;
            match self.step(hold, finish_by) {
                Ok(Next::Taken) => self.well(),
                Ok(Next::Again) => self.failures = 0,
                Ok(Next::Connected) => {}
                Ok(Next::Wait { until, idle }) => self.wait(until, idle, finish_by.is_some()),
                Ok(Next::Done) => return Ok(()),
                Err(Failure::Final(why)) => return Err(why),
                Err(Failure::Retry { after, unsure, why }) => self.back_off(after, unsure, why, finish_by),
            }
        }
    }

    /// Reads the lines written since. A cut may concern rows the server has.
    fn read(&mut self, committed: u64) -> io::Result<()> {
        let cuts = self.index.cut.len();
        self.index.read_to(committed)?;
        self.connected &= self.index.cut.len() == cuts;
        Ok(())
    }

    /// Rows before the first that this spool sends.
    pub(crate) fn first(&self) -> usize {
        self.remote.skipped(|step| self.index.rows.partition_point(|row| row.step < step))
    }

    /// The place of the first row that the server has not acknowledged.
    fn place(&self) -> usize {
        self.first() + self.remote.lines as usize
    }

    fn step(&mut self, hold: u64, finish_by: Option<Instant>) -> Result<Next, Failure> {
        self.publish();
        let finishing = finish_by.is_some();
        let ready = if finishing { self.index.rows.len() } else { self.index.settled(hold) };
        let end = self.index.end.filter(|(at, _)| self.remote.end != Some(*at));
        let nothing_left =
            ready <= self.place() && end.is_none() && self.remote.alerts as usize >= self.index.alerts.len();
        if finishing && nothing_left {
            self.shared.lock().report.complete = true;
            return Ok(Next::Done);
        }
        self.wire.limit = finish_by.map_or(self.pace.limit, |by| self.pace.limit_before(by));
        if !self.connected {
            self.connect()?;
            return Ok(Next::Connected);
        }
        if self.send_alert()? {
            return Ok(Next::Again);
        }
        let now = Instant::now();
        let rows = self.index.rows.get(self.place()..ready).unwrap_or_default();
        let waiting = rows.iter().map(|row| row.len).sum::<usize>();
        if !rows.is_empty() || (finishing && end.is_some()) {
            let due = match self.next {
                Some(next) if !finishing && waiting < BATCH => next + self.pace.interval,
                Some(next) => next + self.pace.gap,
                None => now,
            };
            if due > now {
                return Ok(Next::Wait { until: due, idle: false });
            }
            return if waiting > 0 { self.send_rows(ready) } else { self.send_end() };
        }
        let due = self.last_request + self.pace.heartbeat;
        if due > now {
            return Ok(Next::Wait { until: due, idle: !finishing });
        }
        self.stream(&serde_json::json!({}))?;
        Ok(Next::Again)
    }

    fn send_rows(&mut self, ready: usize) -> Result<Next, Failure> {
        let place = self.place();
        let (mut texts, mut bytes) = (Vec::new(), 0);
        for &row in &self.index.rows[place..ready] {
            bytes += row.len;
            if bytes > BATCH && !texts.is_empty() {
                break;
            }
            let text = self.index.text(row).map_err(|error| unreadable(&error))?;
            self.summary.take(&text);
            texts.push(text);
        }
        self.index.sync().map_err(|error| unreadable(&error))?;
        self.stream(&rows_body(self.remote.base + self.remote.lines, &texts, &self.summary.text()))?;
        self.remote.lines += texts.len() as u64;
        self.record();
        Ok(Next::Taken)
    }

    fn send_end(&mut self) -> Result<Next, Failure> {
        let Some((at, end)) = self.index.end else { return Ok(Next::Done) };
        if let Some(closing) = &self.index.closing {
            self.summary.take(closing);
        }
        self.stream(&end_body(end.exit_code, &self.summary.text()))?;
        self.remote.end = Some(at);
        self.record();
        Ok(Next::Taken)
    }

    /// Sends the next alert; returns whether there was one. An alert that the server refuses is counted and left out.
    fn send_alert(&mut self) -> Result<bool, Failure> {
        let Some(alert) = self.index.alerts.get(self.remote.alerts as usize) else { return Ok(false) };
        match self.wire.alert(alert) {
            Err(Failure::Final(why)) => {
                say(&format!("an alert was refused ({why})"));
                self.shared.lock().report.alerts_refused += 1;
            }
            result => result?,
        }
        self.remote.alerts += 1;
        self.record();
        Ok(true)
    }

    /// One request to the file stream.
    fn stream(&mut self, body: &serde_json::Value) -> Result<(), Failure> {
        let (stopped, pause) = self.wire.stream(body)?;
        self.last_request = Instant::now();
        self.next = Some(self.last_request + pause.unwrap_or_default());
        if stopped && !self.stop_seen {
            self.stop_seen = true;
            say("the server was asked to stop this run; the run continues, Ctrl-C stops it");
        }
        Ok(())
    }

    /// Records the rows that the server has. Without this record the server is queried again; only alerts could be sent
    /// twice.
    pub(crate) fn record(&mut self) {
        if let Err(error) = self.remote.save()
            && !self.unrecorded
        {
            self.unrecorded = true;
            say(&format!("what was uploaded cannot be recorded ({error}); uploading continues"));
        }
    }

    /// Says how far the upload is.
    fn publish(&mut self) {
        let (first, place) = (self.first(), self.place());
        let missing = self.index.rows.partition_point(|row| row.step < self.remote.missing_from);
        let dropped = first.saturating_sub(missing) as u64;
        let report = &mut self.shared.lock().report;
        (report.acknowledged, report.dropped, report.claimed) = (place as u64, dropped, self.remote.claimed);
        report.damaged = self.index.damaged;
    }

    /// The server takes rows.
    fn well(&mut self) {
        self.failures = 0;
        if self.shared.lock().report.trouble.take().is_some() {
            say("the server takes rows again");
        }
    }

    fn wait(&self, until: Instant, idle: bool, finishing: bool) {
        self.shared.lock().idle = idle;
        let patience = until.saturating_duration_since(Instant::now());
        self.shared.wait(patience, |state| {
            state.stop || state.urgent || (idle && !state.idle) || (!finishing && state.finish_by.is_some())
        });
    }

    /// Waits after a failure: as long as the server requests, or longer each time. Once the run has ended, waits are
    /// short.
    fn back_off(&mut self, after: Option<Duration>, unsure: bool, why: String, finish_by: Option<Instant>) {
        self.connected &= !unsure;
        let patience = match finish_by {
            Some(by) => self.pace.wait_before(by, after),
            None => after.unwrap_or_else(|| self.pace.wait_after(self.failures)),
        };
        self.failures += 1;
        let first = self.shared.lock().report.trouble.replace(why.clone()).is_none();
        if first {
            say(&format!("{why}; the run continues, rows are kept on disk and sent later"));
        }
        let begun = Instant::now();
        let was_running = finish_by.is_none();
        self.shared.wait(patience, |state| state.stop || (was_running && state.finish_by.is_some()));
        // The run has ended meanwhile: the server's pause still applies, if it leaves time for another request.
        let by = self.shared.lock().finish_by.filter(|_| was_running);
        if let (Some(by), Some(wanted)) = (by, after) {
            let rest = wanted.saturating_sub(begun.elapsed());
            self.shared.wait(self.pace.wait_before(by, Some(rest)), |state| state.stop);
        }
    }
}

/// The spool is damaged or gone: nothing to try again.
pub(crate) fn unreadable(error: &io::Error) -> Failure {
    Failure::Final(format!("the spool cannot be read ({error})"))
}

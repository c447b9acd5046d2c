//! Connecting: queries the server before it writes, and checks that the server's rows are ours, or to be continued.

use crate::{
    client::Failure,
    options::Resume,
    protocol::ServerRun,
    reconcile::{Verdict, reconcile},
    say,
    uploader::{Uploader, unreadable},
};

impl Uploader {
    /// Queries the state of the server, and registers the run there.
    pub(crate) fn connect(&mut self) -> Result<(), Failure> {
        let Some(begin) = self.index.begin.clone() else {
            return Err(Failure::Final("the spool does not say which run it is of".into()));
        };
        let server = self.wire.status()?;
        match &server {
            None if !self.remote.claimed && begin.identity.resume == Resume::Must => {
                let why =
                    format!("the server has no run `{}` to continue (resume = \"must\")", self.wire.run_id);
                return Err(Failure::Final(why));
            }
            None => (self.remote.base, self.remote.floor, self.remote.lines) = (0, None, 0),
            Some(server) if self.remote.claimed => self.reconcile(server)?,
            Some(server) => self.adopt(server)?,
        }
        if !self.upserted || server.is_none() {
            // Written down first: a run found later under this id is ours.
            self.remote.claimed = true;
            self.record();
            if let Some(summary) = server.as_ref().and_then(|server| server.summary.as_ref()) {
                self.summary.take(summary);
            }
            self.wire.upsert(&begin, server.is_some())?;
            self.remote.project.clone_from(&self.wire.project);
            self.remote.entity = self.wire.entity.clone().unwrap_or_default();
            self.upserted = true;
            say(&format!("this run is at {}", self.wire.page()));
        }
        self.record();
        self.connected = true;
        Ok(())
    }

    /// A run that this spool has written to before.
    fn reconcile(&mut self, server: &ServerRun) -> Result<(), Failure> {
        let first = self.first();
        match reconcile(server, self.remote.base, first, &self.index).map_err(|error| unreadable(&error))? {
            Verdict::Has(lines) => self.remote.lines = lines as u64,
            Verdict::Rewind(step) => match self.rewind_before(step)? {
                None => {
                    let kept = self.index.rows.partition_point(|row| row.step < step);
                    self.remote.lines = kept.saturating_sub(first) as u64;
                }
                Some(why) => {
                    say(&format!("{why}: rows of repeated steps that differ cannot replace the server's"));
                    self.go_on_after(server, step);
                }
            },
            Verdict::Foreign => {
                let why = format!(
                    "another process has written to run `{}`: its last row is not ours",
                    self.wire.run_id
                );
                return Err(Failure::Final(why));
            }
        }
        Ok(())
    }

    /// A run that the server has, and this spool has never written to.
    fn adopt(&mut self, server: &ServerRun) -> Result<(), Failure> {
        let begin = self.index.begin.as_ref();
        if begin.is_none_or(|begin| !begin.continues && begin.identity.resume == Resume::Never) {
            let why = format!(
                "the server has a run `{}` already, and it is not this one (set resume = \"allow\", or another run_id)",
                self.wire.run_id
            );
            return Err(Failure::Final(why));
        }
        let from = begin.and_then(|begin| begin.resume_step);
        if let (Some(from), Some(last)) = (from, server.last_step())
            && last >= from
        {
            match self.rewind_before(from)? {
                None => {
                    let server = self.wire.status()?.unwrap_or_default();
                    self.continue_after(&server, from);
                    return Ok(());
                }
                Some(why) => say(&format!("{why}: the server keeps its rows of steps {from} to {last}")),
            }
        }
        self.continue_after(server, from.unwrap_or(0));
        Ok(())
    }

    /// As [`Self::go_on_after`], and the clock continues too: rows here have no record of the time before, a
    /// checkpoint's do.
    fn continue_after(&mut self, server: &ServerRun, missing_from: u64) {
        if self.index.begin.as_ref().is_some_and(|begin| !begin.continues) {
            self.remote.runtime_before = server.runtime().unwrap_or(0.0);
            self.index.runtime_before = self.remote.runtime_before;
        }
        self.go_on_after(server, missing_from);
    }

    /// Our rows begin at the server's end; those of steps from `missing_from` on that it cannot take are counted.
    fn go_on_after(&mut self, server: &ServerRun, missing_from: u64) {
        self.remote.base = server.lines;
        self.remote.floor = server.last_step();
        self.remote.missing_from = missing_from;
        self.remote.lines = 0;
    }

    /// Makes the server remove rows from a step on; returns the reason if it refuses.
    fn rewind_before(&mut self, step: u64) -> Result<Option<String>, Failure> {
        let last = i64::try_from(step).unwrap_or(i64::MAX) - 1;
        match self.wire.rewind(last) {
            Ok(()) => Ok(None),
            Err(Failure::Final(why)) => Ok(Some(why)),
            Err(retry) => Err(retry),
        }
    }
}

//! The page and its changing part, made from the runs as they are now.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use altgrad_base::diagnostic::Diagnostic;
use altgrad_report::{
    find::Reader,
    group,
    page::{PageInput, View},
};

use crate::WatchOptions;

/// The runs.
#[derive(Clone)]
pub(crate) struct Pages {
    options: Arc<WatchOptions>,
    reader: Arc<Mutex<Reader>>,
}

impl Pages {
    pub(crate) fn new(options: WatchOptions) -> Self {
        let reader = Reader::new(&options.named);
        Self { options: Arc::new(options), reader: Arc::new(Mutex::new(reader)) }
    }

    /// The page, or the part of it that changes, and its computing time.
    pub(crate) fn make(&self, whole: bool) -> Result<(String, Duration), Diagnostic> {
        let begun = Instant::now();
        let mut reader = self.reader.lock().unwrap_or_else(PoisonError::into_inner);
        let found = reader.look();
        let groups = group::groups(&found.runs);
        let comparison = (self.options.compare)(found, &groups)?;
        let (title, view) = (&self.options.title, &View::default());
        let source = PageInput { title, found, groups: &groups, comparison: &comparison, view };
        let html = if whole { source.page(true) } else { source.content() }?;
        Ok((html, begun.elapsed()))
    }
}

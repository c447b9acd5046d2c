//! The page and its changing part, made from the runs as they are now.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use altgrad_base::diagnostic::Diagnostic;
use altgrad_report::{
    find::Reader,
    group,
    page::{Source, View},
};

use crate::Options;

/// The runs and their view.
#[derive(Clone)]
pub(crate) struct Pages {
    options: Arc<Options>,
    reader: Arc<Mutex<Reader>>,
}

impl Pages {
    pub(crate) fn new(options: Options) -> Self {
        let reader = Reader::new(&options.named);
        Self { options: Arc::new(options), reader: Arc::new(Mutex::new(reader)) }
    }

    /// The page, or the part of it that changes, and its computing time.
    pub(crate) fn make(&self, view: &View, whole: bool) -> Result<(String, Duration), Diagnostic> {
        let begun = Instant::now();
        let mut reader = self.reader.lock().unwrap_or_else(PoisonError::into_inner);
        let found = reader.look();
        let groups = group::groups(&found.runs);
        let comparison = (self.options.compare)(found, &groups)?;
        let source =
            Source { title: &self.options.title, found, groups: &groups, comparison: &comparison, view };
        let html = if whole { source.page(true) } else { source.content() }?;
        Ok((html, begun.elapsed()))
    }
}

/// The view of the charts that a query chooses; invalid choices are ignored.
pub(crate) fn view(query: &str) -> View {
    let mut view = View::default();
    for (key, value) in form_urlencoded::parse(query.as_bytes()) {
        match &*key {
            "colour" => view.colour = Some(value.into_owned()),
            "line" => view.line = Some(value.into_owned()),
            "tokens" => view.tokens = true,
            "log" => view.log = true,
            "smooth" => {
                view.smooth = value.parse().ok().filter(|smooth| (0.0..1.0).contains(smooth)).unwrap_or(0.0);
            }
            _ => {}
        }
    }
    view
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_is_a_view() {
        let expected = View {
            colour: Some("train.lr".into()),
            line: Some("a b&c".into()),
            tokens: true,
            log: false,
            smooth: 0.5,
        };
        assert_eq!(view("colour=train.lr&line=a+b%26c&tokens=yes&smooth=0.5&other=1"), expected);
        assert_eq!(view("smooth=1.5").smooth, 0.0);
        assert_eq!(view("smooth=NaN&%ff=%zz"), View::default());
    }
}

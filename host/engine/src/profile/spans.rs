//! The times of the spans that a thread opens.

use std::{sync::Arc, time::Instant};

use parking_lot::Mutex;
use tracing::{
    Dispatch, Event, Metadata, Subscriber,
    dispatcher::{self, DefaultGuard},
    span::{Attributes, Id},
};
use tracing_subscriber::{Layer, Registry, layer::Context, layer::SubscriberExt, registry::LookupSpan};

/// A closed span.
#[derive(Debug, Clone, Copy)]
pub struct SpanTime {
    /// The span's name.
    pub name: &'static str,
    /// Number of spans around it.
    pub depth: usize,
    /// When it was opened.
    pub start: Instant,
    /// When it was closed.
    pub end: Instant,
}

/// Records the spans of the thread that made it, and of the pool's threads that work for it, until it is dropped.
/// Warnings and other events still go to the subscriber before it.
#[derive(Debug)]
pub struct SpanRecorder {
    times: Arc<Mutex<Vec<SpanTime>>>,
    _scope: DefaultGuard,
}

impl SpanRecorder {
    /// Begins.
    #[must_use]
    pub fn start() -> Self {
        let times = Arc::default();
        let layer = SpanTimes { times: Arc::clone(&times), outer: dispatcher::get_default(Clone::clone) };
        let subscriber = Dispatch::new(Registry::default().with(layer));
        Self { times, _scope: dispatcher::set_default(&subscriber) }
    }

    /// The spans that were closed since the last call.
    #[must_use]
    pub fn take(&self) -> Vec<SpanTime> {
        std::mem::take(&mut *self.times.lock())
    }
}

struct SpanTimes {
    times: Arc<Mutex<Vec<SpanTime>>>,
    /// Receives the events.
    outer: Dispatch,
}

/// The time at which a span was opened.
struct Opened(Instant);

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for SpanTimes {
    fn enabled(&self, metadata: &Metadata<'_>, _: Context<'_, S>) -> bool {
        metadata.is_span() || self.outer.enabled(metadata)
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        self.outer.event(event);
    }

    fn on_new_span(&self, _: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        if let Some(span) = context.span(id) {
            span.extensions_mut().insert(Opened(Instant::now()));
        }
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        let Some(span) = context.span(&id) else { return };
        let Some(start) = span.extensions().get::<Opened>().map(|Opened(start)| *start) else { return };
        let depth = span.scope().count() - 1;
        self.times.lock().push(SpanTime { name: span.name(), depth, start, end: Instant::now() });
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn spans_have_their_depth_and_lie_within_the_outer_one() {
        let recorder = SpanRecorder::start();
        tracing::debug_span!("outer").in_scope(|| {
            tracing::debug_span!("inner").in_scope(|| std::thread::sleep(Duration::from_millis(2)));
        });
        let times = recorder.take();
        let [inner, outer] = times.as_slice() else { panic!("{times:?}") };
        assert_eq!([(inner.name, inner.depth), (outer.name, outer.depth)], [("inner", 1), ("outer", 0)]);
        assert!(outer.start <= inner.start && inner.end <= outer.end);
        assert!(inner.end - inner.start >= Duration::from_millis(2));
        assert!(recorder.take().is_empty());
    }
}

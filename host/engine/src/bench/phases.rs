//! Time of the parts of a step, measured by the spans that steps open.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use tracing::{
    Dispatch, Subscriber,
    span::{Attributes, Id},
};
use tracing_subscriber::{Layer, Registry, layer::Context, layer::SubscriberExt, registry::LookupSpan};

/// Time spent in each of the outermost spans since the last reading, by name.
#[derive(Debug, Clone, Default)]
pub(super) struct Phases(Arc<Mutex<BTreeMap<&'static str, Duration>>>);

/// The time at which a span was entered.
struct Entered(Instant);

impl Phases {
    /// A subscriber that times the spans of this thread.
    pub(super) fn subscriber(&self) -> Dispatch {
        Dispatch::new(Registry::default().with(self.clone()))
    }

    /// Milliseconds by phase since the last call.
    pub(super) fn take(&self) -> BTreeMap<&'static str, f64> {
        let times = std::mem::take(&mut *self.0.lock());
        times.into_iter().map(|(name, time)| (name, time.as_secs_f64() * 1e3)).collect()
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Phases {
    fn on_new_span(&self, _: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        if let Some(span) = context.span(id).filter(|span| span.parent().is_none()) {
            span.extensions_mut().insert(Entered(Instant::now()));
        }
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        let Some(span) = context.span(&id) else { return };
        let Some(elapsed) = span.extensions().get::<Entered>().map(|Entered(start)| start.elapsed()) else {
            return;
        };
        let mut times = self.0.lock();
        *times.entry(span.name()).or_default() += elapsed;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outermost_spans_are_added_up() {
        let phases = Phases::default();
        tracing::dispatcher::with_default(&phases.subscriber(), || {
            for _ in 0..2 {
                tracing::debug_span!("outer").in_scope(|| {
                    tracing::debug_span!("inner").in_scope(|| std::thread::sleep(Duration::from_millis(2)));
                });
            }
        });
        let times = phases.take();
        assert_eq!(times.keys().copied().collect::<Vec<_>>(), ["outer"]);
        assert!(times["outer"] >= 4.0);
        assert!(phases.take().is_empty());
    }
}

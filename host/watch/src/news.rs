//! The events for browsers: every second the progress of the runs, and from time to time a notice that charts have
//! changed.
//!
//! Nothing is read while no browser is connected. Readings and charts each take at most a two-hundredth of a core,
//! unless a reading takes longer than a two-hundredth of the longest pause.

use std::{
    path::PathBuf,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use altgrad_report::follow::Follower;
use hyper::body::Bytes;
use tokio::sync::{mpsc, watch};

/// The time between two readings of the runs.
const LOOK: Duration = Duration::from_secs(1);
/// The pause between two looks, as a multiple of a look's time; and the longest. The first look reads whole files, and
/// a busy machine makes any look long: neither may silence the page.
const LOOK_SHARE: u32 = 200;
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// The shortest time between two renewals of the charts, and the shortest as a multiple of one's time.
const CHARTS: Duration = Duration::from_secs(5);
const CHARTS_SHARE: u32 = 200;

/// The newest line, and its waiting readers.
#[derive(Clone)]
pub(crate) struct News {
    follower: Arc<Mutex<Follower>>,
    runs: watch::Sender<Bytes>,
    charts: watch::Sender<()>,
    /// Milliseconds that the charts took last.
    cost_ms: Arc<AtomicU64>,
}

impl News {
    pub(crate) fn new(named: Vec<PathBuf>) -> Self {
        Self {
            follower: Arc::new(Mutex::new(Follower::new(&named))),
            runs: watch::Sender::new(Bytes::new()),
            charts: watch::Sender::new(()),
            cost_ms: Arc::default(),
        }
    }

    /// Records the time of renewed charts. The first view does not count: it reads every file.
    pub(crate) fn charts_took(&self, time: Duration) {
        self.cost_ms.store(time.as_millis() as u64, Ordering::Relaxed);
    }

    /// Follows the runs as long as the process runs.
    pub(crate) async fn tell(self) {
        let mut charts_told = Instant::now();
        let mut changed = false;
        loop {
            let begun = Instant::now();
            if self.runs.receiver_count() > 0 {
                let follower = self.follower.clone();
                let look = tokio::task::spawn_blocking(move || line(&follower));
                if let Ok(line) = look.await {
                    changed |= *self.runs.borrow() != line;
                    self.runs.send_replace(line);
                }
                let cost = Duration::from_millis(self.cost_ms.load(Ordering::Relaxed));
                if changed && charts_told.elapsed() >= CHARTS.max(cost * CHARTS_SHARE) {
                    self.charts.send_replace(());
                    (charts_told, changed) = (Instant::now(), false);
                }
            }
            tokio::time::sleep(pause(begun.elapsed())).await;
        }
    }

    /// The events of one browser.
    pub(crate) fn listen(&self) -> mpsc::Receiver<Bytes> {
        let (sender, receiver) = mpsc::channel(4);
        let (mut runs, mut charts) = (self.runs.subscribe(), self.charts.subscribe());
        let follower = self.follower.clone();
        tokio::spawn(async move {
            // A new client does not receive news from before the last pause.
            let Ok(first) = tokio::task::spawn_blocking(move || line(&follower)).await else { return };
            let mut event = first;
            while sender.send(event).await.is_ok() {
                event = tokio::select! {
                    changed = runs.changed() => match changed {
                        Ok(()) => runs.borrow_and_update().clone(),
                        Err(_) => return,
                    },
                    changed = charts.changed() => match changed {
                        Ok(()) => Bytes::from_static(b"event: charts\ndata:\n\n"),
                        Err(_) => return,
                    },
                    () = sender.closed() => return,
                };
            }
        });
        receiver
    }
}

/// The runs as an event; JSON has no line breaks.
fn line(follower: &Mutex<Follower>) -> Bytes {
    let mut follower = follower.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    follower.look();
    let runs = serde_json::to_string(&follower.runs()).unwrap_or_default();
    format!("event: runs\ndata: {runs}\n\n").into()
}

/// The pause after a reading of this duration.
fn pause(look: Duration) -> Duration {
    (look * LOOK_SHARE).min(LONGEST_PAUSE).max(LOOK.saturating_sub(look))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_look_does_not_silence_the_page() {
        assert_eq!(pause(Duration::from_millis(2)), Duration::from_millis(998));
        assert_eq!(pause(Duration::from_millis(10)), Duration::from_secs(2));
        assert_eq!(pause(Duration::from_secs(2)), LONGEST_PAUSE);
        assert_eq!(pause(Duration::from_secs(60)), LONGEST_PAUSE);
    }
}

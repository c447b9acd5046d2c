//! Data that the training process shares with the supervising process: atomic integers in memory that both map, so that
//! it stays readable however the first ends.

use std::sync::{
    OnceLock,
    atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering},
};

use altgrad_loader::calls::{Mark, MarkTable, MarkText};
use altgrad_run_folder::{crash_recovery::Claim, record::Progress};

/// Bytes of the longest path that the system takes.
const PATH: usize = 4096;
/// [`Fatal::how`] of a plugin that called `exit`; everything else is a signal's number.
pub const EXIT: u32 = 1 << 16;

/// The messages of the training process. All zeros: none yet.
#[derive(Debug)]
#[repr(C)]
pub struct Shared {
    /// The running plugin calls.
    pub calls: MarkTable,
    /// True if it handles signals.
    pub listens: AtomicBool,
    /// True if it ended by itself, and its exit code is its own.
    pub ended: AtomicBool,
    /// True if a repeated request ended it.
    pub at_once: AtomicBool,
    /// Steps done.
    step: AtomicU64,
    /// Bits of the loss, of the seconds in steps and of the tokens per second, as f64; NaN where unknown.
    progress: [AtomicU64; 3],
    /// Milliseconds after which a call that has not returned is reported, and the run ended; 0 = never.
    pub limits_ms: [AtomicU64; 2],
    fatal_mark: AtomicU64,
    fatal_how: AtomicU32,
    folder: MarkText<PATH>,
    /// Bytes of the folder's path up to the outermost folder that was made for it, plus one; 0 if it was there.
    created: AtomicUsize,
    reopened: AtomicBool,
    begun: AtomicBool,
}

/// The end of the process, as recorded by a handler.
#[derive(Debug, Clone, Copy)]
pub struct Fatal {
    /// The signal's number, or [`EXIT`].
    pub how: u32,
    /// The current call of the thread.
    pub mark: Mark,
}

impl Shared {
    /// An empty record.
    pub const fn new() -> Self {
        Self {
            calls: MarkTable::new(),
            listens: AtomicBool::new(false),
            ended: AtomicBool::new(false),
            at_once: AtomicBool::new(false),
            step: AtomicU64::new(0),
            progress: [const { AtomicU64::new(0) }; 3],
            limits_ms: [const { AtomicU64::new(0) }; 2],
            fatal_mark: AtomicU64::new(0),
            fatal_how: AtomicU32::new(0),
            folder: MarkText::new(),
            created: AtomicUsize::new(0),
            reopened: AtomicBool::new(false),
            begun: AtomicBool::new(false),
        }
    }

    /// Records how the process ends. For signal handlers too.
    pub fn record_fatal(&self, how: u32, mark: Mark) {
        self.fatal_mark.store(mark.to_bits(), Ordering::Relaxed);
        self.fatal_how.store(how, Ordering::Release);
    }

    /// The end of the process, if a handler could record it.
    pub fn fatal(&self) -> Option<Fatal> {
        let how = self.fatal_how.load(Ordering::Acquire);
        (how != 0).then(|| Fatal { how, mark: Mark::from_bits(self.fatal_mark.load(Ordering::Relaxed)) })
    }

    /// Records the progress after a step.
    pub fn tell(&self, progress: &Progress) {
        let Progress { step, loss, training_s, tokens_per_s, .. } = progress;
        let values = [loss.unwrap_or(f64::NAN), *training_s, tokens_per_s.unwrap_or(f64::NAN)];
        for (slot, value) in self.progress.iter().zip(values) {
            slot.store(value.to_bits(), Ordering::Relaxed);
        }
        self.step.store(*step, Ordering::Release);
    }

    /// The progress after the last step. If the process was killed while it recorded, the values may be those of the
    /// next step.
    pub fn progress(&self) -> Progress {
        let step = self.step.load(Ordering::Acquire);
        let values = self.progress.each_ref().map(|bits| f64::from_bits(bits.load(Ordering::Relaxed)));
        let [loss, training_s, tokens_per_s] =
            values.map(|value| Some(value).filter(|value| !value.is_nan()));
        Progress {
            step,
            loss,
            training_s: training_s.unwrap_or_default(),
            tokens_per_s,
            ..Progress::default()
        }
    }

    /// Says which folder the run has claimed.
    pub fn claim(&self, claim: &Claim) {
        let length = claim.created.as_ref().map_or(0, |created| created.as_os_str().len() + 1);
        self.created.store(length, Ordering::Relaxed);
        self.reopened.store(claim.reopened, Ordering::Relaxed);
        self.folder.write(&claim.path.display().to_string());
    }

    /// Says that the folder's `run.json` is this run's.
    pub fn begin(&self) {
        self.begun.store(true, Ordering::Release);
    }

    /// True if the folder's `run.json` is this run's.
    pub fn has_begun(&self) -> bool {
        self.begun.load(Ordering::Acquire)
    }

    /// The folder that the run has claimed, if it came to that.
    pub fn claimed(&self) -> Option<Claim> {
        let path = self.folder.get()?;
        let created = self.created.load(Ordering::Relaxed).checked_sub(1);
        let created = created.and_then(|length| path.get(..length)).map(Into::into);
        Some(Claim { path: path.into(), created, reopened: self.reopened.load(Ordering::Relaxed) })
    }
}

static OWN: Shared = Shared::new();
static SHARED: OnceLock<&'static Shared> = OnceLock::new();

/// Makes this process report there.
pub fn share(shared: &'static Shared) {
    let _ = SHARED.set(shared);
    altgrad_loader::calls::share(&shared.calls);
}

/// The memory for this process's reports. For signal handlers too, once it was called.
pub fn shared() -> &'static Shared {
    SHARED.get_or_init(|| {
        altgrad_loader::calls::share(&OWN.calls);
        &OWN
    })
}

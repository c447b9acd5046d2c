//! The running plugin call of each thread, so that another process can name the culprit of a crash or a hang.
//!
//! Each thread that calls plugins has a mark: plugin, call, and a number that changes with every call. Entering a call
//! is one store, leaving it another; nothing is allocated and nothing locked. The [`MarkTable`] of all marks holds
//! atomic integers only, so that signal handlers may read it, and it may lie in memory that another process shares
//! ([`share`]).

mod marked;
mod text;

use std::{
    cell::Cell,
    fmt,
    sync::{
        Mutex, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, compiler_fence},
    },
};

pub(crate) use marked::Marked;
pub use text::MarkText;

use altgrad_base::print;

/// Threads that can have a mark at the same time; calls on other threads are not marked.
const THREADS: usize = 1024;
/// Plugins and libraries that can be named; calls of others have the mark of the last.
const PLUGINS: usize = 256;

/// The calls of the contract.
macro_rules! calls {
    ($($call:ident = $name:literal),* $(,)?) => {
        /// A call to a plugin or its library.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[repr(u16)]
        #[allow(missing_docs)]
        pub enum Call {
            /// None: the host's own code.
            None,
            $($call),*
        }

        const NAMES: &[&str] = &["", $($name),*];
        const CALLS: &[Call] = &[Call::None, $(Call::$call),*];
    };
}

calls! {
    Load = "load",
    New = "new",
    Spec = "spec",
    Conventions = "conventions",
    FakeQuant = "fake_quant",
    Magnitude = "magnitude",
    Encode = "encode",
    Decode = "decode",
    Kernel = "kernel",
    Scope = "scope",
    States = "states",
    Rule = "rule",
    Step = "step",
    StepWithServices = "step_with_services",
    Launches = "launches",
    Open = "open",
    Log = "log",
    Alert = "alert",
    Histogram = "histogram",
    State = "state",
    Summary = "summary",
    Finish = "finish",
    Drop = "drop",
}

impl Call {
    /// The method's name; `load` for code that a library runs when it is opened and read.
    #[must_use]
    pub fn name(self) -> &'static str {
        NAMES[self as usize]
    }

    /// True if training waits for the call to return: not for sinks, whose calls have threads and deadlines of their
    /// own.
    #[must_use]
    pub fn is_awaited(self) -> bool {
        !matches!(
            self,
            Self::None
                | Self::Open
                | Self::Log
                | Self::Alert
                | Self::Histogram
                | Self::State
                | Self::Summary
                | Self::Finish
        )
    }

    fn of(number: u16) -> Self {
        CALLS.get(usize::from(number)).copied().unwrap_or(Self::None)
    }
}

/// A plugin or library, for marks of calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plugin(u16);

/// The activity of a thread: 32 bits that count its calls, 16 the plugin, 16 the call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark(u64);

impl Mark {
    /// The mark as a number, for [`Mark::from_bits`].
    #[must_use]
    pub fn to_bits(self) -> u64 {
        self.0
    }

    /// The mark of a number.
    #[must_use]
    pub fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// The call; [`Call::None`] if the thread is in none.
    #[must_use]
    pub fn call(self) -> Call {
        Call::of(self.0 as u16)
    }

    /// The number of the plugin.
    #[must_use]
    pub fn plugin(self) -> usize {
        usize::from((self.0 >> 16) as u16)
    }

    /// The mark of the running call, counted as a call after this one.
    fn next(self, what: u32) -> Self {
        Self((self.0 >> 32).wrapping_add(1) << 32 | u64::from(what))
    }
}

/// A thread's mark, on a cache line of its own.
#[repr(C, align(64))]
struct Slot {
    mark: AtomicU64,
    taken: AtomicBool,
}

/// A plugin's name, empty for a library as a whole, and the library.
#[repr(C)]
struct Label {
    name: MarkText<96>,
    library: MarkText<416>,
}

/// The marks of all threads and the names to which they refer. All zeros is an empty table.
#[repr(C)]
pub struct MarkTable {
    slots: [Slot; THREADS],
    /// Number of slots ever used; they are the first ones.
    used: AtomicUsize,
    labels: [Label; PLUGINS],
    named: AtomicUsize,
}

impl fmt::Debug for MarkTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MarkTable")
            .field("used", &self.used)
            .field("named", &self.named)
            .finish_non_exhaustive()
    }
}

impl Default for MarkTable {
    fn default() -> Self {
        Self::new()
    }
}

impl MarkTable {
    /// An empty table.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            slots: [const { Slot { mark: AtomicU64::new(0), taken: AtomicBool::new(false) } }; THREADS],
            used: AtomicUsize::new(0),
            labels: [const { Label { name: MarkText::new(), library: MarkText::new() } }; PLUGINS],
            named: AtomicUsize::new(0),
        }
    }

    /// The running calls: number and mark of each thread.
    pub fn running(&self) -> impl Iterator<Item = (usize, Mark)> {
        let used = self.used.load(Ordering::Acquire).min(THREADS);
        let marks = self.slots[..used].iter().map(|slot| Mark(slot.mark.load(Ordering::Relaxed))).enumerate();
        marks.filter(|(_, mark)| mark.call() != Call::None)
    }

    /// Passes a mark's description in pieces: `` plugin `NAME` (LIBRARY), call `NAME` ``. Allocates nothing.
    pub fn describe(&self, mark: Mark, mut piece: impl FnMut(&[u8])) {
        let Some(label) = mark.plugin().checked_sub(1).and_then(|index| self.labels.get(index)) else {
            return piece(b"a plugin");
        };
        if label.name.is_empty() {
            piece(b"library `");
            label.library.read(&mut piece);
            piece(b"`");
        } else {
            piece(b"plugin `");
            label.name.read(&mut piece);
            piece(b"` (");
            label.library.read(&mut piece);
            piece(b")");
        }
        piece(b", call `");
        piece(mark.call().name().as_bytes());
        piece(b"`");
    }

    /// [`Self::describe`] as text.
    #[must_use]
    pub fn description(&self, mark: Mark) -> String {
        let mut bytes = Vec::new();
        self.describe(mark, |piece| bytes.extend_from_slice(piece));
        String::from_utf8_lossy(&bytes).into_owned()
    }

    fn name(&self, name: &str, library: &str) -> Plugin {
        let named = self.named.load(Ordering::Acquire);
        let same = |label: &Label| label.name.holds(name) && label.library.holds(library);
        let index = match self.labels[..named].iter().position(same) {
            Some(index) => index,
            None if named == PLUGINS => PLUGINS - 1,
            None => {
                self.labels[named].name.write(name);
                self.labels[named].library.write(library);
                self.named.store(named + 1, Ordering::Release);
                named
            }
        };
        Plugin(index as u16 + 1)
    }

    /// Takes a free slot.
    fn take(&self) -> Option<&Slot> {
        let free = |slot: &&Slot| {
            slot.taken.compare_exchange(false, true, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        };
        let (index, slot) = self.slots.iter().enumerate().find(|(_, slot)| free(slot))?;
        self.used.fetch_max(index + 1, Ordering::AcqRel);
        Some(slot)
    }
}

static OWN: MarkTable = MarkTable::new();
static TABLE: OnceLock<&'static MarkTable> = OnceLock::new();
static NAMING: Mutex<()> = Mutex::new(());

/// The table of this process.
pub fn table() -> &'static MarkTable {
    TABLE.get_or_init(|| &OWN)
}

/// Stores the marks of this process in that table. Call it before the first call is marked; later it has no effect.
pub fn share(table: &'static MarkTable) {
    let _ = TABLE.set(table);
}

/// Registers a plugin by its name and its library; an empty name represents the library as a whole. Names are shortened
/// to 96 bytes and libraries to the last 416.
#[must_use]
pub fn plugin(name: &str, library: &str) -> Plugin {
    let _held = NAMING.lock().unwrap_or_else(PoisonError::into_inner);
    table().name(&print::escaped(name), &print::escaped(library))
}

/// Releases a thread's slot when the thread ends.
struct Release(Cell<Option<&'static Slot>>);

impl Drop for Release {
    fn drop(&mut self) {
        // If a plugin calls `exit`, the thread ends within the call and drops this value first: the mark is still
        // needed.
        if let Some(slot) = self.0.get()
            && current().call() == Call::None
        {
            SLOT.set(None);
            slot.taken.store(false, Ordering::Release);
        }
    }
}

thread_local! {
    /// Without a destructor, so that a signal handler may read it.
    static SLOT: Cell<Option<&'static Slot>> = const { Cell::new(None) };
    static RELEASE: Release = const { Release(Cell::new(None)) };
}

/// The slot of this thread, taken at its first call.
fn slot() -> Option<&'static Slot> {
    SLOT.get().or_else(|| {
        let slot = table().take()?;
        if RELEASE.try_with(|release| release.0.set(Some(slot))).is_err() {
            // The thread is ending.
            slot.taken.store(false, Ordering::Release);
            return None;
        }
        SLOT.set(Some(slot));
        Some(slot)
    })
}

/// The activity of this thread. Signal handlers may call it.
#[must_use]
pub fn current() -> Mark {
    SLOT.get().map_or(Mark(0), |slot| Mark(slot.mark.load(Ordering::Relaxed)))
}

/// A running call, which ends when this is dropped.
#[derive(Debug)]
pub struct Running {
    /// The thread's activity before the call.
    outer: u32,
}

/// Marks that this thread is in a call, until the returned value is dropped.
pub fn enter(plugin: Plugin, call: Call) -> Running {
    Running { outer: set(u32::from(plugin.0) << 16 | call as u32) }
}

/// Marks that this thread executes host code, called by a plugin.
pub fn host() -> Running {
    Running { outer: set(0) }
}

impl Drop for Running {
    fn drop(&mut self) {
        set(self.outer);
    }
}

/// Sets this thread's mark and returns the previous one, both without their counts.
fn set(what: u32) -> u32 {
    let Some(slot) = slot() else { return 0 };
    let mark = Mark(slot.mark.load(Ordering::Relaxed));
    // The call must not begin before its mark, nor end after it: as far as this thread and its signal handlers can
    // tell.
    compiler_fence(Ordering::SeqCst);
    slot.mark.store(mark.next(what).0, Ordering::Relaxed);
    compiler_fence(Ordering::SeqCst);
    mark.0 as u32
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    fn said() -> Vec<String> {
        table().running().map(|(_, mark)| table().description(mark)).collect()
    }

    #[test]
    fn a_call_is_named_while_it_runs_and_the_outer_one_after_it() {
        let (adamw, e5m2) = (plugin("adamw", "plugins/adamw.so"), plugin("E5M2", "plugins/e5m2.so"));
        assert_eq!(plugin("adamw", "plugins/adamw.so"), adamw);
        let outer = "plugin `adamw` (plugins/adamw.so), call `step_with_services`".to_string();
        let inner = "plugin `E5M2` (plugins/e5m2.so), call `fake_quant`".to_string();
        {
            let _step = enter(adamw, Call::StepWithServices);
            let first = current();
            assert!(said().contains(&outer));
            {
                let _host = host();
                assert_eq!(current().call(), Call::None);
                let _quant = enter(e5m2, Call::FakeQuant);
                assert!(said().contains(&inner) && !said().contains(&outer));
            }
            assert!(said().contains(&outer) && !said().contains(&inner));
            assert_ne!(current(), first, "the count shows that something happened");
        }
        assert_eq!(current().call(), Call::None);
        let library = plugin("", "plugins/e5m2.so");
        let other = thread::spawn(move || {
            let _load = enter(library, Call::Load);
            said().contains(&"library `plugins/e5m2.so`, call `load`".to_string())
        });
        assert!(other.join().is_ok_and(|named| named));
    }

    #[test]
    fn threads_that_end_give_their_marks_back_and_a_full_table_marks_nothing() {
        let table = MarkTable::new();
        let slots: Vec<_> = (0..THREADS).filter_map(|_| table.take()).collect();
        assert_eq!(slots.len(), THREADS);
        assert!(table.take().is_none());
        slots[7].taken.store(false, Ordering::Release);
        assert!(table.take().is_some());
        for _ in 0..3 * THREADS {
            let marked = thread::spawn(|| {
                let _load = enter(plugin("", "many"), Call::Load);
                current().call() == Call::Load
            });
            assert!(marked.join().is_ok_and(|marked| marked));
        }
    }

    #[test]
    fn what_is_too_long_is_shortened_and_what_commands_terminals_escaped() {
        let name = plugin(&"ä".repeat(100), &format!("{}/x\x1b.so", "y".repeat(1000)));
        let _call = enter(name, Call::New);
        let said = table().description(current());
        assert!(said.len() < 600 && said.ends_with("y/x\\u001b.so), call `new`"), "{said}");
        assert!(said.contains("ää…` (…yy"), "{said}");
    }
}

//! The supervision's only `unsafe`: memory that two processes share, `fork`, and handlers that name the plugin in whose
//! call the process ends.

use std::{
    cell::UnsafeCell,
    fs, io,
    mem::{MaybeUninit, size_of},
    ptr,
    sync::atomic::{AtomicBool, Ordering},
};

use altgrad_base::diagnostic::Fault;
use altgrad_loader::calls::{self, Call, Mark};
use libc::{c_int, c_void, siginfo_t};

use super::shared::{EXIT, Shared, shared};

/// Signals that end a process, and their names.
const FATAL: [(c_int, &[u8]); 5] = [
    (libc::SIGSEGV, b"SIGSEGV"),
    (libc::SIGBUS, b"SIGBUS"),
    (libc::SIGILL, b"SIGILL"),
    (libc::SIGFPE, b"SIGFPE"),
    (libc::SIGABRT, b"SIGABRT"),
];
/// Other threads' calls that a line names at most.
const MOST_OTHERS: usize = 3;
/// The distance below and above the stack's end that a thread can reach in one step, bytes.
const REACH: (usize, usize) = (1 << 20, 1 << 12);

/// Memory that this process shares with those that it forks.
///
/// # Errors
/// The system's error.
pub fn map() -> io::Result<&'static Shared> {
    let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_ANONYMOUS);
    // SAFETY: requests new memory at any address; no existing mapping changes.
    let address = unsafe { libc::mmap(ptr::null_mut(), size_of::<Shared>(), protection, flags, -1, 0) };
    if address == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the memory begins at a page, is as large as `Shared`, holds zeros, which are a valid `Shared` because
    // that consists of atomic integers and booleans, and is never unmapped. What other processes write is atomic, too.
    Ok(unsafe { &*address.cast::<Shared>() })
}

/// Splits the process in two: the new one's number here, nothing in the new one.
///
/// # Errors
/// The system's, or the process has several threads, of which only one would go on in the new process.
pub fn fork() -> io::Result<Option<i32>> {
    if fs::read_dir("/proc/self/task")?.count() != 1 {
        return Err(io::Error::other("the process has several threads"));
    }
    // SAFETY: there is one thread, so no lock is held by another and no state half-changed.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(None),
        child => Ok(Some(child)),
    }
}

/// From now on a write beyond the largest size of files is an ordinary error (EFBIG), and SIGUSR1 does not end the
/// process.
pub fn ignore_harmless_signals() {
    for signal in [libc::SIGXFSZ, libc::SIGUSR1] {
        // SAFETY: sets a disposition; no handler is involved.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
}

/// Makes the process report the plugin's call in which a signal or `exit` ends it. The end is the same as without.
pub fn install_handlers() {
    // So that handlers find it made.
    let _ = shared();
    for (signal, _) in FATAL {
        let mut action = MaybeUninit::<libc::sigaction>::zeroed();
        // SAFETY: all zeros is an empty `sigaction`; its fields are set before the system reads it. The handler calls
        // only async-signal-safe functions. It runs on the alternate stack, which Rust gives its threads.
        unsafe {
            let action = action.assume_init_mut();
            action.sa_sigaction = on_signal as extern "C" fn(c_int, *mut siginfo_t, *mut c_void) as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
            libc::sigemptyset(&raw mut action.sa_mask);
            libc::sigaction(signal, action, ptr::null_mut());
        }
    }
    // SAFETY: the function takes and returns nothing and stays loaded. It is registered before any library is opened,
    // so it runs last.
    unsafe { libc::atexit(on_exit) };
}

extern "C" fn on_signal(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    let mark = calls::current();
    shared().record_fatal(signal.unsigned_abs(), mark);
    let name = FATAL.iter().find(|(number, _)| *number == signal).map_or(&b"a signal"[..], |(_, name)| name);
    let overflow = signal == libc::SIGSEGV && is_stack_overflow(info, context);
    say(|line| {
        line.push(name);
        line.push(if overflow { b" (stack overflow)" } else { b"" });
        place(line, mark);
    });
    // SAFETY: both are allowed in handlers. The signal is blocked until this function returns, and then ends the
    // process.
    unsafe {
        libc::signal(signal, libc::SIG_DFL);
        libc::raise(signal);
    }
}

/// Runs after a call of `exit`, or when `main` returned.
extern "C" fn on_exit() {
    let mark = calls::current();
    if mark.call() == Call::None {
        return;
    }
    shared().record_fatal(EXIT, mark);
    say(|line| {
        line.push(b"the process was ended (exit)");
        place(line, mark);
    });
    // SAFETY: ends the process without running anything else of it.
    unsafe { libc::_exit(c_int::from(Fault::Plugin.exit_code())) }
}

/// True if a thread has gone beyond the end of its stack.
fn is_stack_overflow(info: *mut siginfo_t, context: *mut c_void) -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        // SAFETY: the system hands both to a handler that asks for them, and they are as its headers describe them; a
        // `siginfo_t` of SIGSEGV has an address.
        let (address, stack) = unsafe {
            let context = &*context.cast::<libc::ucontext_t>();
            ((*info).si_addr() as usize, context.uc_mcontext.gregs[libc::REG_RSP as usize] as usize)
        };
        (stack.saturating_sub(REACH.0)..stack.saturating_add(REACH.1)).contains(&address)
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        let _ = (info, context, REACH);
        false
    }
}

/// Adds the call of this thread or, if it was in no plugin's call, the calls of others.
fn place(line: &mut Line, mark: Mark) {
    let table = &shared().calls;
    if mark.call() != Call::None {
        line.push(b" in ");
        return table.describe(mark, |piece| line.push(piece));
    }
    line.push(b" outside of plugin calls");
    for (_, mark) in table.running().take(MOST_OTHERS) {
        line.push(b"; another thread was in ");
        table.describe(mark, |piece| line.push(piece));
    }
}

/// A line that is written in one go. Not on the stack, because alternate stacks are small.
struct Line {
    bytes: [u8; 2048],
    length: usize,
}

impl Line {
    fn push(&mut self, piece: &[u8]) {
        let left = self.bytes[self.length..].iter_mut().zip(piece);
        self.length += left.map(|(place, byte)| *place = *byte).count();
    }
}

struct OnlyLine(UnsafeCell<Line>);

// SAFETY: only the thread that takes `SAYING` touches the line.
unsafe impl Sync for OnlyLine {}

static LINE: OnlyLine = OnlyLine(UnsafeCell::new(Line { bytes: [0; 2048], length: 0 }));
static SAYING: AtomicBool = AtomicBool::new(false);

/// Writes one error to stderr; only the first of the process.
fn say(error: impl FnOnce(&mut Line)) {
    if SAYING.swap(true, Ordering::AcqRel) {
        return;
    }
    // SAFETY: no other code takes `SAYING`, and it is never given back.
    let line = unsafe { &mut *LINE.0.get() };
    line.push(b"error: ");
    error(line);
    line.length = line.length.min(line.bytes.len() - 1);
    line.push(b"\n");
    // SAFETY: writes initialised bytes of the line; a handler may call it.
    unsafe { libc::write(libc::STDERR_FILENO, line.bytes.as_ptr().cast(), line.length) };
}

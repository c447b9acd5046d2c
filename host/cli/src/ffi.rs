//! The command line's only `unsafe`: an option of the allocator, and calls into C's library for checks.

/// Number of mimalloc's option `purge_delay`: milliseconds until freed pages go back to the system; -1 for never.
const PURGE_DELAY: libmimalloc_sys::mi_option_t = 15;

/// Makes the allocator keep freed pages for the next step, which needs as many: the system would clear them each time,
/// those of the logits alone for a tenth of a step. Allocations above 2 GiB are returned when they are freed.
pub fn keep_freed_pages() {
    // SAFETY: sets a number, before there are other threads that could read it.
    unsafe { libmimalloc_sys::mi_option_set(PURGE_DELAY, -1) };
}

/// Sets the locale of this process from the environment, as any library in it may.
pub fn adopt_locale() {
    // SAFETY: called before there is a second thread; the empty name asks for the environment's locale.
    unsafe {
        libc::setlocale(libc::LC_ALL, c"".as_ptr());
        libc::setlocale(libc::LC_NUMERIC, c"".as_ptr());
    }
}

/// Bytes that C's `malloc` has allocated, if it reports them (glibc 2.33 or newer). The host's own memory comes from
/// another allocator; plugins' memory is included, unless they bring an allocator.
#[must_use]
pub fn c_heap_in_use() -> Option<u64> {
    #[cfg(target_env = "gnu")]
    {
        // Looked up, because a host that names it would not start with an older glibc.
        // SAFETY: the name ends with a zero byte.
        let address = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"mallinfo2".as_ptr()) };
        if address.is_null() {
            return None;
        }
        // SAFETY: the function of this name in C's library has this type, takes nothing and returns numbers.
        let info = unsafe {
            let mallinfo2: extern "C" fn() -> libc::mallinfo2 = std::mem::transmute(address);
            mallinfo2()
        };
        Some((info.uordblks + info.hblkhd) as u64)
    }
    #[cfg(not(target_env = "gnu"))]
    None
}

/// The action of the process for each signal, from the first on: the address of the handler, or the number of a
/// standard action.
#[must_use]
pub fn signal_actions() -> Vec<usize> {
    let of = |signal| {
        // SAFETY: a null pointer for the new action asks for the present one, which is written to a structure that is
        // there; all its bits may be zero.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            let asked = libc::sigaction(signal, std::ptr::null(), &raw mut action);
            if asked == 0 { action.sa_sigaction } else { 0 }
        }
    };
    (1..=libc::SIGRTMAX()).map(of).collect()
}

//! Memory that a reload leaves unused.

use std::panic::resume_unwind;
use std::thread;

/// Runs `work` in a thread of its own, as a reload does. glibc gives it an arena of its own. So what a reload frees is not between what
/// outlives it, such as pools and caches, which the main thread opens: only whole pages are returned.
pub(super) fn in_own_arena<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    if rudy_runtime::current().is_some() {
        return work();
    }
    thread::scope(|scope| scope.spawn(work).join()).unwrap_or_else(|panic| resume_unwind(panic))
}

/// Returns unused memory to the operating system. glibc keeps what is below a block in use, and a new configuration is above the old one:
/// without this, a process with 10,000 sites had 2.4 times as much memory after some reloads.
#[cfg(target_env = "gnu")]
pub(super) fn return_unused() {
    // SAFETY: malloc_trim(3) may be called at any time, by any thread; 0 keeps no padding.
    #[expect(unsafe_code, reason = "no crate offers malloc_trim as a safe function")]
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Does nothing: other allocators return memory themselves.
#[cfg(not(target_env = "gnu"))]
pub(super) fn return_unused() {}

//! An allocator that counts allocated bytes, and allocations. Shared with the tests of rudy-net and rudy-server.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The number of allocated bytes, without those of [ignored](IS_IGNORED) threads.
pub(crate) static HELD: AtomicUsize = AtomicUsize::new(0);

/// The number of allocations so far, without those of ignored threads. One that grows counts again.
pub(crate) static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// Whether the allocations of this thread do not count.
    pub(crate) static IS_IGNORED: Cell<bool> = const { Cell::new(false) };
}

struct Counting;

#[expect(unsafe_code, reason = "the trait is unsafe; all calls go to the system allocator")]
// SAFETY: every call is forwarded unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if !IS_IGNORED.get() {
            HELD.fetch_add(layout.size(), Ordering::Relaxed);
            ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        }
        // SAFETY: the caller upholds the contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        if !IS_IGNORED.get() {
            HELD.fetch_sub(layout.size(), Ordering::Relaxed);
        }
        // SAFETY: the caller upholds the contract.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

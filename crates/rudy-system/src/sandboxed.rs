//! Tells the errors of files that the sandbox may be their cause: the kernel reports it as a missing permission.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether the process is in the sandbox.
static IS_SANDBOXED: AtomicBool = AtomicBool::new(false);

/// Notes that the process is in the sandbox, which it cannot leave.
pub fn set() {
    IS_SANDBOXED.store(true, Ordering::Relaxed);
}

/// Returns what to add to the line about an error.
pub fn hint(error: &io::Error) -> &'static str {
    if error.kind() == io::ErrorKind::PermissionDenied && IS_SANDBOXED.load(Ordering::Relaxed) {
        "; Rudy may open only the paths in its configuration (`sandbox`)"
    } else {
        ""
    }
}

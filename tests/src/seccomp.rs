//! Filters of system calls, as systemd and containers have them.

use crate::program;

/// Returns a script for [`Builder::through_shell`](crate::Builder::through_shell) that runs the server where `openat2` fails with this
/// error: systemd's `RestrictSUIDSGID=` returns ENOSYS (38), old profiles of containers EPERM (1). `None` after
/// [`skip`](crate::skip()).
pub fn without_openat2(errno: u8) -> Option<String> {
    let python = program("python3")?;
    let filter = concat!(env!("CARGO_MANIFEST_DIR"), "/src/without_openat2.py");
    Some(format!("exec '{}' '{filter}' {errno} \"$@\"", python.display()))
}

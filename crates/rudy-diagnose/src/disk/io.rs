//! The counters of `/proc/PID/io` and `/proc/PID/task/TID/io`.

use std::ops::{AddAssign, Sub};

use rudy_observe::field;
use serde::Serialize;

/// Bytes since the start of a process or thread.
#[expect(clippy::struct_field_names, reason = "these are the keys of the JSON output")]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub(super) struct Io {
    /// Bytes that it made dirty in the page cache of a file on a disk: they go to the disk unless they are cancelled (`write_bytes`).
    pub(super) disk_bytes: u64,
    /// Bytes that it passed to `write` and its like, to files, pipes, terminals and some sockets (`wchar`).
    pub(super) write_call_bytes: u64,
    /// Bytes of `disk_bytes` that did not reach the disk, because it truncated or deleted the file before (`cancelled_write_bytes`).
    pub(super) cancelled_bytes: u64,
}

impl Io {
    pub(super) fn parse(text: &[u8]) -> Option<Self> {
        Some(Self {
            disk_bytes: field(text, "write_bytes:")?,
            write_call_bytes: field(text, "wchar:")?,
            cancelled_bytes: field(text, "cancelled_write_bytes:")?,
        })
    }

    pub(super) fn is_idle(&self) -> bool {
        self.disk_bytes == 0 && self.write_call_bytes == 0
    }

    /// The order of writers: what goes to the disk counts first.
    pub(super) fn weight(&self) -> (u64, u64) {
        (self.disk_bytes, self.write_call_bytes)
    }
}

impl Sub for Io {
    type Output = Self;

    fn sub(self, earlier: Self) -> Self {
        Self {
            disk_bytes: self.disk_bytes.saturating_sub(earlier.disk_bytes),
            write_call_bytes: self.write_call_bytes.saturating_sub(earlier.write_call_bytes),
            cancelled_bytes: self.cancelled_bytes.saturating_sub(earlier.cancelled_bytes),
        }
    }
}

impl AddAssign for Io {
    fn add_assign(&mut self, other: Self) {
        self.disk_bytes += other.disk_bytes;
        self.write_call_bytes += other.write_call_bytes;
        self.cancelled_bytes += other.cancelled_bytes;
    }
}

//! What a request demands of the service, which its path says: `/KIND/BYTES/NUMBER`.

use std::fs::File;
use std::io::Write;
use std::ops::Range;
use std::sync::{Arc, LazyLock};

use bytes::Bytes;
use rudy_service::FileRange;

/// The bytes of all bodies. No period of them is a power of two, so that a byte too few or too many shows.
static PATTERN: LazyLock<Bytes> = LazyLock::new(|| (0..251).cycle().take(PATTERN_BYTES).collect());
const PATTERN_BYTES: usize = 1 << 20;

/// The size of the largest body.
const BYTES_MAX: usize = 1_000_000;

/// A file with the pattern. It is in memory, so that all of it can be read at any time without waiting.
static FILE: LazyLock<Arc<File>> = LazyLock::new(|| {
    let file = rustix::fs::memfd_create("pattern", rustix::fs::MemfdFlags::ALLOW_SEALING);
    let mut file = File::from(file.expect("a file in memory"));
    file.write_all(&PATTERN).expect("a file in memory");
    Arc::new(file)
});

/// How the service responds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// At once, with bytes.
    Bytes,
    /// At once, with a part of a file.
    File,
    /// With a body in pieces of unknown length, with a pause before each, and with trailers.
    Stream,
    /// With a body in pieces of known length, without pauses.
    Sized,
    /// With a body that fails after its bytes.
    Failing,
    /// With bytes, after a pause.
    Waiting,
    /// With the body of the request, as it arrives.
    Echo,
    /// With bytes, when the body of the request is complete.
    Reader,
    /// The same, with a pause before each piece of the body of the request.
    SlowReader,
    /// Not at all.
    Silence,
    /// With interim responses, and then with bytes.
    Interim,
}

impl Kind {
    pub(super) const ALL: [Self; 11] = [
        Self::Bytes,
        Self::File,
        Self::Stream,
        Self::Sized,
        Self::Failing,
        Self::Waiting,
        Self::Echo,
        Self::Reader,
        Self::SlowReader,
        Self::Silence,
        Self::Interim,
    ];

    /// Whether the service reads the body of the request to its end, if the connection lasts.
    pub(super) fn reads(self) -> bool {
        matches!(self, Self::Echo | Self::Reader | Self::SlowReader)
    }
}

/// What a request demands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Task {
    pub(super) kind: Kind,
    /// The size of the body of the response.
    pub(super) bytes: usize,
    /// The number of the request.
    pub(super) number: usize,
}

impl Task {
    pub(super) fn path(self) -> String {
        format!("/{}/{}/{}", self.kind as usize, self.bytes, self.number)
    }

    pub(super) fn of_path(path: &[u8]) -> Option<Self> {
        let mut parts = std::str::from_utf8(path).ok()?.strip_prefix('/')?.split('/').map(str::parse);
        let mut next = || parts.next()?.ok();
        let (kind, bytes, number): (usize, _, _) = (next()?, next()?, next()?);
        let task = Self { kind: *Kind::ALL.get(kind)?, bytes, number };
        (bytes <= BYTES_MAX).then_some(task)
    }

    /// Returns a part of the body that the service makes.
    pub(super) fn body(self, range: Range<usize>) -> Bytes {
        let start = self.number % 251;
        PATTERN.slice(start + range.start..start + range.end)
    }

    /// Returns a part of the body of the request.
    pub(super) fn upload(self, range: Range<usize>) -> Bytes {
        let start = 1000 + self.number % 251;
        PATTERN.slice(start + range.start..start + range.end)
    }

    /// Returns the body that the service makes, as a part of a file.
    pub(super) fn file(self) -> FileRange {
        FileRange::append_only(FILE.clone(), (self.number % 251) as u64, self.bytes as u64)
    }
}

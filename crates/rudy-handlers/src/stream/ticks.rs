//! The stream of one client: when each chunk is due, and when the client is too far behind.

use std::ops::Deref;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use rudy_service::{BodyError, BodyPiece, BodyStream};

use super::Settings;

/// The body of a stream. There is one per client, so it is small: 56 bytes, with most paths.
///
/// Chunk n is due n - 1 intervals after the first one, regardless of delays of earlier chunks, so there is no
/// drift. After a pause of the server, at most `queue` missed chunks are sent at once; earlier ones are
/// skipped, which the numbers show.
pub(super) struct Ticks {
    settings: Arc<Settings>,
    path: ShortText,
    /// When chunk 1 is due; in the past if the client has received some already.
    first: Instant,
    /// The number of the next chunk; 0 is the welcome.
    next: u64,
}

impl Ticks {
    /// Creates a stream that first ticks at `tick`, for a client that has received this many chunks. A number
    /// that is too large is invalid, and the stream starts at the beginning.
    pub(super) fn new(settings: Arc<Settings>, path: &str, tick: Instant, received: u64) -> Self {
        // Half of the range of 64 bits, so that 292 years of chunks are left.
        let had_ns = settings.interval_ns.checked_mul(received).filter(|ns| *ns <= u64::MAX / 2);
        let (first, next) = match had_ns.and_then(|ns| tick.checked_sub(Duration::from_nanos(ns))) {
            Some(first) if received > 0 => (first, received + 1),
            _ => (tick, u64::from(settings.welcome.is_none())),
        };
        Self { settings, path: path.into(), first, next }
    }

    /// Returns the last chunk that is due by `now`, sent or not; 0 if none is.
    fn newest(&self, now: Instant) -> u64 {
        let Some(since_first) = now.checked_duration_since(self.first) else { return 0 };
        // 64 bits of nanoseconds are 584 years.
        let since_first_ns = u64::try_from(since_first.as_nanos()).unwrap_or(u64::MAX);
        let newest = since_first_ns / self.settings.interval_ns + 1;
        newest.min(self.settings.count.unwrap_or(u64::MAX))
    }

    /// Returns the oldest chunk that may still be sent at `now`.
    fn oldest(&self, now: Instant) -> u64 {
        (self.newest(now) + 1).saturating_sub(self.settings.queue)
    }

    /// Returns the number of the next chunk, without the welcome.
    fn next_chunk(&self) -> u64 {
        self.next.max(1)
    }
}

impl BodyStream for Ticks {
    fn poll_piece(
        &mut self,
        _: &mut Context<'_>,
        now: Instant,
        _: u64,
    ) -> Poll<Option<Result<BodyPiece, BodyError>>> {
        let text = match &self.settings.welcome {
            Some(welcome) if self.next == 0 => welcome,
            _ if self.settings.count.is_some_and(|count| self.next > count) => return Poll::Ready(None),
            _ if self.newest(now) < self.next => return Poll::Pending,
            _ => {
                self.next = self.next.max(self.oldest(now));
                &self.settings.text
            }
        };
        let piece = text.expand(self.next, &self.path);
        self.next += 1;
        Poll::Ready(Some(Ok(BodyPiece::Data(piece))))
    }

    fn poll_blocked(&mut self, _: &mut Context<'_>, now: Instant) -> Poll<()> {
        let waiting = (self.newest(now) + 1).saturating_sub(self.next_chunk());
        if waiting >= self.settings.queue {
            return Poll::Ready(());
        }
        // Only the chunk that overflows the queue matters.
        if let Some(overflow) = self.due_time(self.next_chunk().saturating_add(self.settings.queue - 1)) {
            rudy_service::wake_at(overflow);
        }
        Poll::Pending
    }

    fn is_live(&self) -> bool {
        true
    }

    fn due(&self) -> Option<Instant> {
        self.due_time(self.next_chunk())
    }
}

impl Ticks {
    /// Returns when a chunk is due, if the stream has one with this number.
    fn due_time(&self, number: u64) -> Option<Instant> {
        if self.settings.count.is_some_and(|count| number > count) {
            return None;
        }
        let since_first_ns = self.settings.interval_ns.checked_mul(number - 1)?;
        self.first.checked_add(Duration::from_nanos(since_first_ns))
    }
}

/// A string. Up to 22 bytes need no allocation, which is enough for most paths.
enum ShortText {
    Inline { length: u8, bytes: [u8; 22] },
    Long(Box<str>),
}

impl From<&str> for ShortText {
    fn from(text: &str) -> Self {
        let mut bytes = [0; 22];
        match (bytes.get_mut(..text.len()), u8::try_from(text.len())) {
            (Some(inline), Ok(length)) => {
                inline.copy_from_slice(text.as_bytes());
                Self::Inline { length, bytes }
            }
            _ => Self::Long(text.into()),
        }
    }
}

impl Deref for ShortText {
    type Target = str;

    fn deref(&self) -> &str {
        match self {
            // The bytes were copied from a string.
            Self::Inline { length, bytes } => {
                std::str::from_utf8(&bytes[..usize::from(*length)]).unwrap_or_default()
            }
            Self::Long(text) => text,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_is_small_and_stores_any_path() {
        assert!(size_of::<Ticks>() <= 56, "{}", size_of::<Ticks>());
        for length in [0, 1, 21, 22, 23, 300] {
            let text = "x".repeat(length);
            assert_eq!(*ShortText::from(&*text), *text);
        }
    }
}

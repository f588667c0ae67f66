//! Limits the memory for large documents of all mirrors in the process.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use rudy_net::Body;
use tokio::sync::Semaphore;
use tokio::time::timeout;

/// Smaller documents are not counted. They are rewritten on the worker, which takes about a millisecond.
pub(super) const SMALL_BYTES: u64 = 256 * 1024;

/// The memory in KiB: 512 MiB, for two documents of the default `metadata_bytes`, each with its copy.
const KIBIBYTES: u32 = 512 * 1024;

static FREE: Semaphore = Semaphore::const_new(KIBIBYTES as usize);

/// How long a document waits until others are sent. Those without a length could otherwise wait for each other.
const WAIT_MAX: Duration = Duration::from_secs(30);

/// The memory that a document may use: for the original and for the rewritten one. Dropping it lets others use it.
#[derive(Debug, Default)]
pub(super) struct Memory {
    kibibytes: u32,
}

impl Memory {
    /// Extends it for a document of this size, when others need less. Returns `false` if that takes too long. A document that is larger
    /// than the limit waits for all of it.
    pub(super) async fn extend(&mut self, document_bytes: u64) -> bool {
        let wanted =
            if document_bytes <= SMALL_BYTES { 0 } else { kibibytes(document_bytes.saturating_mul(2)) };
        let more = wanted.saturating_sub(self.kibibytes);
        if more == 0 {
            return true;
        }
        let Ok(Ok(permit)) = timeout(WAIT_MAX, FREE.acquire_many(more)).await else { return false };
        permit.forget();
        self.kibibytes += more;
        true
    }

    /// Keeps it for a text until that is sent to all clients.
    pub(super) fn keep_for(mut self, text: String) -> Arc<Counted> {
        let unused = self.kibibytes.saturating_sub(kibibytes(text.len() as u64));
        self.release(unused);
        Arc::new(Counted { text, _memory: self })
    }

    fn release(&mut self, kibibytes: u32) {
        self.kibibytes -= kibibytes;
        FREE.add_permits(kibibytes as usize);
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        self.release(self.kibibytes);
    }
}

/// Returns the KiB for a number of bytes, at most all.
fn kibibytes(bytes: u64) -> u32 {
    u32::try_from(bytes.div_ceil(1024)).unwrap_or(u32::MAX).min(KIBIBYTES)
}

/// A text with its memory.
#[derive(Debug)]
pub(super) struct Counted {
    text: String,
    _memory: Memory,
}

impl Counted {
    /// Returns the text as a body.
    pub(super) fn body(self: Arc<Self>) -> Body {
        Body::Bytes(Bytes::from_owner(Owner(self)))
    }

    pub(super) fn length(&self) -> u64 {
        self.text.len() as u64
    }
}

/// One of the owners of a text.
struct Owner(Arc<Counted>);

impl AsRef<[u8]> for Owner {
    fn as_ref(&self) -> &[u8] {
        self.0.text.as_bytes()
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::pin::pin;
    use std::task::Poll;

    use super::*;

    #[test]
    fn large_documents_wait_until_others_are_sent_but_not_for_ever() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let (mut all, mut other) = (Memory::default(), Memory::default());
        assert!(runtime.block_on(all.extend(u64::MAX)));
        assert!(runtime.block_on(other.extend(SMALL_BYTES)), "small ones do not count");
        let paused = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        assert!(!paused.unwrap().block_on(other.extend(1 << 20)), "it gives up");
        runtime.block_on(async {
            let mut waiting = pin!(other.extend(1 << 20));
            assert!(poll_fn(|cx| Poll::Ready(waiting.as_mut().poll(cx).is_pending())).await);
            let sent = all.keep_for("x".repeat(1 << 20));
            assert!(waiting.await, "the rewritten document alone uses less");
            drop(sent);
        });
    }
}

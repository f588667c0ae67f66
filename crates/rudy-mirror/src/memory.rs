//! Limits the memory for large documents of all mirrors in the process. A rewritten document is in a file while clients receive it:
//! slow ones take no memory from others.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use rudy_pipeline::Pieces;
use rudy_service::{Body, FileRange};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::timeout;

/// Smaller documents are not counted. They are rewritten on the worker, which takes about a millisecond.
pub(super) const SMALL_BYTES: u64 = 256 * 1024;

/// The memory in KiB: 512 MiB, for two documents of the default `metadata_bytes`, each with its copy.
const KIBIBYTES: u32 = 512 * 1024;

/// The space for files in KiB: 4 GiB, for some hundred different documents of npm that clients receive at a time. Clients of the same
/// document share its file. Further documents are in memory.
const FILE_KIBIBYTES: u32 = 4 * 1024 * 1024;

static FILES: Semaphore = Semaphore::const_new(FILE_KIBIBYTES as usize);

static FREE: Semaphore = Semaphore::const_new(KIBIBYTES as usize);

/// How long a document waits until others are received and rewritten.
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
        let more = needed(document_bytes).saturating_sub(self.kibibytes);
        if more == 0 {
            return true;
        }
        let Ok(Ok(permit)) = timeout(WAIT_MAX, FREE.acquire_many(more)).await else { return false };
        permit.forget();
        self.kibibytes += more;
        true
    }

    /// Lets others use what a document of this size does not need.
    pub(super) fn reduce(&mut self, document_bytes: u64) {
        self.release(self.kibibytes.saturating_sub(needed(document_bytes)));
    }

    /// Keeps it for a text in memory until that is sent to all clients.
    pub(super) fn keep_for(mut self, text: Text) -> Arc<Counted> {
        let kept = if let Text::Memory(text) = &text { kibibytes(text.len() as u64) } else { 0 };
        self.release(self.kibibytes.saturating_sub(kept));
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

/// Returns the KiB for a document: for the original and for the rewritten one.
fn needed(document_bytes: u64) -> u32 {
    if document_bytes <= SMALL_BYTES { 0 } else { kibibytes(document_bytes.saturating_mul(2)) }
}

/// Returns the KiB for a number of bytes, at most all.
fn kibibytes(bytes: u64) -> u32 {
    u32::try_from(bytes.div_ceil(1024)).unwrap_or(u32::MAX).min(KIBIBYTES)
}

/// A text for clients.
#[derive(Debug)]
pub(super) enum Text {
    Memory(Bytes),
    /// In a file without a name.
    File {
        file: Arc<File>,
        length: u64,
        _space: SemaphorePermit<'static>,
    },
}

impl Text {
    /// Writes a large text to a file in this folder, if that is possible and there is space. Blocks.
    pub(super) fn new(text: String, folder: Option<&Path>) -> Self {
        let in_file = |folder| Self::in_file(text.as_bytes(), folder).ok().flatten();
        let folder = folder.filter(|_| text.len() as u64 > SMALL_BYTES);
        folder.and_then(in_file).unwrap_or_else(|| Self::Memory(text.into()))
    }

    fn in_file(text: &[u8], folder: &Path) -> io::Result<Option<Self>> {
        let length = text.len() as u64;
        let Ok(space) = FILES.try_acquire_many(kibibytes(length)) else { return Ok(None) };
        let mut file = tempfile::tempfile_in(folder)?;
        file.write_all(text)?;
        Ok(Some(Self::File { file: Arc::new(file), length, _space: space }))
    }
}

/// A text with its memory.
#[derive(Debug)]
pub(super) struct Counted {
    text: Text,
    _memory: Memory,
}

impl Counted {
    /// Returns the text as a body.
    pub(super) fn body(self: Arc<Self>) -> Body {
        match &self.text {
            Text::Memory(_) => Body::Bytes(Bytes::from_owner(Owner(self))),
            Text::File { file, length, .. } => {
                let file = Body::File(FileRange::append_only(file.clone(), 0, *length));
                // Its space is free after all bodies.
                Body::Stream(Box::new(Pieces::new(file, self)))
            }
        }
    }

    pub(super) fn length(&self) -> u64 {
        match &self.text {
            Text::Memory(text) => text.len() as u64,
            Text::File { length, .. } => *length,
        }
    }
}

/// One of the owners of a text in memory.
struct Owner(Arc<Counted>);

impl AsRef<[u8]> for Owner {
    fn as_ref(&self) -> &[u8] {
        match &self.0.text {
            Text::Memory(text) => text,
            Text::File { .. } => &[],
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::os::unix::fs::FileExt as _;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};
    use std::time::Instant;

    use parking_lot::Mutex;

    use rudy_service::{BodyError, BodyPiece, BodyStream};

    use super::super::document::collect;
    use super::*;

    /// The limits are those of the process.
    static ALONE: Mutex<()> = Mutex::new(());

    #[test]
    fn clients_that_do_not_read_hold_no_memory() {
        let _alone = ALONE.lock();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let length = usize::try_from(SMALL_BYTES).unwrap() + 1;
        let held: Vec<_> = ["a", "b"]
            .into_iter()
            .map(|letter| {
                let mut memory = Memory::default();
                assert!(runtime.block_on(memory.extend(u64::MAX)), "{letter}: all of it is free");
                memory.keep_for(Text::new(letter.repeat(length), Some(folder.path())))
            })
            .collect();
        assert_eq!(folder.path().read_dir().unwrap().count(), 0, "the files have no name");
        let Body::Stream(mut body) = held[1].clone().body() else { panic!("it is in a file") };
        drop(held);
        let mut content = Vec::new();
        while let Poll::Ready(Some(piece)) =
            body.poll_piece(&mut Context::from_waker(Waker::noop()), Instant::now(), 100_000)
        {
            assert_eq!(
                body.length(),
                Some((length - content.len()) as u64 - piece.as_ref().unwrap().length())
            );
            let Ok(BodyPiece::File(range)) = piece else { panic!("a piece of a file") };
            let mut bytes = vec![0; usize::try_from(range.length).unwrap()];
            range.file.read_exact_at(&mut bytes, range.start).unwrap();
            content.extend(bytes);
        }
        assert_eq!(content, "b".repeat(length).as_bytes());
    }

    #[test]
    fn a_text_without_a_folder_or_space_is_in_memory() {
        let _alone = ALONE.lock();
        let (missing, length) = (Path::new("/nonexistent"), usize::try_from(SMALL_BYTES).unwrap() + 1);
        let folder = tempfile::tempdir().unwrap();
        let is_in_memory = |length, folder| matches!(Text::new("x".repeat(length), folder), Text::Memory(_));
        assert!(is_in_memory(length, None) && is_in_memory(length, Some(missing)));
        assert!(is_in_memory(length - 1, Some(folder.path())), "a small one");
        let all = FILES.try_acquire_many(FILE_KIBIBYTES).unwrap();
        assert!(is_in_memory(length, Some(folder.path())), "no space");
        drop(all);
        assert!(!is_in_memory(length, Some(folder.path())));
    }

    /// A body without a length: four pieces of 512 KiB, each in another poll.
    struct Growing {
        pieces: u8,
        is_next: bool,
    }

    impl BodyStream for Growing {
        fn poll_piece(
            &mut self,
            cx: &mut Context<'_>,
            _now: Instant,
            _max: u64,
        ) -> Poll<Option<Result<BodyPiece, BodyError>>> {
            self.is_next = !self.is_next;
            if self.is_next {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            let Some(left) = self.pieces.checked_sub(1) else { return Poll::Ready(None) };
            self.pieces = left;
            Poll::Ready(Some(Ok(BodyPiece::Data(vec![0; 512 << 10].into()))))
        }
    }

    #[test]
    fn growing_documents_do_not_wait_for_each_other() {
        let _alone = ALONE.lock();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        let receive = || async {
            let (body, mut memory) = (Growing { pieces: 4, is_next: false }, Memory::default());
            collect(Body::Stream(Box::new(body)), 2 << 20, &mut memory).await.map(|content| content.len())
        };
        runtime.unwrap().block_on(async {
            let mut others = Memory::default();
            assert!(others.extend(254 << 20).await, "all but the memory of one document");
            let received = tokio::join!(receive(), receive());
            assert!(matches!(received, (Ok(0x20_0000), Ok(0x20_0000))), "{received:?}");
        });
    }

    #[test]
    fn large_documents_wait_until_others_are_sent_but_not_for_ever() {
        let _alone = ALONE.lock();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let (mut all, mut other) = (Memory::default(), Memory::default());
        assert!(runtime.block_on(all.extend(u64::MAX)));
        assert!(runtime.block_on(other.extend(SMALL_BYTES)), "small ones do not count");
        let paused = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        assert!(!paused.unwrap().block_on(other.extend(1 << 20)), "it gives up");
        runtime.block_on(async {
            let mut waiting = pin!(other.extend(1 << 20));
            assert!(poll_fn(|cx| Poll::Ready(waiting.as_mut().poll(cx).is_pending())).await);
            let sent = all.keep_for(Text::new("x".repeat(1 << 20), None));
            assert!(waiting.await, "the rewritten document alone uses less");
            drop(sent);
        });
    }
}

//! Bodies whose length nobody has said. CGI has an app read `CONTENT_LENGTH` bytes and no more (RFC 3875 §4.2), and many read
//! none where it is missing; so what comes in chunks is gathered first, in memory as long as it is small, then on disk.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use http_body::Body as _;
use rudy_net::RequestBody;

use super::failure::Failure;

/// Up to here a body is gathered in memory; most that come in chunks are forms and messages of a few kilobytes. Also what is
/// written to the disk, and read from there, at once.
const MEMORY_BYTES: usize = 64 * 1024;

/// Where bodies are gathered, and how much of them there may be on disk at once.
#[derive(Debug, Clone)]
pub(super) struct Spill {
    folder: PathBuf,
    most_bytes: u64,
    /// Those of all requests.
    bytes: Arc<AtomicU64>,
}

/// A request's body, on its way to the app.
#[derive(Debug)]
pub(super) enum Upload {
    /// As it comes from the client.
    Client(RequestBody),
    /// All of it is here.
    Gathered(Gathered),
}

/// A whole body: a file, and what comes after that.
#[derive(Debug, Default)]
pub(super) struct Gathered {
    file: Option<Spilled>,
    read_bytes: u64,
    memory: Bytes,
}

/// A file without a name: it is gone with whoever has it open.
#[derive(Debug)]
struct Spilled {
    file: Arc<File>,
    bytes: u64,
    /// What is counted of it.
    all: Arc<AtomicU64>,
}

impl Drop for Spilled {
    fn drop(&mut self) {
        self.all.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl Spill {
    pub(super) fn new(folder: Option<PathBuf>, most_bytes: u64) -> Self {
        Self { folder: folder.unwrap_or_else(std::env::temp_dir), most_bytes, bytes: Arc::default() }
    }

    /// Takes all of a body.
    pub(super) async fn gather(&self, mut body: RequestBody) -> Result<Gathered, Failure> {
        let mut gathered = Gathered::default();
        let mut memory = BytesMut::new();
        while let Some(piece) = body.next_piece().await {
            memory.extend_from_slice(&piece.map_err(Failure::Client)?);
            if memory.len() > MEMORY_BYTES {
                self.put_away(&mut gathered, memory.split().freeze()).await?;
            }
        }
        gathered.memory = memory.freeze();
        Ok(gathered)
    }

    /// Adds to the file of a body.
    async fn put_away(&self, gathered: &mut Gathered, bytes: Bytes) -> Result<(), Failure> {
        let spilled = match gathered.file.take() {
            Some(spilled) => spilled,
            None => self.open().await?,
        };
        gathered.file = Some(self.append(spilled, bytes).await?);
        Ok(())
    }

    async fn open(&self) -> Result<Spilled, Failure> {
        let folder = self.folder.clone();
        let file = blocking(move || tempfile::tempfile_in(folder)).await;
        let file = Arc::new(file.map_err(|error| self.failure(&error))?);
        Ok(Spilled { file, bytes: 0, all: self.bytes.clone() })
    }

    /// Writes on the pool for blocking work: a disk may take its time.
    async fn append(&self, mut spilled: Spilled, bytes: Bytes) -> Result<Spilled, Failure> {
        let length = bytes.len() as u64;
        let before = self.bytes.fetch_add(length, Ordering::Relaxed);
        spilled.bytes += length;
        if before + length > self.most_bytes {
            return Err(Failure::SpillFull(self.most_bytes));
        }
        let file = spilled.file.clone();
        let written = blocking(move || (&*file).write_all(&bytes)).await;
        written.map_err(|error| self.failure(&error))?;
        Ok(spilled)
    }

    fn failure(&self, error: &io::Error) -> Failure {
        Failure::Spill(format!("{}: {error}", self.folder.display()))
    }
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(io::Error::other).flatten()
}

impl Gathered {
    /// How long it is.
    pub(super) fn length(&self) -> u64 {
        self.file.as_ref().map_or(0, |spilled| spilled.bytes) + self.memory.len() as u64
    }

    /// The next piece. What was written a moment ago lies in the page cache, so it is read here and now.
    fn next(&mut self) -> Option<Result<Bytes, Failure>> {
        if let Some(Spilled { file, bytes, .. }) = &self.file
            && self.read_bytes < *bytes
        {
            let left = usize::try_from(*bytes - self.read_bytes).unwrap_or(usize::MAX);
            let mut piece = BytesMut::zeroed(left.min(MEMORY_BYTES));
            if let Err(error) = file.read_exact_at(&mut piece, self.read_bytes) {
                return Some(Err(Failure::Spill(error.to_string())));
            }
            self.read_bytes += piece.len() as u64;
            return Some(Ok(piece.freeze()));
        }
        self.file = None;
        let memory = std::mem::take(&mut self.memory);
        (!memory.is_empty()).then_some(Ok(memory))
    }
}

impl Upload {
    /// Nothing to send.
    pub(super) fn empty() -> Self {
        Self::Client(RequestBody::empty())
    }

    /// Whether there is nothing to send.
    pub(super) fn is_empty(&self) -> bool {
        match self {
            Self::Client(body) => body.is_end_stream(),
            Self::Gathered(gathered) => gathered.length() == 0,
        }
    }

    /// Its length, where it is known.
    pub(super) fn length(&self) -> Option<u64> {
        match self {
            Self::Client(body) => body.size_hint().exact(),
            Self::Gathered(gathered) => Some(gathered.length()),
        }
    }

    /// The next piece, `None` at the end.
    pub(super) fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Failure>>> {
        let body = match self {
            Self::Client(body) => body,
            Self::Gathered(gathered) => return Poll::Ready(gathered.next()),
        };
        loop {
            return Poll::Ready(match std::task::ready!(Pin::new(&mut *body).poll_frame(cx)) {
                None => None,
                Some(Err(error)) => Some(Err(Failure::Client(error))),
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => Some(Ok(data)),
                    // CGI has no place for trailers.
                    Err(_) => continue,
                },
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
    }

    #[test]
    fn what_is_put_away_comes_back_whole_and_makes_room_when_it_is_gone() {
        let folder = tempfile::tempdir().unwrap();
        let spill = Spill::new(Some(folder.path().to_owned()), 1_000_000);
        let pieces: Vec<_> = (0..4_u8).map(|n| Bytes::from(vec![n; 70_000])).collect();
        let mut gathered = Gathered::default();
        run(async {
            for piece in &pieces {
                spill.put_away(&mut gathered, piece.clone()).await.unwrap();
            }
        });
        gathered.memory = Bytes::from_static(b"the end");
        assert_eq!((gathered.length(), spill.bytes.load(Ordering::Relaxed)), (280_007, 280_000));
        assert_eq!(folder.path().read_dir().unwrap().count(), 0, "a file without a name");
        let whole: Vec<_> = std::iter::from_fn(|| gathered.next()).map(Result::unwrap).collect();
        assert_eq!(whole.concat(), [pieces.concat().as_slice(), b"the end"].concat());
        drop(gathered);
        assert_eq!(spill.bytes.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn there_is_an_end_to_what_is_put_away() {
        let spill = Spill::new(None, 100_000);
        let mut gathered = Gathered::default();
        let piece = Bytes::from(vec![0; 70_000]);
        run(async {
            spill.put_away(&mut gathered, piece.clone()).await.unwrap();
            let failure = spill.put_away(&mut gathered, piece.clone()).await.unwrap_err();
            assert_eq!(failure.status().as_u16(), 507);
            assert!(failure.to_string().contains("spill_bytes"), "{failure}");
        });
        assert_eq!(spill.bytes.load(Ordering::Relaxed), 0, "what was refused takes no room");
    }

    #[test]
    fn a_folder_that_is_not_there_is_named() {
        let spill = Spill::new(Some("/nowhere".into()), 100_000);
        let failure = run(spill.put_away(&mut Gathered::default(), Bytes::from_static(b"x"))).unwrap_err();
        assert!(failure.to_string().contains("/nowhere: No such file"), "{failure}");
    }
}

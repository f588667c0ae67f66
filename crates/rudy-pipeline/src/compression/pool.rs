//! Where compression runs, and the rewriting of large documents: on the thread pool for blocking work, a few pieces at a time.

use std::io;

use tokio::sync::Semaphore;

/// Maximum number of pieces that the process works on at a time. Others wait in order, because more threads would only compete for
/// the cores. A client that reads slowly holds no permit while it reads a piece.
pub const PIECES_MAX: usize = 16;

static PIECES: Semaphore = Semaphore::const_new(PIECES_MAX);

/// Waits for a permit, and holds it while `work` runs on the thread pool.
pub async fn run<T: Send + 'static>(work: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
    let permit = PIECES.acquire().await.map_err(io::Error::other)?;
    let work = move || {
        let _permit = permit;
        work()
    };
    rudy_runtime::blocking(work).await.map_err(io::Error::other)?
}

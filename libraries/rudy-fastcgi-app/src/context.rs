//! Extensions of a request: parameters, role, log and abort signal.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::BytesMut;
use rudy_fastcgi::Role;
use rudy_fastcgi::pairs::Params;
use tokio::sync::{Notify, watch};

use crate::Body;

/// The FastCGI properties of a request.
pub trait RequestExt {
    /// Returns all parameters, including those without an HTTP equivalent such as `REMOTE_ADDR`.
    fn params(&self) -> &Params;

    /// Returns a parameter as text, or `None` if it is missing or not UTF-8.
    fn param(&self, name: &str) -> Option<&str>;

    /// Returns the role of the app. Always [`Role::Responder`], unless other roles were enabled with
    /// [`Server::role`](crate::Server::role).
    fn role(&self) -> Role;

    /// Takes the file to filter (section 6.4). Returns `None` in other roles, and if it was already taken.
    fn take_data(&mut self) -> Option<Body>;

    /// Returns a signal that is set when the web server cancels the request or closes the connection.
    fn abort_signal(&self) -> AbortSignal;

    /// Returns a writer to the web server's log.
    fn log(&self) -> Log;
}

/// A signal that the web server has cancelled a request or closed the connection. The handler itself is dropped at its next
/// `await`; use the signal for work that the handler started elsewhere, and for code that does not await.
#[derive(Debug, Clone)]
pub struct AbortSignal {
    signal: watch::Receiver<bool>,
}

/// A writer to the web server's log (`FCGI_STDERR`). The output is sent while the handler waits.
///
/// Writing never blocks and never fails. At most [`Log::BYTES_MAX`] bytes are buffered. Beyond that output is dropped, and
/// the log notes the number of bytes.
#[derive(Debug, Clone, Default)]
pub struct Log {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    waiting: Mutex<Waiting>,
    has_output: Notify,
}

#[derive(Debug, Default)]
struct Waiting {
    bytes: BytesMut,
    dropped: usize,
}

/// The extension that holds the FastCGI properties of a request.
#[derive(Clone)]
pub(super) struct Context {
    pub(super) params: Params,
    pub(super) role: Role,
    pub(super) aborted: AbortSignal,
    pub(super) log: Log,
    /// Behind a mutex, because extensions must be `Clone` and a stream is not.
    pub(super) data: Arc<Mutex<Option<Body>>>,
}

impl AbortSignal {
    pub(super) fn new(signal: watch::Receiver<bool>) -> Self {
        Self { signal }
    }

    /// Whether the request was cancelled.
    #[must_use]
    pub fn is_set(&self) -> bool {
        *self.signal.borrow()
    }

    /// Waits until the request is cancelled. Never returns if the request ends otherwise.
    pub async fn wait(&mut self) {
        if self.signal.wait_for(|is_set| *is_set).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

impl Log {
    /// Maximum number of buffered bytes.
    pub const BYTES_MAX: usize = 64 * 1024;

    /// Takes the buffered output.
    pub(super) fn take(&self) -> BytesMut {
        let mut waiting = self.shared.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let mut bytes = std::mem::take(&mut waiting.bytes);
        if waiting.dropped > 0 {
            bytes.extend_from_slice(format!("\n({} bytes dropped)\n", waiting.dropped).as_bytes());
            waiting.dropped = 0;
        }
        bytes
    }

    /// Waits until there is buffered output.
    pub(super) async fn wait_for_output(&self) {
        self.shared.has_output.notified().await;
    }
}

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut waiting = self.shared.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let fit = bytes.len().min(Self::BYTES_MAX - waiting.bytes.len().min(Self::BYTES_MAX));
        waiting.bytes.extend_from_slice(&bytes[..fit]);
        waiting.dropped += bytes.len() - fit;
        drop(waiting);
        self.shared.has_output.notify_one();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl RequestExt for http::Request<Body> {
    fn params(&self) -> &Params {
        &context(self).params
    }

    fn param(&self, name: &str) -> Option<&str> {
        self.params().get(name).and_then(|value| std::str::from_utf8(value).ok())
    }

    fn role(&self) -> Role {
        context(self).role
    }

    fn take_data(&mut self) -> Option<Body> {
        context(self).data.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn abort_signal(&self) -> AbortSignal {
        context(self).aborted.clone()
    }

    fn log(&self) -> Log {
        context(self).log.clone()
    }
}

/// # Panics
///
/// If the request does not come from this library, or its extensions were removed.
fn context(request: &http::Request<Body>) -> &Context {
    request.extensions().get::<Context>().expect("the library adds the context to each request")
}

//! What a handler has of a request beside what HTTP has: its parameters, its role, its end of the log, its abort.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::BytesMut;
use rudy_fastcgi::Role;
use rudy_fastcgi::pairs::Params;
use tokio::sync::{Notify, watch};

use crate::Body;

/// What a handler can ask a request of `FastCGI`.
pub trait RequestExt {
    /// All parameters as they came: what is not in the request itself, such as `REMOTE_ADDR`, and what is.
    fn params(&self) -> &Params;

    /// A parameter as text; `None` if it is not there or no UTF-8.
    fn param(&self, name: &str) -> Option<&str>;

    /// What the app is asked to be. Always [`Role::Responder`], unless the server was told of other roles
    /// ([`Server::role`](crate::Server::role)).
    fn role(&self) -> Role;

    /// The file that a filter is to filter (section 6.4). `None` in the other roles, and the second time.
    fn take_data(&mut self) -> Option<Body>;

    /// Tells whether the web server has given the request up, or has gone.
    fn abort_signal(&self) -> AbortSignal;

    /// Where to write what belongs into the web server's log.
    fn log(&self) -> Log;
}

/// Whether the web server has given a request up, or has gone. Its handler is dropped then where it waits; this is for what
/// the handler has started elsewhere, and for what does not wait.
#[derive(Debug, Clone)]
pub struct AbortSignal {
    signal: watch::Receiver<bool>,
}

/// Where to write what belongs into the web server's log (`FCGI_STDERR`). It is sent while the handler waits.
///
/// Writing never waits and never fails. What has not been sent is [`Log::BYTES_MAX`] at most; more is left out, and the log
/// says so.
#[derive(Debug, Clone, Default)]
pub struct Log {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    waiting: Mutex<Waiting>,
    news: Notify,
}

#[derive(Debug, Default)]
struct Waiting {
    bytes: BytesMut,
    left_out: usize,
}

/// What stands among a request's extensions.
#[derive(Clone)]
pub(super) struct Context {
    pub(super) params: Params,
    pub(super) role: Role,
    pub(super) aborted: AbortSignal,
    pub(super) log: Log,
    /// Extensions are cloned with their request, and a stream cannot be.
    pub(super) data: Arc<Mutex<Option<Body>>>,
}

impl AbortSignal {
    pub(super) fn new(signal: watch::Receiver<bool>) -> Self {
        Self { signal }
    }

    /// Whether it has been.
    #[must_use]
    pub fn is_set(&self) -> bool {
        *self.signal.borrow()
    }

    /// Waits until it is; for ever, if the request ends otherwise.
    pub async fn wait(&mut self) {
        if self.signal.wait_for(|is_set| *is_set).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

impl Log {
    /// Bytes that wait to be sent at most.
    pub const BYTES_MAX: usize = 64 * 1024;

    /// Takes what waits to be sent.
    pub(super) fn take(&self) -> BytesMut {
        let mut waiting = self.shared.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let mut bytes = std::mem::take(&mut waiting.bytes);
        if waiting.left_out > 0 {
            bytes.extend_from_slice(format!("\n({} bytes left out)\n", waiting.left_out).as_bytes());
            waiting.left_out = 0;
        }
        bytes
    }

    /// Waits until something waits to be sent.
    pub(super) async fn news(&self) {
        self.shared.news.notified().await;
    }
}

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut waiting = self.shared.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let fit = bytes.len().min(Self::BYTES_MAX - waiting.bytes.len().min(Self::BYTES_MAX));
        waiting.bytes.extend_from_slice(&bytes[..fit]);
        waiting.left_out += bytes.len() - fit;
        drop(waiting);
        self.shared.news.notify_one();
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
/// If the request is none of ours, or somebody has emptied its extensions.
fn context(request: &http::Request<Body>) -> &Context {
    request.extensions().get::<Context>().expect("each request of this responder has it among its extensions")
}

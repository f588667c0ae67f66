//! Where an app listens, and the connection to it.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use rudy_net::transport::Transport;
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};
use serde::{Deserialize, Serialize};
use tokio::io::ReadBuf;
use tokio::net::{TcpStream, UnixStream};
use tokio::runtime::{self, Handle};

use crate::config::written_as_text;

/// The address of an app: `unix:/run/php/php-fpm.sock`, `127.0.0.1:9000` or `[::1]:9000`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Upstream {
    /// An IP address and a port.
    Ip(SocketAddr),
    /// A Unix socket.
    Unix(PathBuf),
}

impl FromStr for Upstream {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(path) = text.strip_prefix("unix:").filter(|path| !path.is_empty()) {
            return Ok(Self::Unix(path.into()));
        }
        let expected = "expected a socket, as in \"unix:/run/php/php-fpm.sock\", or an IP address and a port, as in \
                        \"127.0.0.1:9000\"";
        text.parse().map(Self::Ip).map_err(|_| expected.to_owned())
    }
}

written_as_text!(Upstream, "rudy-upstream",
    { "type": "string", "examples": ["unix:/run/php/php-fpm.sock", "127.0.0.1:9000", "[::1]:9000"] });

impl fmt::Display for Upstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ip(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// Where a socket is watched: by one of the runtimes, of which the engines have one for each core or one for all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Home(Option<runtime::Id>);

impl Home {
    /// Where whoever asks is run.
    pub(super) fn here() -> Self {
        Self(Handle::try_current().ok().map(|handle| handle.id()))
    }
}

/// A connection to an app. A [`Home`] watches it, whichever core uses it.
#[derive(Debug)]
pub(super) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// The first pause before a Unix socket is tried again whose queue is full, and the longest: each is twice the one before it.
/// TCP waits in the kernel; a Unix socket says no at once, and has nothing that says when to come back.
const RETRY_PAUSE: Duration = Duration::from_millis(1);
const RETRY_PAUSE_MAX: Duration = Duration::from_millis(64);

impl Stream {
    /// Connects. Where the app accepts nobody for now, and its queue is full, this waits for ever: the time is the caller's to
    /// bound.
    pub(super) async fn connect(upstream: &Upstream) -> io::Result<Self> {
        match upstream {
            Upstream::Ip(address) => {
                let stream = TcpStream::connect(address).await?;
                // Records are written whole; whatever waits for more of them waits in vain.
                stream.set_nodelay(true)?;
                Ok(Self::Tcp(stream))
            }
            Upstream::Unix(path) => connect_unix(path).await.map(Self::Unix),
        }
    }

    /// Has it watched here from now on. For a moment it has two descriptors: a runtime lets go of a socket only with its own.
    pub(super) fn move_here(&mut self) -> io::Result<()> {
        *self = match self {
            Self::Tcp(stream) => Self::Tcp(TcpStream::from_std(stream.as_fd().try_clone_to_owned()?.into())?),
            Self::Unix(stream) => {
                Self::Unix(UnixStream::from_std(stream.as_fd().try_clone_to_owned()?.into())?)
            }
        };
        Ok(())
    }

    /// Reads; 0 is the end.
    pub(super) fn poll_read(&mut self, cx: &mut Context<'_>, room: &mut [u8]) -> Poll<io::Result<usize>> {
        let mut buffer = ReadBuf::new(room);
        let read = match self {
            Self::Tcp(stream) => stream.poll_read_request(cx, &mut buffer, None, false),
            Self::Unix(stream) => stream.poll_read_request(cx, &mut buffer, None, false),
        };
        read.map_ok(|()| buffer.filled().len())
    }

    /// Writes as much as there is room for.
    pub(super) fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self {
            Self::Tcp(stream) => stream.poll_send(cx, bytes),
            Self::Unix(stream) => stream.poll_send(cx, bytes),
        }
    }

    /// As [`Self::is_quiet`], and the kernel is asked in any case: what has just happened the runtime may not know.
    pub(super) fn is_surely_quiet(&mut self) -> bool {
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        let peeked = match self {
            Self::Tcp(stream) => recv(&*stream, &mut [0], flags),
            Self::Unix(stream) => recv(&*stream, &mut [0], flags),
        };
        matches!(peeked, Err(Errno::AGAIN)) && self.is_quiet()
    }

    /// Whether nothing has happened on a connection on which nothing is to happen: the app has neither closed it nor said
    /// anything. Asks the runtime, which has been told, and the kernel only where it has.
    pub(super) fn is_quiet(&mut self) -> bool {
        let cx = &mut Context::from_waker(Waker::noop());
        self.poll_read(cx, &mut [0]).is_pending()
    }
}

/// connect(2): `EAGAIN` is a Unix socket whose queue is full.
async fn connect_unix(path: &Path) -> io::Result<UnixStream> {
    let mut pause = RETRY_PAUSE;
    loop {
        match UnixStream::connect(path).await {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => tokio::time::sleep(pause).await,
            connected => return connected,
        }
        pause = (pause * 2).min(RETRY_PAUSE_MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_read_as_it_is_written() {
        for text in ["unix:/run/php/php-fpm.sock", "127.0.0.1:9000", "[::1]:9000"] {
            assert_eq!(text.parse::<Upstream>().unwrap().to_string(), text);
        }
        for text in ["", "unix:", "localhost", "/run/app.sock", "127.0.0.1", "127.0.0.1:99999"] {
            assert!(text.parse::<Upstream>().unwrap_err().contains("unix:/run"), "{text}");
        }
    }
}

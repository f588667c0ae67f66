//! The server's side of the admin socket: see [`rudy_admin`].
//!
//! Each application that Rudy starts has a socket with the same protocol, which accepts purges of the cache only.

use std::fmt;
use std::fs;
use std::io;
use std::os::unix::fs::chown;
use std::path::Path;
use std::process;
use std::sync::Arc;
use std::time::Duration;

use rudy_admin::{REQUEST_BYTES_MAX, Request, Response, default_folder, socket_file_name};
use rudy_runtime::blocking;
use rudy_socket::file::SocketFile;
use rustix::net::sockopt::socket_peercred;
use rustix::process::geteuid;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::runtime::Runtime;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::user::User;

/// The maximum number of connections. Further ones wait.
const CONNECTIONS_MAX: usize = 16;

/// The maximum number of connections that wait: more than the requests that an application usually handles at once.
const BACKLOG: i32 = 512;

/// The maximum time that a client may take to send a request or to read a response.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The pause after an error, such as no free descriptors.
const PAUSE: Duration = Duration::from_millis(100);

/// The maximum number of stale sockets, of processes that were killed, to remove at a start.
const STALE_MAX: usize = 100;

/// Responds to requests.
#[derive(Clone)]
pub struct Responder(Arc<dyn Fn(Request) -> Response + Send + Sync>);

impl Responder {
    /// Responds with this function.
    pub fn new(respond: impl Fn(Request) -> Response + Send + Sync + 'static) -> Self {
        Self(Arc::new(respond))
    }

    /// Rejects all requests but purges.
    fn purges_only(self) -> Self {
        Self::new(move |request| match request {
            Request::CachePurge(_) => (self.0)(request),
            _ => Response::Error("this socket is for purges only: send the command `cache_purge`".to_owned()),
        })
    }
}

impl fmt::Debug for Responder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Responder")
    }
}

/// An open admin socket. Dropping it closes the socket and removes its file.
#[derive(Debug)]
pub struct AdminSocket {
    file: SocketFile,
    accepting: JoinHandle<()>,
}

impl AdminSocket {
    /// Opens the socket at `path`, or in the default folder. `replaces` is the process that this one replaces: its socket is taken
    /// over, but no other file and no socket of another process.
    /// `None` if there is no default folder that can be used.
    ///
    /// # Errors
    ///
    /// `path` is in use, or cannot be written.
    pub fn open(
        path: Option<&Path>,
        replaces: Option<u32>,
        runtime: &Runtime,
        responder: Responder,
    ) -> io::Result<Option<Self>> {
        let Some(path) = path else {
            let Some(folder) = default_folder() else { return Ok(None) };
            remove_stale(&folder);
            return Ok(Self::open_at(
                &folder.join(socket_file_name(process::id())),
                None,
                runtime,
                responder,
            )
            .ok());
        };
        if replaces.is_some_and(|pid| listens(pid, path)) {
            fs::remove_file(path)?;
        }
        Self::open_at(path, None, runtime, responder).map(Some)
    }

    /// Opens a socket on which an application that Rudy starts may purge. `user` is that of its processes, if it is another one.
    ///
    /// # Errors
    ///
    /// `path` cannot be written, or the system does not allow this process to give the file to the user.
    pub fn open_for_app(
        path: &Path,
        user: Option<&User>,
        runtime: &Runtime,
        responder: Responder,
    ) -> io::Result<Self> {
        Self::open_at(path, user, runtime, responder.purges_only())
    }

    /// Whether clients still find the socket: a process that replaces this one takes over the path.
    #[must_use]
    pub fn is_in_place(&self) -> bool {
        self.file.is_in_place()
    }

    fn open_at(
        path: &Path,
        user: Option<&User>,
        runtime: &Runtime,
        responder: Responder,
    ) -> io::Result<Self> {
        let (listener, file) = rudy_socket::file::bind(path, Some(0o600), BACKLOG)?;
        let owner = user.map_or_else(geteuid, |user| user.uid).as_raw();
        if user.is_some() {
            chown(path, Some(owner), None)?;
        }
        let _entered = runtime.enter();
        let listener = UnixListener::from_std(listener)?;
        Ok(Self { file, accepting: runtime.spawn(accept(listener, owner, responder)) })
    }
}

impl Drop for AdminSocket {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// Whether this process listens on the socket. The kernel records the process at `listen`.
fn listens(pid: u32, path: &Path) -> bool {
    let listener = rudy_socket::file::connect(path).ok().and_then(|stream| socket_peercred(&stream).ok());
    listener.is_some_and(|listener| u32::try_from(listener.pid.as_raw_pid()) == Ok(pid))
}

/// Removes the sockets of processes that no longer exist.
fn remove_stale(folder: &Path) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    let sockets = entries.flatten().map(|entry| entry.path());
    let sockets = sockets.filter(|path| path.extension().is_some_and(|end| end == "sock")).take(STALE_MAX);
    for path in sockets {
        // A file that stays does no harm.
        let _ = rudy_socket::file::remove_stale(&path);
    }
}

async fn accept(listener: UnixListener, owner: u32, responder: Responder) {
    let open = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    while let Ok(permit) = open.clone().acquire_owned().await {
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        let responder = responder.clone();
        tokio::spawn(async move {
            // A client that is gone or slow needs no response.
            let _ = serve(stream, owner, responder).await;
            drop(permit);
        });
    }
}

async fn serve(mut stream: UnixStream, owner: u32, responder: Responder) -> io::Result<()> {
    let peer = stream.peer_cred()?.uid();
    let (input, mut output) = stream.split();
    let mut input = BufReader::new(input);
    loop {
        let mut line = Vec::new();
        let mut limited = (&mut input).take(REQUEST_BYTES_MAX);
        timeout(TIMEOUT, limited.read_until(b'\n', &mut line)).await??;
        if line.is_empty() {
            return Ok(());
        }
        let is_whole = line.ends_with(b"\n");
        let response = if peer != 0 && peer != owner {
            let user = if owner == geteuid().as_raw() { "server" } else { "application" };
            Response::Error(format!("only root and the user of the {user} may ask"))
        } else if !is_whole {
            Response::Error(format!("a request is a line of at most {REQUEST_BYTES_MAX} bytes"))
        } else {
            match serde_json::from_slice(&line) {
                Ok(request) => {
                    // Some requests read folders.
                    let responder = responder.clone();
                    blocking(move || (responder.0)(request)).await.map_err(io::Error::other)?
                }
                Err(error) => Response::Error(format!("unknown request: {error}")),
            }
        };
        let mut text = serde_json::to_vec(&response)?;
        text.push(b'\n');
        timeout(TIMEOUT, output.write_all(&text)).await??;
        if !is_whole {
            return Ok(());
        }
    }
}

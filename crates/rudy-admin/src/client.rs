//! The side of the commands that ask a running server.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::geteuid;

use crate::path::{safe_folders, socket_file_name};
use crate::process;
use crate::protocol::{PurgeRequest, Request, Response};

/// The maximum time for a response.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The maximum length of a response.
const RESPONSE_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// The running server that a command is about.
#[derive(Debug, Clone, Default)]
pub struct RunningServer {
    /// The admin socket; the default is that of the process.
    pub socket: Option<PathBuf>,
    /// The process id; the default is the only `rudy serve` of this user.
    pub pid: Option<u32>,
}

/// Sends a request to a server.
///
/// # Errors
///
/// A sentence about what to do.
pub fn ask(server: &RunningServer, request: &Request) -> Result<Response, String> {
    let path = match &server.socket {
        Some(path) => path.clone(),
        None => find(process::server_below_init(server.pid.map_or_else(process::find, Ok)?))?,
    };
    let cannot = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
            format!("no server listens on {}", path.display())
        }
        io::ErrorKind::PermissionDenied => {
            format!("no permission for {}: ask as root or as the user of the server", path.display())
        }
        io::ErrorKind::WouldBlock => {
            format!("the server at {} does not respond: it hangs or is overloaded", path.display())
        }
        _ => format!("cannot ask {}: {error}", path.display()),
    };
    let line = exchange(&path, request).map_err(cannot)?;
    match serde_json::from_slice(&line) {
        Ok(Response::Error(why)) => Err(format!("the server rejected the request: {why}")),
        Ok(response) => Ok(response),
        Err(_) => Err(format!(
            "{} did not respond as an admin socket of this version of Rudy; upgrade the server with \
             `rudy reload --binary`",
            path.display()
        )),
    }
}

/// Returns the socket of a process.
fn find(pid: u32) -> Result<PathBuf, String> {
    let uid = process::user(pid).ok_or_else(|| format!("there is no process {pid}"))?;
    let user = geteuid();
    if !user.is_root() && user.as_raw() != uid {
        return Err(format!("no permission for process {pid}: ask as root or as the user of the server"));
    }
    let found = safe_folders(uid).map(|folder| folder.join(socket_file_name(pid))).find(|path| path.exists());
    found.ok_or_else(|| {
        format!(
            "process {pid} has no admin socket at its default path; if its configuration has `admin_socket`, name it \
             with --socket PATH"
        )
    })
}

fn exchange(path: &Path, request: &Request) -> io::Result<Vec<u8>> {
    let mut stream = rudy_socket::file::connect(path)?;
    // All files of a cache are read before such a response.
    let is_long = matches!(request, Request::CachePurge(PurgeRequest { wait: true, .. }));
    stream.set_read_timeout(Some(TIMEOUT).filter(|_| !is_long))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    let mut text = serde_json::to_vec(request)?;
    text.push(b'\n');
    stream.write_all(&text)?;
    let mut line = Vec::new();
    BufReader::new(stream).take(RESPONSE_BYTES_MAX).read_until(b'\n', &mut line)?;
    Ok(line)
}

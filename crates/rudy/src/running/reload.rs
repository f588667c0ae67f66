//! `rudy reload`: makes a running server reload its configuration or replace its process, and prints the result.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixListener;

use rudy_admin::process::{find, handles_signal, is_reachable, server_below_init, user};
use rudy_admin::{OUTCOME_BYTES_MAX, default_folder, outcome_address, outcome_file_name, safe_folders};
use rudy_server::run::Exit;
use rudy_socket::file::{BindError, SocketFile};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::sockopt::socket_peercred;
use rustix::net::{
    AddressFamily, RecvFlags, SocketFlags, SocketType, UCred, accept_with, bind, connect, listen, recv,
    socket_with,
};
use rustix::process::{Pid, PidfdFlags, Signal, geteuid, pidfd_open, pidfd_send_signal};

use super::print_result;

/// The time to wait for the result after the signalled process has ended, because its successor may report it.
const END_TIMEOUT: Timespec = Timespec { tv_sec: 5, tv_nsec: 0 };

/// The options of `rudy reload`.
#[derive(Debug, Clone)]
pub(crate) struct Options {
    /// The process id; the default is the only `rudy serve` of this user.
    pub(crate) pid: Option<u32>,
    /// Whether to replace the process (upgrade) instead of reloading.
    pub(crate) binary: bool,
}

/// Signals the server and waits for the result.
#[must_use]
pub(crate) fn run(options: &Options) -> Exit {
    print_result(reload(options).flatten().map(|text| text + "\n"))
}

/// Returns the result that the server reports, or an error.
fn reload(options: &Options) -> Result<Result<String, String>, String> {
    let (signal, name) = if options.binary { (Signal::USR2, "SIGUSR2") } else { (Signal::HUP, "SIGHUP") };
    let pid = server_below_init(options.pid.map_or_else(find, Ok)?);
    let cannot = |error: Errno| match error {
        Errno::SRCH => format!("there is no process {pid}"),
        Errno::PERM => format!("no permission to signal process {pid}: it runs as another user"),
        error => format!("cannot signal process {pid}: {error}"),
    };
    let id = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or_else(|| cannot(Errno::SRCH))?;
    // The pidfd ensures that the following checks and the signal are for the same process.
    let process = pidfd_open(id, PidfdFlags::empty()).map_err(cannot)?;
    let user = user(pid).ok_or_else(|| cannot(Errno::SRCH))?;
    if !handles_signal(pid, signal) {
        return Err(format!(
            "process {pid} does not handle {name}: it is not `rudy serve`, or is still starting"
        ));
    }
    let outcome = if is_reachable(pid) { Some(Outcome::listen(pid, user)?) } else { None };
    pidfd_send_signal(&process, signal).map_err(cannot)?;
    match outcome {
        Some(outcome) => outcome
            .wait(&process, user, name)
            .ok_or_else(|| format!("process {pid} has ended without reporting the result; see its log")),
        None => Ok(Ok(format!(
            "{name} was sent to process {pid}, which is in a container: the result is in its log"
        ))),
    }
}

/// The sockets on which the server reports the result.
struct Outcome {
    /// In the folder of the user's admin sockets, if there is one. The file is removed before its listener is closed.
    in_folder: Option<(SocketFile, UnixListener)>,
    /// In the abstract namespace, unless another user has taken the name.
    by_name: Option<OwnedFd>,
}

impl Outcome {
    /// Listens for the result of a process of `user`.
    fn listen(pid: u32, user: u32) -> Result<Self, String> {
        let is_waiting = || format!("another `rudy reload` is waiting for process {pid}; try again later");
        let in_folder = match Self::in_folder(pid, user) {
            Err(BindError::InUse) => return Err(is_waiting()),
            // Without the file, the name is enough.
            result => result.ok().flatten(),
        };
        let by_name = Self::by_name(pid);
        let is_taken = by_name.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::AddrInUse);
        match (by_name, is_taken.then(|| holder(pid)).flatten(), in_folder) {
            (_, Some(other), _) if other.uid.is_root() || other.uid.as_raw() == user => Err(is_waiting()),
            (Err(_), Some(other), None) => Err(format!(
                "process {} of user {} has taken the name on which process {pid} reports the result; end that process, or \
                 send the signal with `kill` and read the log of the server",
                other.pid.as_raw_pid(),
                other.uid.as_raw()
            )),
            (Err(error), None, None) => Err(format!("cannot listen for the result: {error}")),
            (by_name, _, in_folder) => Ok(Self { in_folder, by_name: by_name.ok() }),
        }
    }

    fn in_folder(pid: u32, user: u32) -> Result<Option<(SocketFile, UnixListener)>, BindError> {
        let own = (geteuid().as_raw() == user).then(default_folder).flatten();
        let Some(folder) = own.or_else(|| safe_folders(user).next()) else { return Ok(None) };
        // The user of the server connects to a socket of root. Who connects is checked.
        let (listener, file) = rudy_socket::file::bind(&folder.join(outcome_file_name(pid)), Some(0o666), 4)?;
        Ok(Some((file, listener)))
    }

    fn by_name(pid: u32) -> io::Result<OwnedFd> {
        let socket = new_socket()?;
        bind(&socket, &outcome_address(pid)?)?;
        listen(&socket, 4)?;
        Ok(socket)
    }

    /// Waits for the result; `None` if the server ends without one. Any user can connect, so only `user` and root are accepted.
    fn wait(&self, process: &OwnedFd, user: u32, signal: &str) -> Option<Result<String, String>> {
        let in_folder = self.in_folder.as_ref().map(|(_, listener)| listener.as_fd());
        let sockets: Vec<_> = self.by_name.as_ref().map(AsFd::as_fd).into_iter().chain(in_folder).collect();
        let mut has_ended = false;
        loop {
            let watched = sockets.iter().copied().chain((!has_ended).then(|| process.as_fd()));
            let mut ready: Vec<_> =
                watched.map(|descriptor| PollFd::from_borrowed_fd(descriptor, PollFlags::IN)).collect();
            match poll(&mut ready, has_ended.then_some(&END_TIMEOUT)) {
                Ok(0) => return None,
                Ok(_) | Err(Errno::INTR) => {}
                Err(_) => return None,
            }
            let is_ready: Vec<_> = ready.iter().map(|polled| !polled.revents().is_empty()).collect();
            has_ended = has_ended || is_ready.get(sockets.len()) == Some(&true);
            let mut accepted = sockets.iter().zip(is_ready).filter(|(_, is_ready)| *is_ready);
            if let Some(outcome) = accepted.find_map(|(socket, _)| accept(*socket, user, signal)) {
                return Some(outcome);
            }
        }
    }
}

fn new_socket() -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?)
}

/// The process that listens on the abstract name. (Sockets of other types have names of their own.)
fn holder(pid: u32) -> Option<UCred> {
    let socket = new_socket().ok()?;
    connect(&socket, &outcome_address(pid).ok()?).ok()?;
    socket_peercred(&socket).ok()
}

/// Receives the result of a signal from a process of `user` or root. Others may have sent other signals.
fn accept(listener: BorrowedFd<'_>, user: u32, signal: &str) -> Option<Result<String, String>> {
    let socket = accept_with(listener, SocketFlags::CLOEXEC).ok()?;
    let peer = socket_peercred(&socket).ok()?.uid;
    if !peer.is_root() && peer.as_raw() != user {
        return None;
    }
    // This does not wait for long: the server sends right after connecting. A message arrives as a whole, a stream in parts.
    let mut bytes = Vec::new();
    let mut buffer = vec![0; OUTCOME_BYTES_MAX];
    while let Ok((_, count @ 1..)) = recv(&socket, &mut buffer[..], RecvFlags::empty()) {
        bytes.extend_from_slice(&buffer[..count]);
        if bytes.len() >= OUTCOME_BYTES_MAX {
            break;
        }
    }
    let text = String::from_utf8_lossy(&bytes).into_owned();
    match text.strip_prefix(signal)?.split_at_checked(1)? {
        ("+", text) => Some(Ok(text.to_owned())),
        ("-", text) => Some(Err(text.to_owned())),
        _ => None,
    }
}

//! Sockets that a service manager has bound for us: systemd's socket activation, `sd_listen_fds(3)`.

use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::io::FdFlags;
use socket2::{Domain, Socket as RawSocket, Type};

use super::{ListenError, Socket};

/// The first descriptor that is passed: `SD_LISTEN_FDS_START`.
const FIRST_DESCRIPTOR: RawFd = 3;

/// Sockets passed by a service manager, kept so that a reload can let go of them and take them up again.
#[derive(Debug, Default)]
pub struct Inherited {
    sockets: Vec<(String, RawSocket)>,
}

impl Inherited {
    /// Takes over what the environment variables `LISTEN_PID`, `LISTEN_FDS` and `LISTEN_FDNAMES` announce: nothing
    /// where they are missing or meant for another process. Gives sockets on the first call in a process only.
    pub fn take(pid: Option<&str>, count: Option<&str>, names: Option<&str>) -> Result<Self, ListenError> {
        static TAKEN: AtomicBool = AtomicBool::new(false);
        let (Some(pid), Some(count)) = (pid, count) else { return Ok(Self::default()) };
        if pid != std::process::id().to_string() {
            return Ok(Self::default());
        }
        let count: u16 = count.parse().map_err(|_| {
            problem(format!("LISTEN_FDS should be a number and is `{}`", count.escape_debug()))
        })?;
        if TAKEN.swap(true, Ordering::AcqRel) {
            return Ok(Self::default());
        }
        let mut names = names.unwrap_or_default().split(':');
        let mut sockets = Vec::new();
        for descriptor in (FIRST_DESCRIPTOR..).take(count.into()) {
            // sd_listen_fds_with_names(3): a descriptor without a name is called "unknown".
            let name = names.next().filter(|name| !name.is_empty()).unwrap_or("unknown").to_owned();
            sockets.push((name, take_descriptor(descriptor)?));
        }
        Ok(Self { sockets })
    }

    /// Whether nothing was passed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.sockets.is_empty()
    }

    /// Copies of the sockets of this name, or of all. None is an error.
    pub(super) fn find(&self, name: Option<&str>) -> Result<Vec<Socket>, ListenError> {
        let wanted = self.sockets.iter().filter(|(own, _)| name.is_none_or(|name| name == own));
        let sockets = wanted.map(|(name, socket)| listening(name, socket)).collect::<Result<Vec<_>, _>>()?;
        if sockets.is_empty() {
            return Err(problem(self.what_was_passed(name)));
        }
        Ok(sockets)
    }

    fn what_was_passed(&self, name: Option<&str>) -> String {
        if self.sockets.is_empty() {
            return "none was passed (LISTEN_FDS and LISTEN_PID are not set for this process)".to_owned();
        }
        let names: Vec<_> =
            self.sockets.iter().map(|(name, _)| format!("`{}`", name.escape_debug())).collect();
        format!("none is called `{}`; passed were {}", name.unwrap_or_default(), names.join(", "))
    }
}

#[expect(unsafe_code, reason = "a descriptor that is inherited is known by its number alone")]
fn take_descriptor(descriptor: RawFd) -> Result<RawSocket, ListenError> {
    let closed = || problem(format!("descriptor {descriptor} was announced and is not open"));
    if !std::fs::exists(format!("/proc/self/fd/{descriptor}")).unwrap_or(false) {
        return Err(closed());
    }
    // SAFETY: it is open, as was just seen, and ours alone: LISTEN_PID says that these descriptors were passed to this
    // process, nothing in it opened them, and `take` gets here once in a process's life.
    let descriptor = unsafe { OwnedFd::from_raw_fd(descriptor) };
    rustix::io::fcntl_setfd(&descriptor, FdFlags::CLOEXEC).map_err(|_| closed())?;
    Ok(RawSocket::from(descriptor))
}

/// A copy to accept from, if this is a socket that can be accepted from.
fn listening(name: &str, socket: &RawSocket) -> Result<Socket, ListenError> {
    let name = name.escape_debug();
    let refused = |error| problem(format!("`{name}` cannot be used: {error}"));
    if !matches!(socket.r#type(), Ok(Type::STREAM)) || !matches!(socket.is_listener(), Ok(true)) {
        return Err(problem(format!(
            "`{name}` is not a listening stream socket; the socket unit wants ListenStream= and Accept=no"
        )));
    }
    let copy = socket.try_clone().map_err(refused)?;
    copy.set_nonblocking(true).map_err(refused)?;
    match copy.domain().map_err(refused)? {
        Domain::UNIX => Ok(Socket::Unix(copy.into())),
        Domain::IPV4 | Domain::IPV6 => {
            copy.set_tcp_nodelay(true).map_err(refused)?;
            Ok(Socket::Tcp(copy.into()))
        }
        other => Err(problem(format!(
            "`{name}` is of the address family {other:?}; TCP and Unix sockets are served"
        ))),
    }
}

fn problem(problem: String) -> ListenError {
    ListenError::Inherited { problem }
}

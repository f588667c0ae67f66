//! Sockets that another process has bound for us: a service manager (systemd's socket activation, `sd_listen_fds(3)`), or the
//! server that this process replaces.

use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::io::FdFlags;
use socket2::{Domain, Socket as RawSocket, Type};

use super::{Address, BoundAddress, Endpoint, ListenError, Listener, Socket};

/// The first descriptor that is passed: `SD_LISTEN_FDS_START`.
const FIRST_DESCRIPTOR: RawFd = 3;

/// Sockets that this process was started with.
#[derive(Debug, Default)]
pub struct InheritedSockets {
    /// The service manager's, kept so that a reload can let go of them and take them up again.
    sockets: Vec<(String, RawSocket)>,
    /// Those of the server that this process replaces. A reload binds an address itself.
    listeners: Mutex<Vec<Listener>>,
}

impl InheritedSockets {
    /// Takes over what the environment variables `LISTEN_PID`, `LISTEN_FDS` and `LISTEN_FDNAMES` announce: nothing
    /// where they are missing or meant for another process. Gives sockets on the first call in a process only.
    pub fn from_env(
        pid: Option<&str>,
        count: Option<&str>,
        names: Option<&str>,
    ) -> Result<Self, ListenError> {
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
        Ok(Self { sockets, ..Self::default() })
    }

    /// Adds a socket of the service manager that another process has passed on.
    pub fn add_socket(&mut self, name: String, descriptor: OwnedFd) {
        self.sockets.push((name, descriptor.into()));
    }

    /// Adds a listener of another process, in place of binding its address.
    pub fn add_listener(&mut self, listener: Listener) {
        self.listeners().push(listener);
    }

    /// The service manager's sockets with their names, to be passed on.
    pub fn sockets(&self) -> impl Iterator<Item = (&str, BorrowedFd<'_>)> {
        self.sockets.iter().map(|(name, socket)| (name.as_str(), socket.as_fd()))
    }

    /// The listeners that no address wanted.
    #[must_use]
    pub fn take_unused(&self) -> Vec<Listener> {
        std::mem::take(&mut self.listeners())
    }

    /// Whether nothing was passed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.sockets.is_empty()
    }

    /// The listener for `address`, where one was handed over. The permissions of a socket's file may differ, and
    /// the options.
    pub(super) fn take_listener(&self, address: &Address) -> Option<Listener> {
        let is_same = |listener: &Listener| match (&listener.address.endpoint, &address.endpoint) {
            (Endpoint::Unix { path: own, .. }, Endpoint::Unix { path, .. }) => own == path,
            (own, place) => own == place,
        };
        let mut listeners = self.listeners();
        let index = listeners.iter().position(is_same)?;
        let mut listener = listeners.swap_remove(index);
        listener.address = address.clone();
        Some(listener)
    }

    /// A list is changed in one step, so a panic elsewhere leaves nothing half done.
    fn listeners(&self) -> MutexGuard<'_, Vec<Listener>> {
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where the sockets of this name listen, or all of them. Nothing where [`Listener::bind`](super::Listener::bind) would fail.
    #[must_use]
    pub fn bound(&self, name: Option<&str>) -> Vec<BoundAddress> {
        self.find(name).map_or_else(|_| Vec::new(), |sockets| sockets.iter().map(Socket::bound).collect())
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
    // process, nothing in it opened them, and `from_env` gets here once in a process's life.
    let descriptor = unsafe { OwnedFd::from_raw_fd(descriptor) };
    rustix::io::fcntl_setfd(&descriptor, FdFlags::CLOEXEC).map_err(|_| closed())?;
    Ok(RawSocket::from(descriptor))
}

/// A socket of `address` that another process has handed over.
pub(super) fn shared(address: &Address, descriptor: OwnedFd) -> Result<Socket, ListenError> {
    listening(&address.to_string(), &RawSocket::from(descriptor))
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

//! Sockets bound by another process: a service manager (systemd's socket activation, `sd_listen_fds(3)`), or
//! the server that this process replaces.

use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use rudy_quic::Keys;
use rustix::io::FdFlags;
use socket2::{Domain, Socket as RawSocket, Type};

use super::{Address, BoundAddress, Endpoint, ListenError, Listener, Socket};

/// The number of the first passed descriptor: `SD_LISTEN_FDS_START`.
const FIRST_DESCRIPTOR: RawFd = 3;

/// The sockets passed to this process at its start.
#[derive(Debug, Default)]
pub struct InheritedSockets {
    /// The sockets of the service manager. They stay open, so that a reload can release and reuse them.
    sockets: Vec<(String, RawSocket)>,
    /// The listeners of the server that this process replaces. A reload binds its addresses itself.
    listeners: Mutex<Vec<Listener>>,
    /// The secrets of QUIC of that server.
    pub quic_keys: Option<Keys>,
}

impl InheritedSockets {
    /// Takes the sockets that the environment variables `LISTEN_PID`, `LISTEN_FDS` and `LISTEN_FDNAMES`
    /// announce. Returns none if the variables are missing or meant for another process, and in all but the
    /// first call in a process.
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
            problem(format!("LISTEN_FDS must be a number, but is `{}`", count.escape_debug()))
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

    /// Adds a listener of another process, to be used instead of binding its address.
    pub fn add_listener(&mut self, listener: Listener) {
        self.listeners.lock().push(listener);
    }

    /// Returns the service manager's sockets with their names, for passing them on.
    pub fn sockets(&self) -> impl Iterator<Item = (&str, BorrowedFd<'_>)> {
        self.sockets.iter().map(|(name, socket)| (name.as_str(), socket.as_fd()))
    }

    /// Removes and returns the listeners that no address uses.
    #[must_use]
    pub fn take_unused(&self) -> Vec<Listener> {
        std::mem::take(&mut self.listeners.lock())
    }

    /// Whether the service manager passed no sockets.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.sockets.is_empty()
    }

    /// Removes and returns the listener for `address` that another process has passed. The permissions of a
    /// socket file and the options may differ.
    pub(super) fn take_listener(&self, address: &Address) -> Option<Listener> {
        let is_same = |listener: &Listener| match (&listener.address.endpoint, &address.endpoint) {
            (Endpoint::Unix { path: own, .. }, Endpoint::Unix { path, .. }) => own == path,
            (own, place) => own == place,
        };
        let mut listeners = self.listeners.lock();
        let index = listeners.iter().position(is_same)?;
        // Those that follow stay in order: several addresses with port 0 are the same one.
        let mut listener = listeners.remove(index);
        listener.address = address.clone();
        Some(listener)
    }

    /// Returns the addresses of the sockets with this name, or of all. Empty if
    /// [`Listener::bind`](super::Listener::bind) would fail.
    #[must_use]
    pub fn bound(&self, name: Option<&str>) -> Vec<BoundAddress> {
        self.find(name).map_or_else(|_| Vec::new(), |sockets| sockets.iter().map(Socket::bound).collect())
    }

    /// Duplicates the sockets with this name, or all of them. Fails if there are none.
    pub(super) fn find(&self, name: Option<&str>) -> Result<Vec<Socket>, ListenError> {
        let wanted = self.sockets.iter().filter(|(own, _)| name.is_none_or(|name| name == own));
        let sockets = wanted.map(|(name, socket)| listening(name, socket)).collect::<Result<Vec<_>, _>>()?;
        if sockets.is_empty() {
            return Err(problem(self.missing_message(name)));
        }
        Ok(sockets)
    }

    fn missing_message(&self, name: Option<&str>) -> String {
        if self.sockets.is_empty() {
            return "it passed none (LISTEN_FDS and LISTEN_PID are not set for this process)".to_owned();
        }
        let names: Vec<_> =
            self.sockets.iter().map(|(name, _)| format!("`{}`", name.escape_debug())).collect();
        format!("none has the name `{}`; it passed {}", name.unwrap_or_default(), names.join(", "))
    }
}

#[expect(unsafe_code, reason = "an inherited descriptor is only a number")]
fn take_descriptor(descriptor: RawFd) -> Result<RawSocket, ListenError> {
    let closed = || problem(format!("LISTEN_FDS announces descriptor {descriptor}, which is not open"));
    if !std::fs::exists(format!("/proc/self/fd/{descriptor}")).unwrap_or(false) {
        return Err(closed());
    }
    // SAFETY: the check above has shown that it is open, and a process closes nothing while it starts.
    let flags = rustix::io::fcntl_getfd(unsafe { BorrowedFd::borrow_raw(descriptor) });
    // If LISTEN_FDS is too high, a descriptor that this process has opened has the number.
    if flags.map_err(|_| closed())?.contains(FdFlags::CLOEXEC) {
        return Err(problem(format!(
            "LISTEN_FDS announces descriptor {descriptor}, which was not passed: it has the flag FD_CLOEXEC"
        )));
    }
    // SAFETY: it is open, and this process owns it: LISTEN_PID names this process, `from_env` gets here once in
    // its life, and nothing in it owns a descriptor without FD_CLOEXEC.
    let descriptor = unsafe { OwnedFd::from_raw_fd(descriptor) };
    rustix::io::fcntl_setfd(&descriptor, FdFlags::CLOEXEC).map_err(|_| closed())?;
    Ok(RawSocket::from(descriptor))
}

/// Wraps a socket of `address` that another process has passed.
pub(super) fn shared(address: &Address, descriptor: OwnedFd) -> Result<Socket, ListenError> {
    listening(&address.to_string(), &RawSocket::from(descriptor))
}

/// Duplicates a socket, after checking that it accepts connections.
fn listening(name: &str, socket: &RawSocket) -> Result<Socket, ListenError> {
    let name = name.escape_debug();
    let unusable = |error| problem(format!("`{name}` cannot be used: {error}"));
    if !matches!(socket.r#type(), Ok(Type::STREAM)) || !matches!(socket.is_listener(), Ok(true)) {
        return Err(problem(format!(
            "`{name}` is not a listening stream socket; the socket unit needs ListenStream= and Accept=no"
        )));
    }
    let copy = socket.try_clone().map_err(unusable)?;
    copy.set_nonblocking(true).map_err(unusable)?;
    match copy.domain().map_err(unusable)? {
        Domain::UNIX => Ok(Socket::Unix(copy.into())),
        Domain::IPV4 | Domain::IPV6 => {
            copy.set_tcp_nodelay(true).map_err(unusable)?;
            Ok(Socket::Tcp(copy.into()))
        }
        other => Err(problem(format!(
            "`{name}` has the address family {other:?}; only TCP and Unix sockets are supported"
        ))),
    }
}

fn problem(problem: String) -> ListenError {
    ListenError::Inherited { problem }
}

//! Errors of listening on an address, each with advice.

use std::path::PathBuf;
use std::{fmt, io};

use super::{Address, Endpoint, Owner};

/// Why listening on an address failed.
#[derive(Debug)]
pub enum ListenError {
    /// Another process listens there.
    InUse {
        /// The address.
        address: Address,
        /// The process, if known.
        owner: Owner,
    },
    /// The port is privileged (below 1024), or the process may not write to the folder of the socket.
    NotPermitted {
        /// The address.
        address: Address,
    },
    /// No interface of this machine has the address.
    NotLocal {
        /// The address.
        address: Address,
    },
    /// The path exists and is not a socket.
    NotASocket {
        /// The path.
        path: PathBuf,
    },
    /// The service manager passed no usable socket with this name.
    Inherited {
        /// An explanation, with the names that were passed.
        problem: String,
    },
    /// Another error from the kernel.
    System {
        /// The address.
        address: Address,
        /// The error.
        error: io::Error,
    },
}

impl ListenError {
    pub(super) fn system(address: &Address, error: io::Error) -> Self {
        let address = address.clone();
        match error.kind() {
            io::ErrorKind::PermissionDenied => Self::NotPermitted { address },
            io::ErrorKind::AddrNotAvailable => Self::NotLocal { address },
            _ => Self::System { address, error },
        }
    }
}

impl fmt::Display for ListenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InUse { address, owner } => {
                write!(f, "cannot listen on {address}: the address is in use by {owner}")
            }
            Self::NotPermitted { address: address @ Address { endpoint: Endpoint::Unix { .. }, .. } } => {
                write!(f, "cannot listen on {address}: no permission to create the socket in its folder")
            }
            Self::NotPermitted { address } => write!(
                f,
                "cannot listen on {address}: no permission. Ports below 1024 need the capability \
                 CAP_NET_BIND_SERVICE, or a socket from systemd: see docs/systemd.md"
            ),
            Self::NotLocal { address } => {
                write!(f, "cannot listen on {address}: no interface of this machine has this address")
            }
            Self::NotASocket { path } => write!(
                f,
                "cannot listen on unix:{0}: {0} exists and is not a socket; remove the file, or choose another path",
                path.display()
            ),
            Self::Inherited { problem } => {
                write!(
                    f,
                    "cannot listen on the sockets of the service manager: {problem}; see docs/systemd.md"
                )
            }
            Self::System { address, error } => write!(f, "cannot listen on {address}: {error}"),
        }
    }
}

impl std::error::Error for ListenError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::System { error, .. } => Some(error),
            _ => None,
        }
    }
}

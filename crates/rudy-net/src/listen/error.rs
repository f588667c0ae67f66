//! Why an address could not be had, in words that say what to do.

use std::path::PathBuf;
use std::{fmt, io};

use super::{Address, Endpoint, Owner};

/// Why nothing listens on an address.
#[derive(Debug)]
pub enum ListenError {
    /// Somebody else listens there.
    InUse {
        /// The address.
        address: Address,
        /// Who it is.
        owner: Owner,
    },
    /// Ports below 1024, or a folder that may not be written to.
    NotPermitted {
        /// The address.
        address: Address,
    },
    /// No interface of this machine has the address.
    NotHere {
        /// The address.
        address: Address,
    },
    /// Something that is not a socket is in the way; it is not touched.
    NotASocket {
        /// Where.
        path: PathBuf,
    },
    /// The service manager passed no socket of this name, or not what we can use; the words say what it passed.
    Inherited {
        /// What is wrong.
        problem: String,
    },
    /// Anything else the kernel said.
    System {
        /// The address.
        address: Address,
        /// What it said.
        error: io::Error,
    },
}

impl ListenError {
    pub(super) fn system(address: &Address, error: io::Error) -> Self {
        let address = address.clone();
        match error.kind() {
            io::ErrorKind::PermissionDenied => Self::NotPermitted { address },
            io::ErrorKind::AddrNotAvailable => Self::NotHere { address },
            _ => Self::System { address, error },
        }
    }
}

impl fmt::Display for ListenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InUse { address, owner } => {
                write!(f, "cannot listen on {address}: it is in use by {owner}")
            }
            Self::NotPermitted { address: address @ Address { endpoint: Endpoint::Unix { .. }, .. } } => {
                write!(f, "cannot listen on {address}: no permission to make the socket in its folder")
            }
            Self::NotPermitted { address } => write!(
                f,
                "cannot listen on {address}: no permission. Ports below 1024 need the capability \
                 CAP_NET_BIND_SERVICE, or a socket from systemd: see docs/systemd.md"
            ),
            Self::NotHere { address } => {
                write!(f, "cannot listen on {address}: no interface of this machine has this address")
            }
            Self::NotASocket { path } => write!(
                f,
                "cannot listen on unix:{0}: {0} is there already and is not a socket; remove it, or choose another path",
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

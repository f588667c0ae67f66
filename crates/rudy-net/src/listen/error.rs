//! Errors of listening on an address, each with advice.

use std::io;
use std::path::PathBuf;

use super::{Address, Endpoint, Owner};

/// Why listening on an address failed.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// Another process listens there.
    #[error("cannot listen on {address}: the address is in use by {owner}")]
    InUse {
        /// The address.
        address: Address,
        /// The process, if known.
        owner: Owner,
    },
    /// The port is privileged (below 1024), or the process may not write to the folder of the socket.
    #[error("cannot listen on {address}: no permission{}", advice(.address))]
    NotPermitted {
        /// The address.
        address: Address,
    },
    /// No interface of this machine has the address.
    #[error("cannot listen on {address}: no interface of this machine has this address")]
    NotLocal {
        /// The address.
        address: Address,
    },
    /// The path exists and is not a socket.
    #[error("cannot listen on unix:{0}: {0} exists and is not a socket; remove the file, or choose another path", .path.display())]
    NotASocket {
        /// The path.
        path: PathBuf,
    },
    /// The service manager passed no usable socket with this name.
    #[error("cannot listen on the sockets of the service manager: {problem}; see docs/systemd.md")]
    Inherited {
        /// An explanation, with the names that were passed.
        problem: String,
    },
    /// Another error from the kernel.
    #[error("cannot listen on {address}: {error}")]
    System {
        /// The address.
        address: Address,
        /// The error.
        #[source]
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

fn advice(address: &Address) -> &'static str {
    match address.endpoint {
        Endpoint::Unix { .. } => " to create the socket in its folder",
        _ => {
            ". Ports below 1024 need the capability CAP_NET_BIND_SERVICE, or a socket from systemd: see docs/systemd.md"
        }
    }
}

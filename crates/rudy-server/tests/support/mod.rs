//! A whole server in the process of a test.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::os::fd::OwnedFd;
use std::path::PathBuf;

use rudy_server::run::{Options, Source};
use rustix::net::{AddressFamily, SocketType, bind, getsockname, socket, sockopt};

/// Returns the options of a server with this configuration.
pub(crate) fn options(config: PathBuf) -> Options {
    Options {
        source: Source::File(config),
        listen: Vec::new(),
        access_log: None,
        json_log: false,
        engine: None,
        cores: None,
        keep_alive: None,
        tls: None,
        domains: Vec::new(),
        acme: rudy_server::config::AcmeTable::default(),
        tls_key_log: false,
        user: None,
    }
}

/// Returns a port of 127.0.0.1 that no other process gets while the descriptor is open, and on which a server can listen.
pub(crate) fn reserve_port() -> (OwnedFd, SocketAddr) {
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    sockopt::set_socket_reuseaddr(&socket, true).unwrap();
    bind(&socket, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = getsockname(&socket).unwrap().try_into().unwrap();
    (socket, address)
}

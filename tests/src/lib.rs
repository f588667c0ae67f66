//! Helpers for tests over real sockets: [`binary()`] builds `rudy`, [`Server`] starts it, and [`Connection`] sends it arbitrary
//! bytes. [`conformance`] runs the conformance cases.

#![expect(
    clippy::must_use_candidate,
    clippy::return_self_not_must_use,
    reason = "tests start servers and run commands for their effects, too"
)]

mod assertions;
pub mod attacks;
mod binary;
mod cargo;
pub mod collector;
pub mod conformance;
mod connection;
mod curl;
mod descriptors;
mod disk;
mod dns;
mod engines;
mod exchange;
pub mod fastcgi;
mod folder;
mod hosts;
pub mod http2;
mod http2_servers;
mod http2_upstream;
pub mod http3;
mod load;
mod machine;
pub mod pebble;
mod port;
pub mod prelude;
mod program;
mod random;
mod response;
mod rudy;
mod running;
mod seccomp;
mod server;
pub mod soak;
pub mod spellings;
pub mod tls;
mod tls_client;
mod upstream;
mod wait;
mod weblog;

pub use self::weblog::Weblog;
pub use binary::{binary, fastcgi_info, weblog, xtask};
pub use cargo::{cargo_index, cargo_source, rustup_home};
pub use collector::Collector;
pub use connection::{Connection, exchange_unix};
pub use curl::{Curl, CurlResult};
pub use descriptors::descriptors;
pub use disk::small_disk;
pub use dns::{DnsRecord, NameServer};
pub use engines::{all_engines, engines};
pub use exchange::Exchange;
pub use folder::{Files, Folder};
pub use hosts::Hosts;
pub use http2::{Http2Connection, Http2Response};
pub use http2_servers::{Peer, Reply, nginx_arguments, start_http2_server, write_files};
pub use http2_upstream::Http2Upstream;
pub use http3::{Http3Client, Http3Connection};
pub use load::{Load, Tally, succeeds};
pub use machine::Machine;
pub use pebble::Pebble;
pub use port::{ReservedPort, free_port, listen};
pub use program::{
    application, axe, flup, go_program, grpc, http3_program, is_long, kubernetes_program, long,
    oidc_provider, php_fpm, program, redbot, skip, skip_unsupported, sslyze,
};
pub use random::Random;
pub use response::Response;
pub use rudy::{Output, Rudy};
pub use running::{Running, lines_of};
pub use seccomp::without_openat2;
pub use server::{Builder, Server};
pub use tls::{Certificates, TlsServer, Valid};
pub use tls_client::{EarlyConnection, TlsClient, TlsConnection};
pub use upstream::{Upstream, UpstreamPeer, UpstreamRequest};
pub use wait::{Gate, children, descriptors_of, eventually, gate, memory_of, wait_until};

use std::time::Duration;

/// Compiles the steps of the guide.
#[cfg(doctest)]
#[doc = include_str!("../../docs/write-an-app.md")]
struct Guide;

/// The timeout of tests. Only a failing test waits this long.
pub const PATIENCE: Duration = Duration::from_secs(30);

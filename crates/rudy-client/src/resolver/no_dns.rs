//! Instead of a client for DNS in builds without the feature `resolver`.

use std::net::SocketAddr;

use super::{Answer, NameServer, Target};

/// It cannot be created.
#[derive(Debug, Clone)]
pub enum Dns {}

impl Dns {
    pub(super) fn new(_: &[NameServer]) -> Result<Self, String> {
        Err("this build of Rudy has no client for DNS: build it with `cargo build --release --features resolver`"
            .to_owned())
    }

    #[expect(clippy::unused_async, reason = "as in the other build")]
    pub(super) async fn addresses(&self, _: String, _: u16) -> Result<Answer<SocketAddr>, String> {
        match *self {}
    }

    #[expect(clippy::unused_async, reason = "as in the other build")]
    pub(super) async fn targets(&self, _: String) -> Result<Answer<Target>, String> {
        match *self {}
    }
}

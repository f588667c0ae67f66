//! The admin socket: commands ask a running server about its state.
//!
//! It is a Unix socket (0600) in a folder that only the server's user can write to. A request is a JSON object on a line, and so is its
//! response.
//!
//! Each application that Rudy starts has a socket with the same protocol, which accepts purges of the cache only.

mod client;
mod path;
mod protocol;
mod socket;

pub use self::client::RunningServer;
pub(crate) use self::client::ask;
pub(crate) use self::path::{default_folder, safe_folders};
pub use self::protocol::PurgedBy;
pub(crate) use self::protocol::{
    CacheObject, CacheStats, CertificateStatus, LastError, PurgeRequest, Request, Response, UpstreamState,
    UpstreamStatus,
};
pub(crate) use self::socket::{AdminSocket, Responder};

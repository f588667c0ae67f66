//! What the command line says of a flood.

use std::net::IpAddr;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use crate::Access;
use crate::request::Template;

/// The options of `rudy flood`.
#[derive(Debug, Clone)]
pub struct Options {
    /// What each connection asks; `{}` in it stands for the connection's number.
    pub url: String,
    /// What is sent with it.
    pub template: Template,
    /// Connections in all.
    pub connections: NonZeroU32,
    /// The time in which they are opened, evenly.
    pub ramp: Duration,
    /// The time for which all are kept.
    pub hold: Duration,
    /// How far apart chunks are meant to be.
    pub interval: Duration,
    /// Chunks at the beginning of each stream that are no part of its schedule.
    pub greetings: u32,
    /// A connection is kept after its whole answer, which then is not the end of it.
    pub keeps_idle: bool,
    /// For a connection, and then for the first byte.
    pub timeout: Duration,
    /// How the server is reached.
    pub access: Access,
    /// Addresses that connections come from.
    pub sources: Vec<IpAddr>,
    /// Whom to look at meanwhile.
    pub server: Option<Server>,
    /// A picture of what was seen.
    pub plot: Option<PathBuf>,
    /// The report as an object instead of text.
    pub is_json: bool,
}

/// The server that is looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Server {
    /// It runs already.
    Pid(u32),
    /// It is started by a shell, and ended with the flood.
    Command(String),
}

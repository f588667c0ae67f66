//! `rudy.toml` as it is written. The doc comments here are the descriptions in `docs/rudy.schema.json`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::authorize::{AuthorizeTable, RouteAuthorize};
use super::fastcgi::FastcgiTable;
use super::files::FilesTable;
use super::streams::{BroadcastTable, StreamTable, TailTable};
use super::values::{EngineName, ListenAddress, Size, Time};
use crate::routing::{HostPattern, PathPattern};

/// The configuration file of Rudy, a web server.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(title = "rudy.toml")]
pub struct MainFile {
    /// Where to accept connections: `127.0.0.1:8080`, `[::1]:80`, `:8080` (every interface), `unix:/run/rudy.sock`
    /// (`unix:/run/rudy.sock,mode=660` with these permissions), `systemd` or `systemd:NAME` (sockets that systemd hands
    /// over). `127.0.0.1:8080` if absent.
    #[schemars(length(min = 1))]
    pub listen: Option<Vec<ListenAddress>>,
    /// How connections are carried: `percore` (a task each on the core that accepted it), `task` (a task each on
    /// whichever core has time), `mailbox` (as `task`, and what comes is handed over as messages), `thread` (a thread
    /// each), `pool:16` (16 threads take one after the other), `serial` (one after the other). Changes with the next start.
    pub engine: EngineName,
    /// Threads that carry connections in the engines `percore`, `task` and `mailbox`. If absent, one for each core that the
    /// process may use.
    #[schemars(range(min = 1, max = 1024))]
    pub cores: Option<u16>,
    /// Threads that the engine `thread` has at most, one for each connection; further connections wait.
    #[schemars(range(min = 1, max = 100_000))]
    pub threads: Option<u32>,
    /// Whether a connection may have more than one request. If absent it may, except in `serial` and `pool:N`, where an idle
    /// connection would hold a thread for itself.
    pub keep_alive: Option<bool>,
    /// Bytes of bodies in memory, of all requests and responses together: those that wait for an application, and those that
    /// their client takes more slowly than the application sends them. Beyond it, a body goes to a file at once, otherwise
    /// beyond 64 KiB. 64 MiB if absent.
    pub buffer_memory: Option<Size>,
    /// Bytes of bodies in files, of all requests and responses together. Beyond it, a request gets 507, and a response is read
    /// as slowly as its client takes it. If absent, the smaller of 10 GiB and half of the free space of the file system.
    pub buffer_total: Option<Size>,
    /// The folder of these files, which have no names. Relative to this file. If absent, `$STATE_DIRECTORY`, which systemd
    /// sets, or else `/var/tmp`.
    #[schemars(length(min = 1))]
    pub buffer_dir: Option<PathBuf>,
    /// Files that add sites, as a path whose last part may have `*`: `conf.d/*.toml`. Relative to this file.
    pub include: Option<String>,
    /// What a peer may send, how slowly, and for how long.
    pub limits: LimitsTable,
    /// Where a line for each request goes. No such lines if absent.
    pub access_log: Option<AccessLogTable>,
    /// How long requests in progress may take to finish after the server was asked to stop; then they are cut. 30 s if absent.
    pub shutdown_timeout: Option<Time>,
    /// The sites, each found by the host that a request names.
    pub site: Vec<SiteTable>,
}

/// A file taken in by `include`: it adds sites, and nothing else.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct IncludedFile {
    /// The sites, each found by the host that a request names.
    pub site: Vec<SiteTable>,
}

/// A site: the hosts it answers for, and what answers.
#[derive(Debug, Default, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SiteTable {
    /// The hosts: `example.org` that one, `*.example.org` every name below it (the longest such pattern wins). A site
    /// without `hosts` is the default: it answers for every other host.
    #[schemars(length(min = 1))]
    pub hosts: Option<Vec<HostPattern>>,
    /// A folder whose files answer every request that no route takes: short for a last route with
    /// `path = "/*"` and `files = { root = ... }`.
    #[schemars(length(min = 1))]
    pub root: Option<PathBuf>,
    /// The folder of a PHP site, which answers every request that no route takes: short for a last route with
    /// `path = "/*"` and `php = { root = ... }`.
    #[schemars(length(min = 1))]
    pub php: Option<PathBuf>,
    /// An app that is asked before any route answers, and says who may come in. A route may ask another one, or nobody.
    pub authorize: Option<AuthorizeTable>,
    /// Which handler answers which path. The first that matches, in written order, is taken.
    pub route: Vec<RouteTable>,
}

/// A route: the paths it takes, and the one handler that answers them.
#[derive(Debug, Default, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("oneOf" = [
    { "required": ["files"] },
    { "required": ["redirect"] },
    { "required": ["respond"] },
    { "required": ["status"] },
    { "required": ["stream"] },
    { "required": ["broadcast"] },
    { "required": ["tail"] },
    { "required": ["delay"] },
    { "required": ["info"] },
    { "required": ["fastcgi"] },
    { "required": ["php"] },
]))]
pub struct RouteTable {
    /// The paths: `/about` that one; `/docs/*` the path `/docs` and everything below it; otherwise a pattern in which `*`
    /// and `?` stand for anything but a slash, `**` for anything, `{a,b}` for a or b, `[a-z]` for one of these; a
    /// pattern without a slash, such as `*.php`, is compared with the last part of the path. Paths are compared decoded
    /// (`/café`, not `/caf%C3%A9`) and byte for byte.
    pub path: OneOrMany<PathPattern>,
    /// An app that is asked before the handler answers, and says who may come in, in place of the site's; `false` asks nobody.
    pub authorize: Option<RouteAuthorize>,
    /// Whether the method TRACE reaches the app of this route. It sends a request back as it came, with the credentials that
    /// proxies add; 405 otherwise.
    #[serde(default)]
    pub allow_trace: bool,
    /// Answers with files of a folder.
    pub files: Option<FilesTable>,
    /// Answers with another address.
    pub redirect: Option<RedirectTable>,
    /// Always gives the same answer.
    pub respond: Option<RespondTable>,
    /// Answers with the server's counters as JSON.
    pub status: Option<StatusTable>,
    /// Answers with a stream that ticks: a line at each interval, for ever.
    pub stream: Option<StreamTable>,
    /// Answers with the lines that are published at the path that is asked for, to everybody who listens there.
    pub broadcast: Option<BroadcastTable>,
    /// Answers with the lines of files, as they are written.
    pub tail: Option<TailTable>,
    /// Gives an answer after a time.
    pub delay: Option<DelayTable>,
    /// Answers with who answers: process, thread, task, engine, connection, request.
    pub info: Option<InfoTable>,
    /// Asks an app that speaks FastCGI.
    pub fastcgi: Option<FastcgiTable>,
    /// Serves a PHP site: scripts are run by php-fpm, other files sent, and what is neither goes to the folder's `index.php`.
    /// Needs `root`.
    pub php: Option<FastcgiTable>,
}

/// One value, or a list of them.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum OneOrMany<T> {
    /// One.
    One(T),
    /// Several.
    Many(#[schemars(length(min = 1))] Vec<T>),
}

impl<T> OneOrMany<T> {
    /// All of them.
    pub fn as_slice(&self) -> &[T] {
        match self {
            Self::One(one) => std::slice::from_ref(one),
            Self::Many(many) => many,
        }
    }
}

impl<T> FromIterator<T> for OneOrMany<T> {
    fn from_iter<I: IntoIterator<Item = T>>(values: I) -> Self {
        Self::Many(values.into_iter().collect())
    }
}

impl<T> Default for OneOrMany<T> {
    fn default() -> Self {
        Self::Many(Vec::new())
    }
}

/// Another address.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RedirectTable {
    /// The other address: a path (`/new/{rest}`) or a URL (`https://{host}{path}{query}`). `{path}` is the path that was
    /// asked for; `{rest}` the part that the `*` of a route such as `/old/*` stands for, without its slash; `{query}` the
    /// query with its question mark, or nothing; `{host}` the host without its port.
    pub to: String,
    /// 301 or 308 for good (browsers remember it), 302 or 307 for now, 303 "look there with GET". 307 and 308 keep the
    /// method; with 301 and 302 browsers turn POST into GET.
    #[serde(default = "temporary_redirect")]
    #[schemars(extend("enum" = [301, 302, 303, 307, 308]))]
    pub status: u16,
}

fn temporary_redirect() -> u16 {
    307
}

/// One answer for every request.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RespondTable {
    /// The status.
    #[serde(default = "ok")]
    #[schemars(range(min = 200, max = 599))]
    pub status: u16,
    /// The body, as text.
    pub body: Option<String>,
    /// A file that holds the body (1 MiB at most: it is kept in memory). Relative to the file that names it.
    #[schemars(length(min = 1))]
    pub body_file: Option<PathBuf>,
    /// Fields of the answer. Content-Type is `text/plain; charset=utf-8`, or goes by the name of the body file, if it is
    /// not given.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
}

fn ok() -> u16 {
    200
}

/// The server's counters as JSON: connections, requests, bytes, memory.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StatusTable {
    /// Who may see it; others are told 403.
    #[serde(default)]
    pub allow: Audience,
}

/// An answer that comes after a time, so that many requests are under way at once.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct DelayTable {
    /// How long the answer is waited for, from 1 ms to 10 min.
    pub time: Time,
    /// The status.
    #[schemars(range(min = 200, max = 599))]
    pub status: u16,
    /// The body, as text. If neither it nor `body_file` is given, a line says how long was waited.
    pub body: Option<String>,
    /// A file that holds the body (1 MiB at most: it is kept in memory). Relative to the file that names it.
    #[schemars(length(min = 1))]
    pub body_file: Option<PathBuf>,
    /// Fields of the answer, as for `respond`.
    pub headers: BTreeMap<String, String>,
}

impl Default for DelayTable {
    fn default() -> Self {
        Self {
            // The time of the measurements that this handler repeats.
            time: Time(std::time::Duration::from_millis(40)),
            status: ok(),
            body: None,
            body_file: None,
            headers: BTreeMap::new(),
        }
    }
}

/// Who answers, as text or, for those who ask for it, as JSON: process, thread, task, engine, connection, request.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct InfoTable {
    /// Who may see it; others are told 403.
    #[serde(default)]
    pub allow: Audience,
}

/// Who may see what the server tells of itself.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Audience {
    /// Peers on this machine: a loopback address or a Unix socket.
    #[default]
    Loopback,
    /// Anyone who can reach the server.
    Anyone,
}

/// Where a line for each request goes.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AccessLogTable {
    /// The file, which is appended to; `-` is the standard output. Relative to the file that names it.
    #[schemars(length(min = 1))]
    pub path: PathBuf,
    /// How a line is written.
    #[serde(default)]
    pub format: LogFormat,
}

/// How a line of the access log is written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// The format that Apache and nginx call so, the duration after it.
    #[default]
    Combined,
    /// A JSON object.
    Json,
}

/// What a peer may send, how slowly, and for how long.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LimitsTable {
    /// Bytes of a request's head (431).
    pub head_bytes: Size,
    /// Fields in a head or a trailer section (431).
    #[schemars(range(min = 1, max = 1000))]
    pub head_fields: u32,
    /// Bytes of the request target (414).
    pub target_bytes: Size,
    /// Bytes of a request's body (413).
    pub body_bytes: Size,
    /// Bytes of chunk extensions in one body (400).
    pub chunk_extension_bytes: Size,
    /// Bytes of a request's body that are read and thrown away after an early answer, so that the connection can go on.
    pub drain_bytes: Size,
    /// From the first byte of a head to its end (408).
    pub head_timeout: Time,
    /// From the accept to the first byte of the first request (closed silently).
    pub first_request_timeout: Time,
    /// Between a response and the next request (closed silently).
    pub idle_timeout: Time,
    /// Bytes a second that a request's body must bring on average once `rate_grace` is over (408). 0: no minimum.
    pub body_rate_min: u32,
    /// Bytes a second that a peer must take of an answer on average once `rate_grace` is over (cut). 0: no minimum.
    pub send_rate_min: u32,
    /// How long a body or an answer may be slower than its minimum rate. One that was faster before may pause for three
    /// times as long, and no longer.
    pub rate_grace: Time,
    /// How long an answer may make no progress at all (cut).
    pub send_stall_timeout: Time,
    /// How long a request may wait after its client has closed its sending side, without a byte of the response written
    /// (cancelled).
    pub half_close_timeout: Time,
    /// Requests answered on one connection before it is closed. No limit if absent.
    #[schemars(range(min = 1))]
    pub requests_per_connection: Option<u64>,
    /// Connections open at once. Beyond it the longest-idle connection of the address that has most is closed for a new one; if
    /// none is idle, the new one is answered 503. If absent, as many as the descriptor limit leaves room for.
    #[schemars(range(min = 1))]
    pub connections: Option<u32>,
    /// Connections open at once from one address. No limit if absent, because many people share one.
    #[schemars(range(min = 1))]
    pub connections_per_address: Option<u32>,
    /// How long a connection that is being closed may go on sending before it is dropped.
    pub linger_timeout: Time,
    /// How many bytes it may go on sending.
    pub linger_bytes: Size,
}

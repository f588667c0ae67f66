//! `rudy.toml` as it is written. The doc comments here are the descriptions in `docs/rudy.schema.json`.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use schemars::JsonSchema;
use serde::Deserialize;

use super::authorize::{AuthorizeTable, RouteAuthorize};
use super::limits::LimitsTable;
use super::values::{At, EngineName, FilePath, Int, ListenAddress, OneOrMany, Size, Time, short_form};
use crate::client_address::{Source, TrustedProxy};
use crate::handlers::Table;
use crate::php::PhpTable;
use crate::routing::{HostPattern, PathPattern};

/// The configuration file of Rudy, a web server.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(title = "rudy.toml")]
pub struct MainFile {
    /// Where to accept connections: `127.0.0.1:8080`, `[::1]:80`, `8080` or `:8080` (all addresses of this machine), `unix:/run/rudy.sock`
    /// (`unix:/run/rudy.sock,mode=660` with these permissions), `systemd` or `systemd:NAME` (sockets that systemd hands
    /// over). `127.0.0.1:8080` if absent. `,proxy_protocol` behind any of them: each connection begins with a header of the PROXY
    /// protocol, version 1 or 2, and comes from one of `trusted_proxies`.
    pub listen: Option<OneOrMany<ListenAddress>>,
    /// How connections are carried: `percore` (a task each on the core that accepted it), `task` (a task each on
    /// whichever core has time), `mailbox` (as `task`, and what comes is handed over as messages), `thread` (a thread
    /// each), `pool:16` (16 threads take one after the other), `serial` (one after the other). Changes with the next start.
    pub engine: EngineName,
    /// Threads that carry connections in the engines `percore`, `task` and `mailbox`. If absent, one for each core that the
    /// process may use.
    #[schemars(example = 2)]
    pub cores: Option<Int<1, 1024>>,
    /// Threads that the engine `thread` has at most, one for each connection; further connections wait.
    #[schemars(example = 1000)]
    pub threads: Option<Int<1, 100_000>>,
    /// Whether a connection may have more than one request. If absent it may, except in `serial` and `pool:N`, where an idle
    /// connection would hold a thread for itself.
    pub keep_alive: Option<bool>,
    /// Bytes of bodies in memory, of all requests and responses together: those that wait for an application, and those that
    /// their client takes more slowly than the application sends them. Beyond it, a body goes to a file at once, otherwise
    /// beyond 64 KiB. 64 MiB if absent.
    #[schemars(extend("examples" = ["128M"]))]
    pub buffer_memory: Option<Size>,
    /// Bytes of bodies in files, of all requests and responses together. Beyond it, a request gets 507, and a response is read
    /// as slowly as its client takes it. If absent, the smaller of 10 GiB and half of the free space of the file system.
    #[schemars(extend("examples" = ["20G"]))]
    pub buffer_total: Option<Size>,
    /// The folder of these files, which have no names. Relative to this file. If absent, `$STATE_DIRECTORY`, which systemd
    /// sets, or else `/var/tmp`.
    #[schemars(example = &"/var/lib/rudy")]
    pub buffer_dir: Option<FilePath>,
    /// The proxies that are believed when they say which client sent a request: addresses, networks (`10.0.0.0/8`), and `unix` for
    /// all connections to a Unix socket. None if absent.
    #[schemars(example = ["10.0.0.0/8", "unix"])]
    pub trusted_proxies: Option<OneOrMany<TrustedProxy>>,
    /// Where they say it: in `X-Forwarded-For`, with `X-Forwarded-Proto`, or in `Forwarded`. Read from the right; the first
    /// address that is not that of a trusted proxy is the client's.
    pub client_address: Source,
    /// Whether they also say the host of the request: in `X-Forwarded-Host`, or `host=` of `Forwarded`. Otherwise the host is the
    /// one in `Host`.
    pub trust_forwarded_host: bool,
    /// Files that add sites, as a path whose last part may have `*`: `conf.d/*.toml`. Relative to this file.
    #[schemars(extend("examples" = ["conf.d/*.toml"]))]
    pub include: Option<String>,
    /// What a peer may send, how slowly, and for how long.
    #[schemars(extend("examples" = [{ "head_timeout": "5s", "connections": 10_000 }]))]
    pub limits: LimitsTable,
    /// Where a line for each request goes. No such lines if absent.
    #[schemars(extend("examples" = ["/var/log/rudy/access.log"]))]
    pub access_log: Option<AccessLogTable>,
    /// How long requests in progress may take to finish after the server was asked to stop; then they are cut. 30 s if absent.
    #[schemars(extend("examples" = ["1m"]))]
    pub shutdown_timeout: Option<Time>,
    /// How long a new process may take to be ready when it replaces the running one (SIGUSR2); then it is ended, and the old one
    /// goes on. 60 s if absent.
    #[schemars(extend("examples" = ["2m"]))]
    pub upgrade_timeout: Option<Time>,
    /// The user that Rudy runs as once it has bound its addresses: `www-data`, `www-data:group` or numbers. Rudy must be started
    /// as root, and keeps the right to bind ports below 1024. The user it is started as if absent. Changes with the next start.
    #[schemars(extend("examples" = ["www-data"]))]
    pub user: Option<String>,
    /// Whether Rudy confines itself, by Landlock, to the folders and files that this configuration names. It cannot start apps
    /// then. Folders are added by a restart. Changes with the next start.
    pub sandbox: bool,
    /// The sites, each found by the host that a request names.
    pub site: Vec<At<SiteTable>>,
}

/// A file taken in by `include`: it adds sites, and nothing else.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct IncludedFile {
    /// The sites, each found by the host that a request names.
    pub site: Vec<At<SiteTable>>,
}

/// A site: the hosts that it responds for, and its routes.
#[derive(Debug, Default, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SiteTable {
    /// The hosts: `example.org` that one, `*.example.org` every name below it (the longest such pattern wins). A site
    /// without `hosts` is the default: it responds for every other host.
    #[schemars(example = ["example.org", "www.example.org"])]
    pub hosts: Option<OneOrMany<HostPattern>>,
    /// A folder whose files are sent for every request that no route takes: short for a last route with
    /// `path = "/*"` and `files = { root = ... }`.
    #[schemars(example = &"public")]
    pub root: Option<FilePath>,
    /// Names that are looked for, in this order, where a path names a folder of `root`.
    #[schemars(example = &"index.html")]
    pub index: Option<OneOrMany<String>>,
    /// Whether a folder of `root` without an index is listed.
    #[schemars(example = true)]
    pub browse: Option<bool>,
    /// The page of a single-page application, below `root`: sent where nothing is found.
    #[schemars(example = &"index.html")]
    pub fallback: Option<String>,
    /// The folder of a PHP site, for every request that no route takes: short for a last route with
    /// `path = "/*"` and `php = { root = ... }`. A table has the keys of that.
    #[schemars(example = &"public")]
    pub php: Option<PhpTable>,
    /// An app that is asked before any route responds, and decides which requests are allowed. A route may ask another one, or none.
    #[schemars(extend("examples" = [{ "address": "unix:/run/auth.sock" }]))]
    pub authorize: Option<AuthorizeTable>,
    /// Which handler responds to which path. The first that matches, in written order, is taken.
    pub route: Vec<At<RouteTable>>,
}

/// A route: the paths it takes, and the one handler that responds.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RouteTable {
    /// The paths: `/about` that one; `/docs/*` the path `/docs` and everything below it; otherwise a pattern in which `*`
    /// and `?` stand for anything but a slash, `**` for anything, `{a,b}` for a or b, `[a-z]` for one of these; a
    /// pattern without a slash, such as `*.php`, is compared with the last part of the path. Paths are compared decoded
    /// (`/café`, not `/caf%C3%A9`) and byte for byte.
    #[schemars(example = &"/docs/*")]
    pub path: OneOrMany<PathPattern>,
    /// An app that is asked before the handler responds, in place of the site's; `false` asks none.
    #[schemars(example = false)]
    pub authorize: Option<RouteAuthorize>,
    /// Whether the method TRACE reaches the app of this route. It sends a request back as it came, with the credentials that
    /// proxies add; 405 otherwise.
    #[serde(default)]
    pub allow_trace: bool,
    /// The handler; nothing where it is wrong.
    #[serde(rename = "$handler")]
    #[schemars(flatten, with = "Table")]
    pub handler: Option<Table>,
}

/// Where a line for each request goes.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, remote = "Self")]
#[schemars(transform = Self::with_short_form)]
pub struct AccessLogTable {
    /// The file, which is appended to; `-` is the standard output. Relative to the file that names it.
    #[schemars(example = &"access.log")]
    pub path: FilePath,
    /// How a line is written.
    #[serde(default)]
    pub format: LogFormat,
}

short_form!(AccessLogTable, SHORT_PATH, "a file (\"access.log\") or a table", r#"{ "type": "string", "minLength": 1 }"#, {
    visit_bytes(path: &[u8]) => {
        Ok(AccessLogTable { path: FilePath(OsStr::from_bytes(path).into()), format: LogFormat::default() })
    };
});

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

//! The tables of `rudy.toml`. The doc comments are the descriptions in `docs/rudy.schema.json`.

use std::collections::BTreeMap;
use std::time::Duration;

use rudy_caching::StoreTable;
use rudy_config::{FilePath, Int, Located, Location, OneOrMany, OrOff, Problem, Table, Words};
use rudy_files::Browse;
use rudy_gateway::fastcgi::AuthorizeTable;
use rudy_gateway::php::PhpTable;
use rudy_log::{Compression, Level, Levels, LineFormat, Receiver, RotationOptions};
use rudy_pipeline::client_address::Source;
use rudy_pipeline::exchange::RequestIdTable;
use rudy_pipeline::network::TrustedProxy;
use rudy_pipeline::routing::{HostPattern, PathPattern};
use rudy_site_tls::acme::AcmeTable;
use rudy_site_tls::{HstsTable, TlsTable};
use rudy_units::{Size, Time, Timeout};
use rudy_watch::access_log::{Conditions, Format, StatusRange};

use super::HandlerTable;
use super::limits::LimitsTable;
use super::values::{EngineName, ListenAddress};
use crate::step_settings::StepsTable;

/// The configuration file of Rudy, a web server.
#[derive(Debug, Table)]
#[setting(default)]
pub struct MainFile {
    /// Addresses of the sites that have no `listen` of their own: `127.0.0.1:8080`, `[::1]:80`, `8080` or `:8080` (all addresses of this
    /// machine), `unix:/run/rudy.sock` or `unix:/run/rudy.sock,mode=660` (a Unix socket, with permissions), `systemd`
    /// or `systemd:NAME` (sockets passed by systemd). The default is `127.0.0.1:8080`. Append `,tls` for
    /// HTTPS, `,h2c` to accept HTTP/2 without TLS as well, and `,proxy_protocol` to require a PROXY protocol header (version 1 or 2) on each connection; the peer must be one of
    /// `trusted_proxies`.
    pub listen: Option<OneOrMany<ListenAddress>>,
    /// Concurrency model: `percore` (a task per connection, on the core that accepted it), `task` (a task per
    /// connection, on any core), `mailbox` (like `task`, with received data passed as messages), `thread` (a thread
    /// per connection), `pool:16` (16 threads, each serving one connection at a time), `serial` (one connection at a
    /// time). A change needs a restart.
    pub engine: EngineName,
    /// Number of worker threads of the engines `percore`, `task` and `mailbox`. The default is one per core available
    /// to the process.
    #[setting(example = 2)]
    pub cores: Option<Int<1, 1024>>,
    /// Maximum number of threads of the engine `thread`, which uses one per connection. The default is 4096. Further
    /// connections wait.
    #[setting(example = 1000)]
    pub threads: Option<Int<1, 100_000>>,
    /// Allows several requests per connection. The default is `true`, except for the engines `serial` and `pool:N`,
    /// where an idle connection occupies a thread.
    pub keep_alive: Option<bool>,
    /// Offers HTTP/2 to clients over TLS. The default is `true`. The engines `thread`, `pool:N` and `serial` speak only
    /// HTTP/1.1, because a connection occupies a thread.
    pub http2: Option<bool>,
    /// Maximum memory for buffered request and response bodies, in total. The default is 64 MiB. A body larger than
    /// 64 KiB goes to a temporary file; when this memory is used up, every body does.
    #[setting(example = "128M")]
    pub buffer_memory: Option<Size>,
    /// Maximum disk space for buffered bodies, in total. The default is 10 GiB or half of the free space, whichever
    /// is smaller. When it is used up, a request gets 507. When half of it is, a response is read from the app only as
    /// fast as its client reads: clients that read slowly leave the other half to requests.
    #[setting(example = "20G")]
    pub buffer_total: Option<Size>,
    /// Folder for the temporary files of buffered bodies, relative to this file. The files have no names. The default
    /// is `$STATE_DIRECTORY` (set by systemd), or `/var/tmp`.
    #[setting(example = "/var/lib/rudy")]
    pub buffer_dir: Option<FilePath>,
    /// Maximum number of passwords that are verified at the same time, for `basic_auth`: each keeps a core busy for about a tenth of a
    /// second, at a low priority. The default is half of the cores. Up to 16 times as many wait; further logins get 503. A change needs
    /// a restart.
    #[setting(example = 4)]
    pub password_threads: Option<Int<1, 1024>>,
    /// Reverse proxies whose forwarding header fields are trusted: addresses, networks (`10.0.0.0/8`), and `unix` for
    /// all connections to a Unix socket. The default is none. List only proxies that you operate: they decide which
    /// client address the logs and access rules see.
    #[setting(example = ["10.0.0.0/8", "unix"])]
    pub trusted_proxies: Option<OneOrMany<TrustedProxy>>,
    /// Header field from which to read the client address that a trusted proxy reports. Rudy reads the list from the
    /// right and uses the first address that is not a trusted proxy.
    pub client_address: Source,
    /// Uses the host that a trusted proxy reports (`X-Forwarded-Host`, or `host=` in `Forwarded`) instead of `Host`.
    /// Enable it if the proxy changes `Host`.
    pub trust_forwarded_host: bool,
    /// Files to read more sites from, relative to this file. The last part of the path may contain `*`, as in
    /// `conf.d/*.toml`.
    #[setting(example = "conf.d/*.toml")]
    pub include: Option<String>,
    /// Limits and timeouts for clients.
    #[setting(example = { head_timeout = "5s", connections = 10_000 })]
    pub limits: LimitsTable,
    /// Access log: a file, or a table with a file and a format. Without it, or with `false`, requests are not logged. A site can have a log
    /// of its own.
    #[setting(example = "/var/log/rudy/access.log")]
    pub access_log: Option<OrOff<AccessLogTable>>,
    /// Error log: a file, or a table with a destination, a format, and levels. The default is stderr.
    #[setting(example = "/var/log/rudy/error.log")]
    pub error_log: Option<ErrorLogTable>,
    /// Counts requests by site and route, for the metrics. The default is `true` if a route has the handler `metrics`. `rudy metrics` shows
    /// them without such a route, too.
    #[setting(example = true)]
    pub metrics: Option<bool>,
    /// Gives each request an id, `X-Request-Id`, for apps, upstreams and the access log. The id of a trusted proxy is kept; that of
    /// another client is replaced. With `{ response = true }`, responses have it too. The default is `false`.
    #[setting(example = true)]
    pub request_id: Option<RequestIdTable>,
    /// Time that requests in progress have to finish when the server stops; then their connections are closed. The
    /// default is 30 s.
    #[setting(example = "1m")]
    pub shutdown_timeout: Option<Time>,
    /// Time that a new process has to become ready in an upgrade (SIGUSR2). After it, the new process is terminated
    /// and the old one continues. The default is 60 s.
    #[setting(example = "2m")]
    pub upgrade_timeout: Option<Time>,
    /// User, and optionally group, to run as after binding the addresses: `www-data`, `www-data:group`, or numeric
    /// ids. Rudy must start as root, and keeps the capability to bind ports below 1024. The default is the user that
    /// started it. A change needs a restart.
    #[setting(example = "www-data")]
    pub user: Option<String>,
    /// Restricts Rudy, with Landlock, to the files and folders named in this configuration. It cannot start apps
    /// then. A change needs a restart, and so do additional folders.
    pub sandbox: bool,
    /// Admin socket, through which commands such as `rudy certificates` ask the server: a Unix socket for root and the server's
    /// user. The default is `admin-PID.sock` in `/run/rudy`, `/run/user/UID/rudy` or `/tmp/rudy-UID`, where the commands find it.
    #[setting(example = "/run/rudy/admin.sock")]
    pub admin_socket: Option<FilePath>,
    /// File with the keys of TLS session tickets, for machines that serve the same sites: keys of 48 random bytes, one
    /// behind the other, as in nginx. The first encrypts, all decrypt. Rudy notices changes. By default, Rudy makes keys,
    /// keeps them in its state folder, and replaces them every six hours.
    #[setting(example = "/etc/rudy/ticket.keys")]
    pub ticket_keys: Option<FilePath>,
    /// Authority of the certificates for sites with `tls = "auto"`. The default is Let's Encrypt.
    #[setting(example = { email = "admin@example.org" })]
    pub acme: AcmeTable,
    /// Where the responses of `cache` are stored, and how many.
    #[setting(example = { path = "/var/cache/rudy", size = "50G" })]
    pub cache: StoreTable,
    /// Sites (virtual hosts), selected by the host of a request.
    pub site: Vec<Located<SiteTable>>,
}

/// A file read through `include`. It can only add sites.
#[derive(Debug, Table)]
#[setting(default)]
pub struct IncludedFile {
    /// Sites (virtual hosts), selected by the host of a request.
    pub site: Vec<Located<SiteTable>>,
}

/// A site (virtual host): its host names and its routes.
#[derive(Debug, Clone, Table)]
#[setting(default)]
pub struct SiteTable {
    /// Host names of the site: `example.org` for that host, `*.example.org` for all names below it. The longest
    /// matching pattern wins. A site without `hosts` is the default site of its addresses: it serves all other hosts.
    #[setting(example = ["example.org", "www.example.org"])]
    pub hosts: Option<OneOrMany<HostPattern>>,
    /// Addresses that serve the site, instead of those of `listen` at the top of the main file, in the same notation. Rudy opens them,
    /// too. At other addresses, the hosts of the site are unknown.
    #[setting(example = "127.0.0.1:9000")]
    pub listen: Option<OneOrMany<ListenAddress>>,
    /// TLS, on the addresses with the option `,tls`: the certificate of the site.
    #[setting(example = { certificate = "cert.pem", key = "key.pem" })]
    pub tls: Option<TlsTable>,
    /// Redirects requests over plain HTTP to HTTPS (status 308), except below `/.well-known/acme-challenge/`. The scheme
    /// that a trusted proxy reports counts. The default is `true` with `tls = "auto"`, and otherwise `false`.
    #[setting(example = true)]
    pub redirect_to_https: Option<bool>,
    /// Tells browsers to use only HTTPS for this site (`Strict-Transport-Security`), for the given time: a browser then
    /// rejects plain HTTP and invalid certificates. Begin with a short time.
    #[setting(example = "365d")]
    pub hsts: Option<HstsTable>,
    /// Folder to serve files from when no route matches. Short for a last route with `path = "/*"` and `files = {
    /// root = ... }`.
    #[setting(example = "public")]
    pub root: Option<FilePath>,
    /// Index files of folders below `root`, tried in order.
    #[setting(example = "index.html")]
    pub index: Option<OneOrMany<String>>,
    /// Lists folders below `root` that have no index file: `true`, or the file of a template for the page.
    #[setting(example = true, example = "listing.html")]
    pub browse: Option<Browse>,
    /// File below `root` to serve when a path is not found: the page of a single-page application.
    #[setting(example = "index.html")]
    pub fallback: Option<String>,
    /// PHP application to run when no route matches: its folder, or a table with the keys of `php`. Short for a last
    /// route with `path = "/*"` and `php = { root = ... }`.
    #[setting(example = "public")]
    pub php: Option<PhpTable>,
    /// FastCGI authorizer for all routes of the site: an app that decides which requests are allowed. A route can use
    /// another one, or none.
    #[setting(example = { address = "unix:/run/auth.sock" })]
    pub authorize: Option<AuthorizeTable>,
    /// File with redirects of single paths, which come before all routes. A line has a path, a target, and optionally a status:
    /// `/old.html /new/ 302`. The default status is 301, and `#` begins a comment. A target without a query gets that of the
    /// request.
    #[setting(example = "redirects.txt")]
    pub redirects: Option<FilePath>,
    /// Access log of the site, instead of that of the server; `false` for none. Sites can have a file in common, with the same settings.
    #[setting(example = "/var/log/rudy/example.log")]
    pub access_log: Option<OrOff<AccessLogTable>>,
    /// What surrounds the handlers of all routes.
    #[setting(part)]
    pub steps: StepsTable,
    /// Routes, tried in order. The first one that matches the path handles the request.
    pub route: Vec<Located<RouteTable>>,
}

/// A route: a path pattern and one handler.
#[derive(Debug, Clone, Table)]
pub struct RouteTable {
    /// Paths that the route matches. `/about` matches that path only, `/docs/*` matches `/docs` and everything below.
    /// In other patterns, `*` and `?` match any characters except a slash, `**` matches any characters, `{a,b}`
    /// matches a or b, and `[a-z]` matches one character. A pattern without a slash, such as `*.php`, is matched
    /// against the last part of the path. Matching is case-sensitive, on the percent-decoded path (`/café`, not
    /// `/caf%C3%A9`).
    #[setting(example = "/docs/*")]
    pub path: OneOrMany<PathPattern>,
    /// FastCGI authorizer for this route, instead of the one of the site. `false` disables authorization for the
    /// route.
    #[setting(example = false)]
    pub authorize: Option<OrOff<AuthorizeTable>>,
    /// What surrounds the handler, besides the settings of the site.
    #[setting(part)]
    pub steps: StepsTable,
    /// Passes TRACE requests to the app of this route. Otherwise they get 405, because a response to TRACE repeats
    /// the request, including credentials added by proxies.
    #[setting(default)]
    pub allow_trace: bool,
    /// The handler. `None` if its table has an error.
    #[setting(choice)]
    pub handler: Option<HandlerTable>,
}

/// Access log: a file, or a table with a file, a format, and conditions.
#[derive(Debug, Clone, Table)]
#[setting(short(path), what = "a file (\"access.log\") or a table")]
pub struct AccessLogTable {
    /// File to append to, relative to the configuration file. `-` is the standard output. Exactly one of `path`, `syslog` and
    /// `journald` is required.
    #[setting(example = "access.log")]
    pub path: Option<FilePath>,
    /// Receiver of syslog messages (RFC 5424), one per line, instead of a file: `unix:/dev/log` or `udp:HOST:514`.
    #[setting(example = "unix:/dev/log")]
    pub syslog: Option<Receiver>,
    /// Sends the lines to the journal of systemd instead of a file.
    #[setting(default)]
    pub journald: bool,
    /// Rotation of the file by Rudy itself. Without it, another program such as logrotate can rename the file.
    #[setting(example = { size = "100M", keep = 14 })]
    pub rotate: Option<RotationTable>,
    /// Format of a line: `combined`, the format of Apache and nginx, followed by the duration in microseconds, the time to the first
    /// byte of the response, and how the exchange ended; `json`, an object per line; or a line with fields in braces. The fields are
    /// listed in `docs/logs.md`. The default is `combined`.
    #[setting(example = "json")]
    pub format: Option<Format>,
    /// Paths to log, as patterns like those of routes. The default is all.
    #[setting(example = ["/api/*"])]
    pub paths: Option<OneOrMany<PathPattern>>,
    /// Paths without log lines, such as those of health checks.
    #[setting(example = ["/health", "*.css"])]
    pub except_paths: Option<OneOrMany<PathPattern>>,
    /// Logs only requests with these statuses, such as `5xx`, and those that are `slower_than`. With `sample`, some others too.
    #[setting(example = ["4xx", "5xx"])]
    pub statuses: Option<OneOrMany<StatusRange>>,
    /// Logs only requests that last longer, and those with one of `statuses`. With `sample`, some others too.
    #[setting(example = "1s")]
    pub slower_than: Option<Timeout>,
    /// Logs one of this many requests, chosen at random, of those that neither `statuses` nor `slower_than` selects. In JSON, such a line
    /// has the number as `sample`.
    #[setting(example = 100)]
    pub sample: Option<Int<1, 1_000_000>>,
}

impl AccessLogTable {
    /// Returns the conditions for a line.
    pub(super) fn conditions(&self) -> Conditions {
        let patterns = |paths: &Option<OneOrMany<PathPattern>>| {
            paths.as_ref().map_or_else(Vec::new, |paths| paths.as_slice().to_vec())
        };
        Conditions {
            paths: patterns(&self.paths),
            except_paths: patterns(&self.except_paths),
            statuses: self.statuses.as_ref().map_or_else(Vec::new, |statuses| statuses.as_slice().to_vec()),
            slower_than: self.slower_than.map(|time| time.0),
            sample: self.sample.map(Int::as_u32),
        }
    }
}

/// Error log: a file, or a table with a destination, a format, and levels.
#[derive(Debug, Clone, Table)]
#[setting(short(path), what = "a file (\"error.log\") or a table", default)]
pub struct ErrorLogTable {
    /// File to append to, relative to the configuration file. `-` is the standard output. The default is stderr. A change of the
    /// destination or the format needs a restart.
    #[setting(example = "error.log")]
    pub path: Option<FilePath>,
    /// Receiver of syslog messages (RFC 5424), instead of a file: `unix:/dev/log` or `udp:HOST:514`.
    #[setting(example = "unix:/dev/log")]
    pub syslog: Option<Receiver>,
    /// Sends the lines to the journal of systemd, with their priorities.
    pub journald: bool,
    /// Rotation of the file by Rudy itself.
    #[setting(example = { size = "10M", keep = 5 })]
    pub rotate: Option<RotationTable>,
    /// Format of a line: `text` or `json`.
    pub format: LineFormat,
    /// Least severe lines that are logged: `off`, `error`, `warn` (also errors of clients), `info` (also notices and the output of
    /// apps), `debug` (also each request), or `trace`.
    pub level: Level,
    /// Levels of targets, instead of `level`: `route`, `proxy` and `fastcgi` are about requests, `server` is everything else.
    #[setting(example = { proxy = "debug" })]
    pub levels: BTreeMap<LogTarget, Level>,
}

/// What lines of the error log are about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Words)]
pub enum LogTarget {
    /// The route of each request.
    Route,
    /// Requests to upstreams.
    Proxy,
    /// Requests to FastCGI apps.
    Fastcgi,
    /// Everything else.
    Server,
}

impl ErrorLogTable {
    /// Returns the levels of all targets.
    pub(super) fn levels(&self) -> Levels {
        let targets = self.levels.iter().map(|(target, level)| (target.word().to_owned(), *level));
        Levels { all: self.level, targets: targets.collect() }
    }
}

/// The length of a day in milliseconds.
const DAY_MS: u64 = 86_400_000;

/// Rotation of a log file. Without `size` and `every`, the file is rotated at 100 MiB.
#[derive(Debug, Clone, Table)]
#[setting(default)]
pub struct RotationTable {
    /// Size at which the file is rotated, at most once a second.
    #[setting(example = "100M")]
    pub size: Option<Size>,
    /// Time after which the file is rotated, counted from midnight: `1d` rotates at midnight, `6h` four times a day. It divides 24 hours, or
    /// is a number of days, counted from 1 January 1970, which was a Thursday: `7d` rotates at the start of each Thursday.
    #[setting(example = "1d")]
    pub every: Option<Time<1000, { 365 * DAY_MS }>>,
    /// Number of rotated files to keep.
    #[setting(default = Int(14))]
    pub keep: Int<1, 10_000>,
    /// Compression of rotated files. The newest rotated file is not compressed.
    #[setting(default = RotatedFiles::Zstd)]
    pub compress: RotatedFiles,
}

/// How rotated files are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Words)]
pub enum RotatedFiles {
    /// Compressed with `zstd`.
    Zstd,
    /// Compressed with `gzip`.
    Gzip,
    /// Not compressed.
    None,
}

impl RotationTable {
    /// The size at which a file is rotated if nothing else is set.
    const SIZE: u64 = 100 * 1024 * 1024;

    /// Rejects a time that neither divides a day nor is a number of days: it would begin at another time each day.
    pub(super) fn check(&self, location: &Location) -> Result<(), Box<Problem>> {
        let Some(every) = self.every else { return Ok(()) };
        let day = DAY_MS / 1000;
        let fits = |seconds: &u64| day.is_multiple_of(*seconds) || seconds.is_multiple_of(day);
        let seconds = every.0.as_secs();
        if every.0.subsec_nanos() == 0 && fits(&seconds) {
            return Ok(());
        }
        // A second fits, and so does each number of days.
        let near = [(1..=seconds).rev().find(fits), (seconds + 1..=seconds + day).find(fits)];
        let near = near.map(|seconds| <Time>::from(Duration::from_secs(seconds.unwrap_or(day))));
        let title = format!("{every} neither divides 24 hours nor is a number of days");
        let problem = Problem::value(&location.key("every"), title);
        Err(problem.label(format!("expected for example \"{}\" or \"{}\"", near[0], near[1])).into())
    }

    /// Returns the options of the writer.
    pub(super) fn options(&self) -> RotationOptions {
        RotationOptions {
            size: self.size.map(|size| size.0).or(self.every.is_none().then_some(Self::SIZE)),
            every: self.every.map(|time| time.0),
            keep: self.keep.as_usize(),
            compression: match self.compress {
                RotatedFiles::Zstd => Some(Compression::Zstd),
                RotatedFiles::Gzip => Some(Compression::Gzip),
                RotatedFiles::None => None,
            },
        }
    }
}

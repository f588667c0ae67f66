//! Hints for unknown keys: a similar name, the new name of a renamed key, the right table for a misplaced key, and the
//! equivalent of a directive of another server.

use rudy_config::{Choice, Hints, Location, Problem, Table};
use rudy_files::FilesTable;

use super::limits::LimitsTable;
use super::{Config, HandlerTable, Route, Site};

/// Keys that were renamed or moved since earlier versions.
const REPLACED: [(&str, &str); 22] = [
    ("answer_time", "`response_timeout`"),
    ("app_root", "`upstream_root`"),
    ("connect_time", "`connect_timeout`"),
    (
        "error_pages",
        "`error_pages = { 404 = \"/404.html\" }` in the [[site.route]] or [[site]], with a path of the site",
    ),
    ("head_time", "`head_timeout`"),
    ("headers", "`response_headers = { Name = \"value\" }` in the [[site.route]] or [[site]]"),
    ("hidden", "`serve_hidden`"),
    ("history_time", "`history_timeout`"),
    ("idle_time", "`idle_timeout`"),
    ("keep_time", "`idle_timeout`"),
    ("linger_time", "`linger_timeout`"),
    ("memory_bytes", "`cache_size`"),
    ("memory_file_bytes", "`cache_max_file_size`"),
    ("needs_length", "`buffer_chunked`"),
    ("queue_time", "`queue_timeout`"),
    ("retire_time", "`retire_timeout`"),
    ("send_stall_time", "`send_stall_timeout`"),
    ("shutdown", "`shutdown_timeout = \"30s\"`, at the top of the main file"),
    ("spill_bytes", "`buffer_total`, for the whole server, at the top of the main file"),
    ("spill_folder", "`buffer_dir`, for the whole server, at the top of the main file"),
    ("split", "`script_suffix`"),
    ("stop_time", "`stop_timeout`"),
];

const CERTIFICATE: &str = "write `tls = { certificate = \"cert.pem\", key = \"key.pem\" }` in a [[site]], and append `,tls` to an address of `listen`";
const PASSWORDS: &str = "write `basic_auth = \"htpasswd\"` in a [[site]] or [[site.route]]";
const AUTHORIZER: &str =
    "write `forward_auth = \"http://127.0.0.1:9091/verify\"` in a [[site]] or [[site.route]]";
const DENY_ALL: &str = "write `respond = 403` in a [[site.route]] to deny all clients, and `deny = \"192.0.2.0/24\"` to deny some";
const CACHE_CONTROL: &str =
    "write `cache_control = [{ pattern = \"*.css\", value = \"max-age=3600\" }]` in `files`";
const COMPRESSION: &str =
    "write `compression = true` in a [[site]] or [[site.route]]; files are compressed without it";
const ERROR_PAGES: &str = "write `error_pages = { 404 = \"/404.html\" }` in a [[site]] or [[site.route]]";
const LOG_FORMAT: &str =
    "write `access_log = { path = \"access.log\", format = \"json\" }` at the top of the main file";
const NO_PID_FILE: &str = "Rudy writes no PID file, and `rudy reload` finds the process: remove this key";
const MEDIA_TYPES: &str = "write `media_types = { md = \"text/markdown\", \"*\" = \"text/plain\" }` in a [[site]] or [[site.route]]";
const RATE_LIMIT: &str = "write `rate_limit = \"10/s\"` in a [[site]] or [[site.route]]";
const ERROR_LOG: &str =
    "write `error_log = { path = \"error.log\", level = \"warn\" }` at the top of the main file";
const HTTP2: &str = "HTTP/2 is on by default; `http2 = false` at the top of the main file switches it off";
const ONE_TIMEOUT: &str =
    "write `limits = { head_timeout = \"10s\", idle_timeout = \"75s\" }` at the top of the main file";
const TRUSTED: &str = "write `trusted_proxies = [\"10.0.0.0/8\"]` at the top of the main file";
const PROXY: &str = "write `proxy = \"http://127.0.0.1:3000\"` in a [[site.route]]";

/// Directives of nginx, Caddy and Apache, in lower case, with the equivalent.
const OTHER_SERVERS: [(&str, &str); 89] = [
    ("add_header", "write `response_headers = { Name = \"value\" }` in a [[site]] or [[site.route]]"),
    ("addtype", MEDIA_TYPES),
    ("alias", "write `files = { root = \"...\" }` in a [[site.route]] with `path = \"/docs/*\"`"),
    ("auth", PASSWORDS),
    ("auth_basic", PASSWORDS),
    ("auth_basic_user_file", PASSWORDS),
    ("auth_request", AUTHORIZER),
    ("autoindex", "write `browse = true`"),
    ("basicauth", PASSWORDS),
    ("bind", "write `listen = \"127.0.0.1:8080\"` in a [[site]] or at the top of the main file"),
    ("brotli", "write `br`"),
    ("certificate", CERTIFICATE),
    ("client_body_timeout", "write `limits = { body_rate_min = 500 }` at the top of the main file"),
    ("client_header_timeout", "write `limits = { head_timeout = \"10s\" }` at the top of the main file"),
    ("client_max_body_size", "write `body_bytes = \"16M\"` in a [[site]] or [[site.route]]"),
    ("default_type", MEDIA_TYPES),
    ("directory_listing", "write `browse = true`"),
    ("directoryindex", "write `index = [\"index.html\"]`"),
    (
        "disable_symlinks",
        "Rudy follows links out of the folder only with `follow_symlinks = true`: remove this key",
    ),
    ("document_root", "write `root = \"public\"`"),
    ("documentroot", "write `root = \"public\"`"),
    ("dotfiles", "write `serve_hidden = true` in `files`"),
    ("encode", COMPRESSION),
    ("env", "write `params = { NAME = \"value\" }` in `fastcgi` or `php`"),
    ("error_page", ERROR_PAGES),
    ("errordocument", ERROR_PAGES),
    ("errorlog", ERROR_LOG),
    ("every", "write `interval`"),
    ("expires", CACHE_CONTROL),
    ("fastcgi_pass", "write `fastcgi = { address = \"127.0.0.1:9000\" }` in a [[site.route]]"),
    ("fastcgi_read_timeout", "write `response_timeout = \"60s\"` in `fastcgi` or `php`"),
    ("file_server", "write `root = \"public\"`"),
    ("forbidden", DENY_ALL),
    ("group", "write `user = \"www-data:www-data\"`"),
    ("gzip", COMPRESSION),
    ("handle", "write [[site.route]] and `path = \"/docs/*\"`"),
    ("host", "write `hosts = \"example.org\"` in a [[site]]"),
    ("http", "this table does not exist: write its keys at the top of the main file"),
    ("http2", HTTP2),
    ("immutable", CACHE_CONTROL),
    ("json_log", LOG_FORMAT),
    ("keepalive_timeout", "write `limits = { idle_timeout = \"75s\" }` at the top of the main file"),
    ("limit_conn", "write `concurrent_requests = 10` in a [[site]] or [[site.route]]"),
    ("limit_rate", "write `bandwidth = \"500k\"` in a [[site]] or [[site.route]]"),
    ("limit_req", RATE_LIMIT),
    ("listing", "write `browse = true`"),
    ("location", "write [[site.route]] and `path = \"/docs/*\"`"),
    ("log", "write `access_log = \"access.log\"` at the top of the main file"),
    ("log_format", LOG_FORMAT),
    ("log_level", ERROR_LOG),
    ("logging", "write `access_log = \"access.log\"` at the top of the main file"),
    ("match", "write `path = \"/docs/*\"`"),
    ("max_age", CACHE_CONTROL),
    ("php_fastcgi", "write `php = { root = \"public\", address = \"127.0.0.1:9000\" }`"),
    ("pid", NO_PID_FILE),
    ("pid_file", NO_PID_FILE),
    ("pidfile", NO_PID_FILE),
    ("port", "write `listen = 8080` at the top of the main file"),
    ("proxy", PROXY),
    ("proxy_pass", PROXY),
    ("proxy_protocol", "write `listen = \"127.0.0.1:8080,proxy_protocol\"` at the top of the main file"),
    ("proxypass", PROXY),
    ("rate_limit", RATE_LIMIT),
    ("real_ip_header", "write `client_address = \"x-forwarded-for\"` at the top of the main file"),
    ("redir", "write `redirect = \"/new\"` in a [[site.route]]"),
    ("return", "write `redirect = \"/new\"` or `respond = 404` in a [[site.route]]"),
    ("reverse_proxy", PROXY),
    (
        "rewrite",
        "write `rewrite = \"/new/{rest}\"`, or `redirect`, in a [[site.route]] with `path = \"/old/*\"`",
    ),
    (
        "rotate",
        "write `access_log = { path = \"access.log\", rotate = { every = \"1d\" } }` at the top of the main file",
    ),
    ("scriptalias", "write `fastcgi = { address = \"...\" }` in a [[site.route]]"),
    ("send_timeout", "write `limits = { send_stall_timeout = \"30s\" }` at the top of the main file"),
    ("server", "write [[site]]"),
    ("server_name", "write `hosts = [\"example.org\"]`"),
    ("serveralias", "write `hosts = [\"example.org\", \"www.example.org\"]`"),
    ("servername", "write `hosts = [\"example.org\"]`"),
    ("set_real_ip_from", TRUSTED),
    ("socket", "write `address = \"unix:/run/php/php-fpm.sock\"`"),
    ("spa", "write `fallback = \"index.html\"`"),
    ("ssl_certificate", CERTIFICATE),
    ("sslcertificatefile", CERTIFICATE),
    ("timeout", ONE_TIMEOUT),
    ("timeouts", ONE_TIMEOUT),
    ("tls", CERTIFICATE),
    ("trusted_hosts", "write `hosts = [\"example.org\"]` in a [[site]]"),
    ("types", MEDIA_TYPES),
    ("upstream", "write `address = [\"127.0.0.1:9000\", \"127.0.0.1:9001\"]` in `fastcgi`"),
    ("virtualhost", "write [[site]]"),
    ("worker_connections", "write `limits = { connections = 10000 }` at the top of the main file"),
    ("worker_processes", "write `cores = 4` at the top of the main file"),
];

/// Keys for a front controller in other servers. `php` needs none of them.
const FRONT_CONTROLLER_KEYS: [&str; 5] = ["fallback", "front_controller", "index", "script", "try_files"];

/// What Rudy says about mistakes in its tables.
pub(super) struct TablesHints;

impl Hints for TablesHints {
    fn unknown(&self, location: &Location, key: &str) -> Option<String> {
        if let Some((_, new)) = REPLACED.iter().find(|(old, _)| *old == key) {
            return Some(format!("replaced by {new}"));
        }
        let other = || OTHER_SERVERS.iter().find(|(theirs, _)| *theirs == key.to_ascii_lowercase());
        elsewhere(location, key).or_else(|| other().map(|(_, ours)| (*ours).to_owned()))
    }

    fn missing(&self, location: &Location, key: &str, problem: Problem) -> Problem {
        let handler = location.keys().rsplit('.').next().unwrap_or_default().to_owned();
        match (handler.as_str(), key) {
            ("status" | "info" | "tail", "allow") | ("broadcast", "publish") => {
                let files = if handler == "tail" { "files = \"access.log\", " } else { "" };
                let problem = problem.label(format!("write {handler} = {{ {files}{key} = \"loopback\" }}"));
                problem.help(format!(
                    "`{key}` lists the clients to allow: \"loopback\" (this machine, without a proxy), addresses and networks, or \"anyone\""
                ))
            }
            ("route", "path") => problem.label("needs `path`, for example `path = \"/*\"` for all paths"),
            _ => ().missing(location, key, problem),
        }
    }

    fn example(&self, location: &Location, expected: &str) -> Option<String> {
        let keys = location.keys();
        let begin = match expected {
            "a table" => '{',
            "a list" => '[',
            _ => return None,
        };
        let is_expected = |example: &str| example.starts_with(begin);
        let (name, example) =
            crate::reference::example(Config::TABLE, keys.rsplit('.').next()?, is_expected)?;
        let status_code = if name == "status" { "; `respond = 403` sends a status code" } else { "" };
        Some(format!("write `{name} = {example}`{status_code}"))
    }

    fn choice(&self) -> (&'static str, &'static str) {
        ("route", "handler")
    }
}

/// Explains where to write a key that belongs to another table.
fn elsewhere(location: &Location, key: &str) -> Option<String> {
    let table = location.parent()?.keys();
    let is_main = Config::TABLE.has(key);
    match table.as_str() {
        "access_log" | "site.access_log" if key == "file" => Some("write `path = \"access.log\"`".to_owned()),
        "access_log" | "site.access_log" if key == "json" => Some("write `format = \"json\"`".to_owned()),
        "site.php" | "site.route.php" if FRONT_CONTROLLER_KEYS.contains(&key) => {
            Some("`php` runs index.php for paths without a file: remove this key".to_owned())
        }
        "site.route.redirect" if matches!(key, "location" | "target" | "url") => {
            Some("write `to = \"/new\"`".to_owned())
        }
        "site.route.redirect" if matches!(key, "code" | "permanent") => {
            Some("write `status = 301`".to_owned())
        }
        "limits" if is_main => Some("write this above [limits]".to_owned()),
        _ if is_main && table.is_empty() => {
            Some("write this in the main file: an included file can only contain sites".to_owned())
        }
        "site" | "site.route" if is_main => Some("write this before the first [[site]]".to_owned()),
        "site" if FilesTable::TABLE.has(key) => Some(format!(
            "write [[site.route]], `path = \"/*\"` and `files = {{ root = \"...\", {key} = ... }}` in place of `root`"
        )),
        "site.route" if key == "root" => Some("write `files = \"public\"`".to_owned()),
        "site.route" if FilesTable::TABLE.has(key) => {
            Some(format!("write `files = {{ root = \"...\", {key} = ... }}`"))
        }
        "" | "site" if LimitsTable::TABLE.has(key) => {
            Some(format!("write `limits = {{ {key} = ... }}` at the top of the main file"))
        }
        "" if Site::TABLE.has(key) => Some("write [[site]] above this".to_owned()),
        "" if FilesTable::TABLE.has(key) => {
            Some(format!("write `files = {{ root = \"...\", {key} = ... }}` in a [[site.route]]"))
        }
        "" | "site" if HandlerTable::KEYS.iter().any(|handler| handler.name == key) => {
            Some(format!("write [[site.route]], `path = \"/*\"` and `{key} = ...`"))
        }
        "" | "site" if Route::TABLE.has(key) => Some("write [[site.route]] above this".to_owned()),
        _ => None,
    }
}

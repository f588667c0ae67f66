//! The tables of the handlers that pass requests to an app.

use std::collections::BTreeMap;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Deserialize;

use super::Fastcgi;
use crate::config::{AppTable, FilePath, Place, Problem, Size};
use crate::handlers::{Handler, Make, Making};
use crate::routing::PathPattern;

/// How the names of PHP scripts end.
pub(crate) const PHP_SUFFIX: &str = ".php";

/// An app that speaks FastCGI: php-fpm, or one in Perl, Python, Go, Rust.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(extend("examples" = [{ "address": "127.0.0.1:9000" }]))]
pub struct FastcgiTable {
    /// The app.
    #[serde(rename = "$app")]
    #[schemars(flatten)]
    pub app: AppTable,
    /// The folder of its scripts: `DOCUMENT_ROOT`, and the beginning of `SCRIPT_FILENAME`. Relative to the file that names
    /// it. What the `*` of a route such as `/app/*` stands for is looked up in it.
    #[schemars(extend("examples" = ["/srv/app"]))]
    pub root: Option<FilePath>,
    /// The same folder as the app sees it, where that is another path: in a container.
    #[schemars(extend("examples" = ["/var/www/html"]))]
    pub upstream_root: Option<PathBuf>,
    /// How the names of scripts end, as in `.php`: the path up to there is `SCRIPT_NAME`, the rest `PATH_INFO`; a path
    /// without such a part is not passed on (404). If absent, it is `.php` for routes such as `*.php`; for others
    /// `SCRIPT_NAME` is the path of the route, as `/app` of `/app/*`. `php` has its own rules.
    #[schemars(extend("examples" = [".php"]))]
    pub script_suffix: Option<String>,
    /// Whether the app is asked only for scripts that are files in `root` (404 for others); needs `script_suffix`. `false` where they
    /// are on another machine, or where the app has one script for all paths.
    pub check_scripts: bool,
    /// Whether symbolic links to scripts and files may lead out of `root`.
    pub follow_symlinks: bool,
    /// A folder whose files the app may have sent, by `X-Sendfile` or `X-Accel-Redirect` in its answer: it decides who may have
    /// a file, and the server sends it. Relative to the file that names it. Not allowed if absent.
    #[schemars(extend("examples" = ["/srv/downloads"]))]
    pub sendfile_root: Option<FilePath>,
    /// Variables for the app, in addition to the usual ones or in place of them.
    #[schemars(extend("examples" = [{ "APP_ENV": "production" }]))]
    pub params: BTreeMap<String, String>,
    /// Whether the whole body of a request is stored before the app is asked, so that a slow client holds no connection to it.
    /// `false` passes bodies with a length on as they come.
    pub request_buffering: bool,
    /// Whether bodies without a length, which come in chunks, are stored even with `request_buffering = false`: CGI has the app
    /// read as many bytes as `CONTENT_LENGTH` says. `false` where the app reads to the end instead.
    pub buffer_chunked: bool,
    /// Bytes of one response that may be stored in a file, where its client reads it more slowly than the app sends it. Beyond
    /// it, the app has to wait for the client. 0: nothing but 64 KiB in memory.
    pub response_buffer: Size,
}

impl Default for FastcgiTable {
    fn default() -> Self {
        Self {
            app: AppTable::default(),
            root: None,
            upstream_root: None,
            script_suffix: None,
            check_scripts: true,
            follow_symlinks: false,
            sendfile_root: None,
            params: BTreeMap::new(),
            request_buffering: true,
            buffer_chunked: true,
            // `proxy_max_temp_file_size` of nginx.
            response_buffer: Size(1 << 30),
        }
    }
}

impl FastcgiTable {
    /// How the names of scripts end: `.php` where the paths of the route say so.
    pub(crate) fn suffix(&self, paths: &[PathPattern]) -> Option<&str> {
        let by_paths = || paths.iter().all(|path| path.takes_only_names(PHP_SUFFIX)).then_some(PHP_SUFFIX);
        self.script_suffix.as_deref().or_else(by_paths)
    }

    /// What a type cannot say.
    pub(super) fn problems(&self, place: &Place) -> Vec<Problem> {
        let mut problems = self.app.problems(place);
        if self.root.is_some() && self.check_scripts && self.script_suffix.is_none() {
            let title = "`root` needs `script_suffix`: which part of a path is the script is unknown";
            let problem = Problem::value(&place.key("root"), title).label("scripts here cannot be checked");
            let help = "add `script_suffix = \".cgi\"` (how the names of scripts end), or `check_scripts = false` if the app has one \
                        script for all paths";
            problems.push(problem.help(help).unless_wrong(&place.key("script_suffix")));
        }
        problems
    }
}

impl Make for FastcgiTable {
    fn describe(&self) -> String {
        let root = self.root.as_ref().map(|root| format!(", scripts of {}", root.display()));
        format!("{}{}", self.app.describe(), root.unwrap_or_default())
    }

    fn reads(&self) -> Vec<PathBuf> {
        self.root.iter().chain(&self.sendfile_root).map(|root| root.0.clone()).collect()
    }

    fn make(&self, route: &Making<'_>) -> Result<Box<dyn Handler>, Vec<Problem>> {
        let script_suffix = self.suffix(route.paths).map(str::to_owned);
        let table = Self { script_suffix, ..self.clone() };
        Ok(Box::new(Fastcgi::new(&table, route.place, route.folders)?))
    }

    fn app(&self) -> Option<&AppTable> {
        Some(&self.app)
    }
}

//! The table of the handler that asks an app.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::Deserialize;

use super::app::{AppTable, missing};
use super::values::Size;
use super::{Config, Handler, Place, Problem};
use crate::routing::PathPattern;
use crate::upstream::UpstreamAddress;

/// How the names of PHP scripts end.
pub(super) const PHP_SUFFIX: &str = ".php";

/// An app that speaks FastCGI: php-fpm, or one in Perl, Python, Go, Rust.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct FastcgiTable {
    /// The app.
    #[serde(flatten)]
    pub app: AppTable,
    /// The folder of its scripts: `DOCUMENT_ROOT`, and the beginning of `SCRIPT_FILENAME`. Relative to the file that names
    /// it. What the `*` of a route such as `/app/*` stands for is looked up in it.
    #[schemars(length(min = 1))]
    pub root: Option<PathBuf>,
    /// The same folder as the app sees it, where that is another path: in a container.
    #[schemars(length(min = 1))]
    pub upstream_root: Option<PathBuf>,
    /// How the names of scripts end, as in `.php`: the path up to there is `SCRIPT_NAME`, the rest `PATH_INFO`; a path
    /// without such a part is not passed on (404). If absent, it is `.php` for routes such as `*.php`; for others
    /// `SCRIPT_NAME` is the path of the route, as `/app` of `/app/*`. `php` has its own rules.
    #[schemars(length(min = 2))]
    pub script_suffix: Option<String>,
    /// Whether the app is asked only for scripts that are files in `root` (404 for others); needs `script_suffix`. `false` where they
    /// are on another machine, or where the app has one script for all paths.
    pub check_scripts: bool,
    /// Whether symbolic links to scripts and files may lead out of `root`.
    pub follow_symlinks: bool,
    /// A folder whose files the app may have sent, by `X-Sendfile` or `X-Accel-Redirect` in its answer: it decides who may have
    /// a file, and the server sends it. Relative to the file that names it. Not allowed if absent.
    #[schemars(length(min = 1))]
    pub sendfile_root: Option<PathBuf>,
    /// Variables that the app is told in addition, or instead of what it would be told.
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
    /// A PHP site: everything as usual.
    #[must_use]
    pub fn php(root: impl Into<PathBuf>) -> Self {
        Self { root: Some(root.into()), ..Self::default() }
    }

    /// Where paths are relative to `folder`, they are no longer.
    pub(super) fn resolve(&mut self, folder: &Path) {
        self.app.resolve(folder);
        for path in [&mut self.root, &mut self.sendfile_root].into_iter().flatten() {
            *path = folder.join(&*path);
        }
    }

    /// Takes `.php` for the suffix of scripts where the paths of the route say so.
    pub(super) fn choose_suffix(&mut self, paths: &[PathPattern]) {
        if self.script_suffix.is_none() && paths.iter().all(|path| path.takes_only_names(PHP_SUFFIX)) {
            self.script_suffix = Some(PHP_SUFFIX.to_owned());
        }
    }

    /// What the schema cannot say.
    pub(crate) fn problems(&self, place: &Place) -> Vec<Problem> {
        let mut problems = self.app.problems(place);
        if self.root.is_some() && self.check_scripts && self.script_suffix.is_none() {
            let title = "`root` needs `script_suffix`: which part of a path is the script is unknown";
            let problem = Problem::value(&place.key("root"), title).label("scripts here cannot be checked");
            let help = "add `script_suffix = \".cgi\"` (how the names of scripts end), or `check_scripts = false` if the app has one \
                        script for all paths";
            problems.push(problem.help(help));
        }
        problems
    }

    /// What the schema cannot say of a PHP site.
    pub(crate) fn problems_of_php(&self, place: &Place) -> Vec<Problem> {
        let mut problems = self.app.problems_with_address(place);
        if self.root.is_none() {
            problems.push(missing("root", place));
        }
        if self.script_suffix.is_some() {
            let problem = Problem::key(&place.key("script_suffix"), "`php` runs what ends in .php");
            problems.push(problem.label("not known here").help("`fastcgi` runs what ends otherwise"));
        }
        if !self.check_scripts {
            let problem =
                Problem::value(&place.key("check_scripts"), "`php` looks every path up in its folder");
            let help = "if php-fpm has the same folder at another path, `upstream_root` says which";
            problems.push(problem.label("cannot be left out").help(help));
        }
        problems
    }
}

impl Config {
    /// Sockets of PHP sites that are not there: a notice and no error, because php-fpm may start after us.
    pub(super) fn absent_sockets(&self) -> impl Iterator<Item = String> {
        let routes = self.sites.iter().flat_map(|site| &site.routes);
        let addresses = routes.flat_map(|route| match &route.handler {
            Handler::Php(php) => php.app.addresses(),
            _ => Vec::new(),
        });
        addresses.filter_map(|address| match address {
            UpstreamAddress::Unix(path) if !path.exists() => Some(format!(
                "{} is not there: requests for PHP are answered 502 until php-fpm listens on it (`address` says \
                 where, if it is elsewhere)",
                path.display()
            )),
            _ => None,
        })
    }
}

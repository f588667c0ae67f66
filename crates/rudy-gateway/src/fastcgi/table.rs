//! The tables of the handlers that pass requests to an app.

use std::collections::BTreeMap;
use std::path::PathBuf;

use rudy_config::{FilePath, Location, Problem, Table};
use rudy_files::replacement::ReplacementTable;
use rudy_pipeline::routing::PathPattern;
use rudy_pipeline::{BuildContext, Handler, HandlerConfig};
use rudy_units::Size;

use super::AppTable;
use super::Fastcgi;

/// The suffix of PHP scripts.
pub const PHP_SUFFIX: &str = ".php";

/// Passes requests to a FastCGI app, such as php-fpm, or a program in Perl, Python, Go or Rust.
#[derive(Debug, Clone, PartialEq, Eq, Table)]
#[setting(default, example = { address = "127.0.0.1:9000" })]
pub struct FastcgiTable {
    /// The app.
    #[setting(part)]
    pub app: AppTable,
    /// Folder of the scripts, relative to the configuration file: `DOCUMENT_ROOT`, and the start of
    /// `SCRIPT_FILENAME`. In a route such as `/app/*`, Rudy looks up the part that `*` matches.
    #[setting(example = "/srv/app")]
    pub root: Option<FilePath>,
    /// Path of `root` as the app sees it. Set it if the app runs in a container.
    #[setting(example = "/var/www/html")]
    pub upstream_root: Option<PathBuf>,
    /// Suffix of script names, such as `.php`. The path up to the suffix is `SCRIPT_NAME`, the rest is `PATH_INFO`; a
    /// path without the suffix gets 404. The default is `.php` in routes such as `*.php`. In other routes,
    /// `SCRIPT_NAME` is the prefix of the route: `/app` for `/app/*`. `php` has its own rules.
    #[setting(example = ".php")]
    pub script_suffix: Option<String>,
    /// Passes only requests for scripts that exist in `root`; others get 404. Needs `script_suffix`. Use `false` if
    /// the scripts are on another machine, or if one script handles all paths.
    #[setting(default = true)]
    pub check_scripts: bool,
    /// Follows symbolic links that lead out of `root`.
    pub follow_symlinks: bool,
    /// What the app may name instead of a response of its own.
    #[setting(part)]
    pub replacements: ReplacementTable,
    /// Additional FastCGI parameters. A parameter of the same name as a standard one replaces it.
    #[setting(example = { APP_ENV = "production" })]
    pub params: BTreeMap<String, String>,
    /// Receives the whole request body before connecting to the app, so that slow clients do not occupy its
    /// connections. With `false`, a body with a `Content-Length` is passed on while it arrives.
    #[setting(default = true)]
    pub request_buffering: bool,
    /// Buffers chunked request bodies even with `request_buffering = false`, because most apps need `CONTENT_LENGTH`.
    /// Use `false` for an app that reads its input to the end.
    #[setting(default = true)]
    pub buffer_chunked: bool,
    /// Maximum size of the temporary file for one response, which frees the app when its client reads slowly. Beyond
    /// it, the app waits for the client. With 0, Rudy buffers 64 KiB in memory only.
    #[setting(default = Size(1 << 30), reason = "`proxy_max_temp_file_size` of nginx.")]
    pub response_buffer: Size,
}

impl FastcgiTable {
    /// Returns the suffix of scripts: the configured one, or `.php` if all paths of the route end with it.
    #[must_use]
    pub fn suffix(&self, paths: &[PathPattern]) -> Option<&str> {
        let by_paths = || paths.iter().all(|path| path.matches_only_suffix(PHP_SUFFIX)).then_some(PHP_SUFFIX);
        self.script_suffix.as_deref().or_else(by_paths)
    }

    /// Returns the problems that the types of the table cannot express.
    pub(super) fn problems(&self, location: &Location) -> Vec<Problem> {
        let mut problems = self.app.problems(location);
        if self.root.is_some() && self.check_scripts && self.script_suffix.is_none() {
            let title =
                "`root` needs `script_suffix`: without it, the part of a path that is the script is unknown";
            let problem =
                Problem::value(&location.key("root"), title).label("cannot check scripts in this folder");
            let help = "add `script_suffix = \".cgi\"` (the suffix of the scripts), or `check_scripts = false` if the app has one \
                        script for all paths";
            problems.push(problem.help(help).unless_invalid(&location.key("script_suffix")));
        }
        problems
    }
}

impl HandlerConfig for FastcgiTable {
    fn describe(&self) -> String {
        let root = self.root.as_ref().map(|root| format!(", scripts of {}", root.display()));
        format!("{}{}", self.app.describe(), root.unwrap_or_default())
    }

    fn paths_read(&self) -> Vec<PathBuf> {
        self.root.iter().map(|root| root.0.clone()).chain(self.replacements.paths_read()).collect()
    }

    fn build(&self, route: &BuildContext<'_>) -> Result<Box<dyn Handler>, Vec<Problem>> {
        let script_suffix = self.suffix(route.paths).map(str::to_owned);
        let table = Self { script_suffix, ..self.clone() };
        Ok(Box::new(Fastcgi::new(&table, route.location, route.resources)?))
    }

    /// Without a suffix, the whole path is the script, but many apps search the script in it themselves (php-fpm does by default). An
    /// app that is mounted below a folder has no scripts.
    fn script_suffix<'a>(&'a self, paths: &'a [PathPattern]) -> Option<&'a str> {
        let by_paths = || paths.iter().find_map(PathPattern::suffix);
        let is_mounted = paths.iter().all(PathPattern::is_prefix);
        self.suffix(paths).or_else(by_paths).or((!is_mounted).then_some(PHP_SUFFIX))
    }
}

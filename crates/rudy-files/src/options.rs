//! How a folder is served, and why it cannot be.

use std::borrow::Cow;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use globset::{Glob, GlobSet, GlobSetBuilder};
use http::HeaderValue;
use rudy_config::{
    FieldValue, Int, Invalid, Location, OneOrMany, Problem, Setting, Shape, Table, Value, two_lines,
};
use rudy_pipeline::BuildContext;
use rudy_pipeline::compression::{Compression, CompressionSetting};
use rudy_pipeline::media_types::FileTypes;
use rudy_pipeline::routing::PathPattern;
use rudy_units::{Size, Time};

use super::browse::{Browse, ListingTemplate};
use super::placeholders::{TRY_FILES, is_below, unknown_placeholder};
use super::try_files::TriedFile;

/// How to serve a folder.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Table)]
#[setting(default)]
pub struct FilesOptions {
    /// Index files of folders, tried in order.
    #[setting(read = PathsBelowRoot, default = PathsBelowRoot::of("index.html"))]
    pub index: Vec<String>,
    /// Lists folders that have no index file: `true`, or the file of a template for the page.
    #[setting(default = Browse::Off, example = true, example = "listing.html")]
    pub browse: Browse,
    /// The template, when it was read.
    #[setting(skip)]
    pub listing: Option<ListingTemplate>,
    /// The media types of the route and its site.
    #[setting(skip)]
    pub types: FileTypes,
    /// Files to try, in order, instead of the path alone. `{path}` is the path of the request, as in `["{path}",
    /// "{path}.html"]`, and `{1}` a group of a `regex:` path. The first that is a file, or a path of another route, is used. A query is for
    /// the other route: `"/index.php?page={path}"`. It replaces that of the request, which is `{query}`.
    #[setting(read = OneOrMany<TriedFile>, example = ["{path}", "{path}.html"])]
    pub try_files: Vec<TriedFile>,
    /// The paths of the route, if groups of them are in `try_files`.
    #[setting(skip)]
    pub paths: Vec<PathPattern>,
    /// File to serve when nothing is found, relative to `root`: the page of a single-page application. A missing path
    /// with the extension of a known media type, such as `/app.js`, still gets 404.
    #[setting(read = PathBelowRoot, example = "index.html")]
    pub fallback: Option<String>,
    /// Passes requests for which nothing is found on to the next route that matches, with the path as the client sent it: an application behind
    /// static files. So are methods other than GET and HEAD, and paths that no folder can have, such as one with `%2F`.
    pub next_route: bool,
    /// `Cache-Control` by file name. The first pattern that matches applies.
    #[setting(example = [{ pattern = "*.css", value = "max-age=3600" }])]
    pub cache_control: Vec<CacheRule>,
    /// Serves files and folders whose names begin with a dot. `/.well-known/` is always served.
    pub serve_hidden: bool,
    /// Serves PHP source files (`.php`, `.phtml`, `.phar` and similar; on a site that runs PHP also `.inc` and backup
    /// copies of editors). Otherwise they get 404.
    pub serve_source: bool,
    /// Whether the site runs PHP, so that includes and copies beside its scripts are source too.
    #[setting(skip)]
    pub on_php_site: bool,
    /// Follows symbolic links that lead out of `root`. Otherwise they get 404, as do all absolute links.
    pub follow_symlinks: bool,
    /// Sends `name.br`, `name.zst` or `name.gz` instead of `name` if the client accepts it.
    #[setting(default = true)]
    pub precompressed: bool,
    /// Compression of files while they are sent: `true`, `false`, or a table. The default is the setting of the route or site,
    /// or `true` without one.
    #[setting(example = false)]
    pub compression: Option<CompressionSetting>,
    /// Maximum memory for cached file contents. 0 disables the cache. A quarter of it is for compressed copies of
    /// larger files. Routes with the same folder and options share one cache.
    #[setting(read = Size, default = Size(64 * 1024 * 1024))]
    pub cache_size: u64,
    /// Maximum size of a cached file, at most an eighth of `cache_size`. Larger files are read from disk for each
    /// response.
    #[setting(read = Size, default = Size(64 * 1024), reason = "Beyond this, sendfile costs less than the copy out of memory.")]
    pub cache_max_file_size: u64,
    /// Maximum number of larger files to keep open. A file is closed when it is unused for a minute.
    #[setting(read = Int<0, 1_000_000>, default = Int(256), reason = "A quarter of the usual soft limit of 1024.")]
    pub open_files: usize,
    /// Time for which a cached response is used without checking the file for changes.
    #[setting(read = Time, default = Time(Duration::from_secs(1)))]
    pub revalidate_after: Duration,
    /// Maximum number of entries in a directory listing.
    #[setting(read = Int<1, 1_000_000>, default = Int(5000))]
    pub listing_entries: usize,
}

/// A `Cache-Control` value for some files.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Table)]
pub struct CacheRule {
    /// Pattern for the path of a file below `root`. `*` also matches slashes, so `*.css` matches all style sheets.
    #[setting(read = Pattern, example = "*.css")]
    pub pattern: String,
    /// Value of `Cache-Control`, such as `max-age=31536000, immutable`.
    #[setting(read = FieldValue, example = "max-age=31536000, immutable")]
    pub value: HeaderValue,
}

/// Why a folder cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum FilesError {
    /// The folder cannot be opened.
    #[error("cannot open the folder {}: {error}{}", .0.display(), hint(.0), error = .1)]
    Root(PathBuf, #[source] io::Error),
    /// A pattern of a `cache_control` rule is not a valid glob.
    #[error("invalid glob in `cache_control`: {0}")]
    Pattern(#[source] globset::Error),
    /// The template of listings cannot be used.
    #[error("cannot use the template {}: {why}", .0.display(), why = .1)]
    Template(PathBuf, String),
    /// No file is missing for the next route.
    #[error("`fallback` and `next_route` both are for missing files")]
    TwoFallbacks,
    /// The path of this option is not below the root.
    #[error("{0}: \"{1}\" is not a path below the root, such as \"pages/home.html\"")]
    Path(&'static str, String),
    /// The path of this option has a placeholder that does not exist.
    #[error("{0}: \"{1}\" has the unknown placeholder `{2}`")]
    Placeholder(&'static str, String, String),
}

fn hint(root: &Path) -> &'static str {
    if root.to_string_lossy().contains("unix:/") {
        "; a socket is an address: `php = { root = \"...\", address = \"unix:...\" }`"
    } else {
        ""
    }
}

impl FilesError {
    /// Returns the diagnostic; `place` is that of the table.
    #[must_use]
    pub fn problem(&self, location: &Location) -> Problem {
        let key = match self {
            Self::Root(..) => "root",
            Self::Pattern(_) => "cache_control",
            Self::Template(..) => "browse",
            Self::TwoFallbacks => "next_route",
            Self::Path(option, _) | Self::Placeholder(option, ..) => option,
        };
        let problem = Problem::value(&location.key(key), self.to_string());
        match self {
            Self::Placeholder("try_files", ..) => {
                let expected = "expected `{path}`, the path of the request, or a group of the route's path, such as `{1}` of \"regex:^/(.*)$\"";
                problem.label(expected).help(TRY_FILES)
            }
            Self::Placeholder(..) => problem.label("expected a path without placeholders"),
            Self::Path("try_files", path) if path.contains('{') => problem.help(TRY_FILES),
            _ => problem,
        }
    }
}

impl FilesOptions {
    /// Applies the keys of a site that belong to its `root`.
    pub fn set_on_site(
        &mut self,
        index: Option<&OneOrMany<String>>,
        browse: Option<&Browse>,
        fallback: Option<&str>,
    ) {
        if let Some(index) = index {
            self.index = index.as_slice().iter().map(|path| PathBelowRoot::stripped(path)).collect();
        }
        self.browse = browse.cloned().unwrap_or_default();
        self.fallback = fallback.map(PathBelowRoot::stripped);
    }

    /// Uses the settings of the route or site for what the folder has no own setting.
    #[must_use]
    pub fn of_route(self, route: &BuildContext<'_>) -> Self {
        let compression = self.compression.or_else(|| route.compression.cloned());
        let has_group = self.try_files.iter().any(TriedFile::has_group);
        let paths = if has_group { route.paths.to_vec() } else { Vec::new() };
        Self { compression, types: route.types.clone(), paths, ..self }
    }

    /// Returns how to compress files; `None` for not at all.
    pub(super) fn compressed(&self) -> Option<Cow<'_, Compression>> {
        match &self.compression {
            None => Some(Cow::Owned(Compression::default())),
            Some(CompressionSetting(table)) => table.as_ref().map(Cow::Borrowed),
        }
    }

    /// Iterates over the files that options name literally, each with its option.
    pub fn named_pages(&self) -> impl Iterator<Item = (&'static str, &str)> {
        (self.try_files.iter().filter_map(TriedFile::fixed).map(|path| ("try_files", path)))
            .chain(self.fallback.iter().map(|path| ("fallback", path.as_str())))
    }

    /// Returns errors that would otherwise only show at the first request.
    #[must_use]
    pub fn problems(&self) -> Vec<FilesError> {
        let paths = (self.index.iter().map(|path| ("index", path)))
            .chain(self.fallback.iter().map(|path| ("fallback", path)));
        let problem = |(option, path): (&'static str, &String)| match unknown_placeholder(path, |_| false) {
            Some(unknown) => Some(FilesError::Placeholder(option, path.clone(), unknown.to_owned())),
            None => (!is_below(path)).then(|| FilesError::Path(option, path.clone())),
        };
        let tried = self.try_files.iter().filter_map(|tried| match tried.unknown_placeholder(&self.paths) {
            Some(unknown) => Some(FilesError::Placeholder("try_files", tried.to_string(), unknown)),
            None => (!tried.is_below_root()).then(|| FilesError::Path("try_files", tried.to_string())),
        });
        let both = (self.next_route && self.fallback.is_some()).then_some(FilesError::TwoFallbacks);
        paths.filter_map(problem).chain(tried).chain(both).collect()
    }
}

/// A path below the root. It can begin with a slash, as in a request: `/404.html`.
struct PathBelowRoot(String);

impl PathBelowRoot {
    fn stripped(path: &str) -> String {
        path.strip_prefix('/').unwrap_or(path).to_owned()
    }
}

impl Setting for PathBelowRoot {
    const SHAPE: Shape = String::SHAPE;

    fn read(value: &Value<'_>) -> Result<Self, Invalid> {
        value.text().map(|path| Self(Self::stripped(path)))
    }

    fn written(&self) -> Option<String> {
        self.0.written()
    }
}

impl From<PathBelowRoot> for Option<String> {
    fn from(path: PathBelowRoot) -> Self {
        Some(path.0)
    }
}

/// One or several [`PathBelowRoot`].
struct PathsBelowRoot(OneOrMany<PathBelowRoot>);

impl Setting for PathsBelowRoot {
    const SHAPE: Shape = <OneOrMany<PathBelowRoot>>::SHAPE;

    fn read(value: &Value<'_>) -> Result<Self, Invalid> {
        Setting::read(value).map(Self)
    }

    fn written(&self) -> Option<String> {
        self.0.written()
    }
}

impl From<PathsBelowRoot> for Vec<String> {
    fn from(paths: PathsBelowRoot) -> Self {
        paths.0.as_slice().iter().map(|path| path.0.clone()).collect()
    }
}

impl PathsBelowRoot {
    fn of(path: &str) -> Self {
        Self([PathBelowRoot(path.to_owned())].into_iter().collect())
    }
}

/// The text of a valid glob.
struct Pattern(String);

impl Setting for Pattern {
    const SHAPE: Shape = String::SHAPE;

    fn read(value: &Value<'_>) -> Result<Self, Invalid> {
        let pattern = value.text()?;
        match Glob::new(pattern) {
            Ok(_) => Ok(Self(pattern.to_owned())),
            Err(error) => value.invalid(two_lines("invalid pattern", error.kind())),
        }
    }
}

impl From<Pattern> for String {
    fn from(pattern: Pattern) -> Self {
        pattern.0
    }
}

/// The compiled rules of `cache_control`.
#[derive(Debug, Clone)]
pub(super) struct CacheRules {
    patterns: GlobSet,
    values: Vec<HeaderValue>,
}

impl CacheRules {
    pub(super) fn new(rules: &[CacheRule]) -> Result<Self, FilesError> {
        let mut patterns = GlobSetBuilder::new();
        for rule in rules {
            // A leading slash means the root, as in a request.
            let pattern = rule.pattern.strip_prefix('/').unwrap_or(&rule.pattern);
            patterns.add(Glob::new(pattern).map_err(FilesError::Pattern)?);
        }
        let patterns = patterns.build().map_err(FilesError::Pattern)?;
        Ok(Self { patterns, values: rules.iter().map(|rule| rule.value.clone()).collect() })
    }

    /// Returns the value for the file at `path` below the root.
    pub(super) fn value(&self, path: &str) -> Option<&HeaderValue> {
        self.patterns.matches(path).first().map(|&first| &self.values[first])
    }
}

//! What an operator may choose about a folder, and what can be wrong with it.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use globset::{Glob, GlobSet, GlobSetBuilder};
use http::header::{
    ACCEPT_RANGES, CONNECTION, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, DATE, ETAG,
    LAST_MODIFIED, TRANSFER_ENCODING,
};
use http::{HeaderName, HeaderValue, StatusCode};

/// How a folder is served.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct FilesOptions {
    /// Names that are looked for, in this order, where a path names a folder.
    pub index: Vec<String>,
    /// Whether a folder without an index is listed.
    pub browse: bool,
    /// What to look for, in this order, instead of the path alone; `{path}` stands for it, decoded and without its first
    /// slash: `["{path}", "{path}.html"]`.
    pub try_files: Vec<String>,
    /// The page of a single-page application: answers where nothing is found, unless the path ends in the extension of a
    /// known media type (a script that is missing must not be answered with a page).
    pub fallback: Option<String>,
    /// Pages below the root that answer for errors.
    pub error_pages: Vec<(StatusCode, String)>,
    /// Which files get which `Cache-Control`; the first that matches counts.
    pub cache_control: Vec<CacheRule>,
    /// Fields added to every answer.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// Whether names that begin with a dot are served (`/.well-known/` always is).
    pub serve_hidden: bool,
    /// Whether PHP files are sent: what runs on a server is its source, and holds passwords.
    pub serve_source: bool,
    /// Whether the site runs PHP, so that includes and copies beside its scripts are source too.
    pub on_php_site: bool,
    /// Whether symbolic links may lead out of the root. If not, those that do (absolute ones among them) are not found.
    pub follow_symlinks: bool,
    /// Whether `name.br`, `name.zst` and `name.gz` are sent for `name` to those who accept them.
    pub precompressed: bool,
    /// Whether and how text is compressed on the fly.
    pub compression: Option<Compression>,
    /// Bytes of file content kept in memory, all files together; 0 keeps nothing. With [`Self::compression`] a quarter of it is
    /// for larger files that were compressed.
    pub cache_size: u64,
    /// Bytes of the largest file that is kept in memory; more than an eighth of the memory for files counts as that eighth.
    pub cache_max_file_size: u64,
    /// Descriptors of larger files that are kept open. A file that is unused for a minute is closed.
    pub open_files: usize,
    /// How long an answer from memory may go unchecked against the file system.
    pub revalidate_after: Duration,
    /// Entries in one listing.
    pub listing_entries: usize,
}

impl Default for FilesOptions {
    fn default() -> Self {
        Self {
            index: vec!["index.html".into()],
            browse: false,
            try_files: Vec::new(),
            fallback: None,
            error_pages: Vec::new(),
            cache_control: Vec::new(),
            headers: Vec::new(),
            serve_hidden: false,
            serve_source: false,
            on_php_site: false,
            follow_symlinks: false,
            precompressed: true,
            compression: Some(Compression::default()),
            cache_size: 64 * 1024 * 1024,
            // Beyond this, sendfile costs less than the copy out of memory.
            cache_max_file_size: 64 * 1024,
            // A quarter of the usual soft limit of 1024.
            open_files: 256,
            revalidate_after: Duration::from_secs(1),
            listing_entries: 5000,
        }
    }
}

/// A `Cache-Control` for the files whose path below the root matches.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CacheRule {
    /// A glob: `*` and `?` match slashes too, so that `*.css` means every style sheet.
    pub pattern: String,
    /// The field's value.
    pub value: HeaderValue,
}

/// How text is compressed on the fly.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Compression {
    /// From 1 (fast) to [`Compression::LEVEL_MAX`] (small), for every coding; Brotli stops at 6.
    pub level: u8,
    /// Bytes of the smallest file that is compressed: below a packet there is nothing to win.
    pub size_min: u64,
    /// Bytes of the largest file that is compressed; larger ones are sent as they are.
    pub size_max: u64,
    /// How many larger files are compressed at a time; further ones are sent uncompressed. Each takes up to 5 MiB (Brotli), for
    /// as long as its client reads if the result has no room in memory. Files up to [`FilesOptions::cache_max_file_size`] do not
    /// count.
    pub streams: usize,
}

impl Compression {
    /// The highest level. Beyond it Brotli and Zstandard take tens of times as long for some percent.
    pub const LEVEL_MAX: u8 = 9;
}

impl Default for Compression {
    fn default() -> Self {
        // 64 encoders take 320 MiB at most, and only if the results have no room in memory and the clients read slowly.
        Self { level: 5, size_min: 1024, size_max: 16 * 1024 * 1024, streams: 64 }
    }
}

/// Why a folder cannot be served.
#[derive(Debug)]
pub enum FilesError {
    /// The folder cannot be opened.
    Root(PathBuf, io::Error),
    /// The kernel (or what filters its calls) has no `openat2`.
    NoOpenat2(io::Error),
    /// A pattern of a Cache-Control rule is not a glob.
    Pattern(globset::Error),
    /// A path in the options is not one below the root; the first word says which option.
    Path(&'static str, String),
    /// The server writes this field itself.
    Header(HeaderName),
    /// The compression level is out of bounds.
    Level(u8),
}

impl fmt::Display for FilesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root(path, error) => write!(f, "cannot open the folder {}: {error}", path.display()),
            Self::NoOpenat2(error) => write!(
                f,
                "openat2 does not work here ({error}): files are only opened beneath their root, which needs Linux 5.6 or \
                 newer, and a container whose seccomp profile lets openat2 through"
            ),
            Self::Pattern(error) => write!(f, "the pattern of a Cache-Control rule is not a glob: {error}"),
            Self::Path(option, path) => {
                write!(f, "{option}: \"{path}\" is not a path below the root, such as \"pages/404.html\"")
            }
            Self::Header(name) => {
                write!(f, "the field {name} is written by the server itself and cannot be set")
            }
            Self::Level(level) => {
                write!(f, "the compression level {level} is not between 1 and {}", Compression::LEVEL_MAX)
            }
        }
    }
}

impl std::error::Error for FilesError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Root(_, error) | Self::NoOpenat2(error) => Some(error),
            Self::Pattern(error) => Some(error),
            Self::Path(..) | Self::Header(_) | Self::Level(_) => None,
        }
    }
}

impl FilesOptions {
    /// The pages that are named one by one, each with its option.
    pub(crate) fn named_pages(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let literals = self.try_files.iter().filter(|path| !path.contains(PATH));
        (literals.map(|path| ("try_files", path.as_str())))
            .chain(self.fallback.iter().map(|path| ("fallback", path.as_str())))
            .chain(self.error_pages.iter().map(|(_, path)| ("error_pages", path.as_str())))
    }

    /// Whatever is wrong and would show only when it is used.
    pub(crate) fn problems(&self) -> Vec<FilesError> {
        let paths = (self.index.iter().map(|path| ("index", path)))
            .chain(self.try_files.iter().map(|path| ("try_files", path)))
            .chain(self.fallback.iter().map(|path| ("fallback", path)))
            .chain(self.error_pages.iter().map(|(_, path)| ("error_pages", path)));
        // The braces stand for something in `try_files` alone; elsewhere they would be waited for in vain.
        let is_good = |option: &str, path: &str| match option {
            "try_files" => is_below(&path.replace(PATH, "path")),
            _ => is_below(path) && !path.contains(PATH),
        };
        let wrong = paths.filter(|(option, path)| !is_good(option, path));
        let mut problems: Vec<_> =
            wrong.map(|(option, path)| FilesError::Path(option, path.clone())).collect();
        let ours = self.headers.iter().filter(|(name, _)| OURS.contains(name));
        problems.extend(ours.map(|(name, _)| FilesError::Header(name.clone())));
        let level = self.compression.as_ref().map(|compression| compression.level);
        problems.extend(
            level.filter(|level| !(1..=Compression::LEVEL_MAX).contains(level)).map(FilesError::Level),
        );
        problems
    }
}

/// What stands for the path that was asked for in `try_files`.
pub(super) const PATH: &str = "{path}";

/// What says of an answer what it is and how it is sent: another value would be a lie.
const OURS: [HeaderName; 10] = [
    ACCEPT_RANGES,
    CONNECTION,
    CONTENT_ENCODING,
    CONTENT_LENGTH,
    CONTENT_RANGE,
    CONTENT_TYPE,
    DATE,
    ETAG,
    LAST_MODIFIED,
    TRANSFER_ENCODING,
];

/// Whether a path in the options, not percent-encoded, stays below the root and names something there.
fn is_below(path: &str) -> bool {
    let is_name = |name: &str| !matches!(name, "" | "." | "..") && !name.contains(['\\', '\0']);
    path.split('/').all(is_name)
}

/// The rules for `Cache-Control`, ready to be asked.
#[derive(Debug)]
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

    /// The value for the file with this path below the root.
    pub(super) fn value(&self, path: &str) -> Option<&HeaderValue> {
        self.patterns.matches(path).first().map(|&first| &self.values[first])
    }
}

//! The `files` table, and the options it stands for.

use std::collections::BTreeMap;
use std::path::PathBuf;

use http::{HeaderValue, StatusCode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::values::{Size, Time};
use super::{Place, Problem, fields};
use crate::files::{CacheRule, Compression, FilesError, FilesOptions};

/// Files of a folder.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(extend("required" = ["root"]))]
pub struct FilesTable {
    /// The folder. Relative to the file that names it. What the `*` of a route such as `/docs/*` stands for is looked up in
    /// it; for other routes, the whole path is.
    #[schemars(length(min = 1))]
    pub root: PathBuf,
    /// Names that are looked for, in this order, where a path names a folder.
    pub index: Vec<String>,
    /// Whether a folder without an index is listed.
    pub browse: bool,
    /// What to look for, in this order, instead of the path alone; `{path}` stands for it: `["{path}", "{path}.html"]`.
    pub try_files: Vec<String>,
    /// The page of a single-page application, below the root: answers where nothing is found, unless the path ends in the
    /// extension of a known media type.
    pub fallback: Option<String>,
    /// Pages below the root that answer for errors, by status: `{ 404 = "not-found.html" }`.
    pub error_pages: BTreeMap<String, String>,
    /// Which files get which `Cache-Control`; the first that matches counts.
    pub cache_control: Vec<CacheControlTable>,
    /// Fields added to every answer.
    pub headers: BTreeMap<String, String>,
    /// Whether names that begin with a dot are served (`/.well-known/` always is).
    pub serve_hidden: bool,
    /// Whether files that hold PHP are sent as they are (`.php`, `.phtml`, `.phar` and the like; on a site that runs PHP also
    /// `.inc` and the copies that editors leave). They are not found (404) otherwise.
    pub serve_source: bool,
    /// Whether symbolic links may lead out of the folder.
    pub follow_symlinks: bool,
    /// Whether `name.br`, `name.zst` and `name.gz` are sent for `name` to those who accept them.
    pub precompressed: bool,
    /// Whether and how text is compressed on the fly: `true`, `false`, or a table.
    pub compression: CompressionTable,
    /// Bytes of file content kept in memory, all files together; 0 keeps nothing. With `compression` a quarter of it is for
    /// larger files that were compressed. Routes with the same folder and the same options share it.
    pub cache_size: Size,
    /// Bytes of the largest file that is kept in memory.
    pub cache_max_file_size: Size,
    /// Descriptors of larger files that are kept open. A file that is unused for a minute is closed.
    #[schemars(range(max = 1_000_000))]
    pub open_files: u32,
    /// How long an answer from memory may go unchecked against the file system.
    pub revalidate_after: Time,
    /// Entries in one listing.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub listing_entries: u32,
}

/// A `Cache-Control` for some files.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CacheControlTable {
    /// Which files: a pattern for their path below the folder, in which `*` matches slashes too, so that `*.css` means
    /// every style sheet.
    pub pattern: String,
    /// The value: `max-age=31536000, immutable`.
    pub value: String,
}

/// Whether and how text is compressed on the fly.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum CompressionTable {
    /// As usual, or not at all.
    Switch(bool),
    /// In this way.
    Options(CompressionOptions),
}

/// How text is compressed on the fly.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CompressionOptions {
    /// From 1 (fast) to 9 (small), for every coding.
    #[schemars(range(min = 1, max = Compression::LEVEL_MAX))]
    pub level: u8,
    /// Bytes of the smallest file that is compressed.
    pub size_min: Size,
    /// Bytes of the largest file that is compressed; larger ones are sent as they are.
    pub size_max: Size,
    /// Larger files that are compressed at the same time; further ones are sent uncompressed. Each takes up to 5 MiB.
    #[schemars(range(max = 10_000))]
    pub streams: u32,
}

impl FilesTable {
    /// The files of a folder, everything else as usual.
    #[must_use]
    pub fn of(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into(), ..Self::default() }
    }

    /// The options that this table stands for; what is wrong in it goes to `problems`.
    pub(crate) fn options(&self, place: &Place, problems: &mut Vec<Problem>) -> FilesOptions {
        FilesOptions {
            index: self.index.iter().map(|path| below_root(path)).collect(),
            browse: self.browse,
            try_files: self.try_files.iter().map(|path| below_root(path)).collect(),
            fallback: self.fallback.as_deref().map(below_root),
            error_pages: self.error_pages(&place.key("error_pages"), problems),
            cache_control: self.cache_rules(&place.key("cache_control"), problems),
            headers: fields::read(&self.headers, &place.key("headers"), problems)
                .into_iter()
                .filter_map(|(name, value)| Some((name?, value)))
                .collect(),
            serve_hidden: self.serve_hidden,
            serve_source: self.serve_source,
            on_php_site: false,
            follow_symlinks: self.follow_symlinks,
            precompressed: self.precompressed,
            compression: self.compression.options(),
            cache_size: self.cache_size.0,
            cache_max_file_size: self.cache_max_file_size.0,
            open_files: self.open_files as usize,
            revalidate_after: self.revalidate_after.0,
            listing_entries: self.listing_entries as usize,
        }
    }

    fn error_pages(&self, place: &Place, problems: &mut Vec<Problem>) -> Vec<(StatusCode, String)> {
        let mut pages = Vec::new();
        for (key, page) in &self.error_pages {
            let status = key.parse().ok().filter(|status: &StatusCode| status.as_u16() >= 400);
            match status.filter(|status| status.as_u16() < 600) {
                Some(status) => pages.push((status, below_root(page))),
                None => problems.push(
                    Problem::key(&place.key(key), format!("\"{key}\" is not the status of an error"))
                        .label("expected 400 to 599"),
                ),
            }
        }
        pages
    }

    fn cache_rules(&self, place: &Place, problems: &mut Vec<Problem>) -> Vec<CacheRule> {
        let mut rules = Vec::new();
        for (index, table) in self.cache_control.iter().enumerate() {
            let place = place.index(index);
            if let Err(error) = globset::Glob::new(&table.pattern) {
                let problem = Problem::value(&place.key("pattern"), "this pattern is not well formed");
                problems.push(problem.label(error.kind().to_string()));
                continue;
            }
            match HeaderValue::try_from(&table.value) {
                Ok(value) => rules.push(CacheRule { pattern: table.pattern.clone(), value }),
                Err(_) => problems.push(fields::bad_value(&place.key("value"))),
            }
        }
        rules
    }
}

/// A path below the root, which may be written as that of a request: `/404.html`.
fn below_root(path: &str) -> String {
    path.strip_prefix('/').unwrap_or(path).to_owned()
}

/// Where a table is wrong, as the handler sees it.
pub(crate) fn problem_of(error: &FilesError, place: &Place) -> Problem {
    let key = match error {
        FilesError::Root(..) | FilesError::NoOpenat2(_) => "root",
        FilesError::Pattern(_) => "cache_control",
        FilesError::Path(option, _) => option,
        FilesError::Header(_) => "headers",
        FilesError::Level(_) => "compression",
    };
    Problem::value(&place.key(key), error.to_string())
}

impl CompressionTable {
    fn options(&self) -> Option<Compression> {
        match self {
            Self::Switch(on) => on.then(Compression::default),
            Self::Options(options) => Some(Compression {
                level: options.level,
                size_min: options.size_min.0,
                size_max: options.size_max.0,
                streams: options.streams as usize,
            }),
        }
    }
}

impl Default for FilesTable {
    fn default() -> Self {
        let usual = FilesOptions::default();
        Self {
            root: PathBuf::new(),
            index: usual.index,
            browse: usual.browse,
            try_files: usual.try_files,
            fallback: usual.fallback,
            error_pages: BTreeMap::new(),
            cache_control: Vec::new(),
            headers: BTreeMap::new(),
            serve_hidden: usual.serve_hidden,
            serve_source: usual.serve_source,
            follow_symlinks: usual.follow_symlinks,
            precompressed: usual.precompressed,
            compression: CompressionTable::Switch(usual.compression.is_some()),
            cache_size: Size(usual.cache_size),
            cache_max_file_size: Size(usual.cache_max_file_size),
            open_files: u32::try_from(usual.open_files).unwrap_or(u32::MAX),
            revalidate_after: Time(usual.revalidate_after),
            listing_entries: u32::try_from(usual.listing_entries).unwrap_or(u32::MAX),
        }
    }
}

impl Default for CompressionOptions {
    fn default() -> Self {
        let usual = Compression::default();
        Self {
            level: usual.level,
            size_min: Size(usual.size_min),
            size_max: Size(usual.size_max),
            streams: u32::try_from(usual.streams).unwrap_or(u32::MAX),
        }
    }
}

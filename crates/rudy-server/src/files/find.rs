//! From a path to what it leads to: index files, `try_files`, the fallback.

use rudy_http::semantics::media_type;
use rudy_http::semantics::path::{PathBelow, PathError, RequestPath};

use super::access::{Access, WouldBlock};
use super::entry::Evidence;
use super::failure::Failure;
use super::options::{FilesOptions, PATH};
use super::root::{Kind, Opened, Root, Stat, is_absence};
use super::source;

/// A request's path as one in the folder that is served.
#[derive(Debug, Clone, Copy)]
pub(super) struct FolderPath<'a> {
    /// As it was asked for: empty, or beginning with a slash. An entry is kept under it.
    pub(super) key: &'a str,
    /// What it was made of.
    pub(super) below: PathBelow<'a>,
}

impl<'a> FolderPath<'a> {
    pub(super) fn new(path: PathBelow<'a>) -> Result<Self, PathError> {
        Ok(Self { key: path.in_folder()?, below: path })
    }

    /// Without a slash at either end; empty for the folder itself.
    pub(super) fn name(self) -> &'a str {
        let name = self.key.strip_prefix('/').unwrap_or(self.key);
        name.strip_suffix('/').unwrap_or(name)
    }

    /// Whether it ended in a slash, and so names a folder.
    pub(super) fn names_directory(self) -> bool {
        self.below.names_directory()
    }
}

/// Says of a file's path below the root where else in the site a request for it leads, if another route takes it.
pub(crate) type OtherRoutes<'a> = &'a dyn Fn(&str) -> Option<RequestPath<'static>>;

/// What a path leads to.
pub(super) enum Lookup {
    /// A file, its path below the root, and what was looked at on the way.
    File { opened: Opened, path: String, evidence: Vec<Evidence> },
    /// A file that the operator named, by its path below the root.
    NamedFile(String),
    /// A path of the site that another route takes.
    OtherRoute(RequestPath<'static>),
    /// A folder that was asked for without its slash.
    MissingSlash,
    /// A folder without an index, to be listed.
    Listing,
}

/// Looks for what `path` leads to.
pub(super) fn find(
    root: &Root,
    options: &FilesOptions,
    path: FolderPath<'_>,
    other_routes: Option<OtherRoutes<'_>>,
    access: Access,
) -> Result<Lookup, Failure> {
    if path.below.is_hidden() && !options.serve_hidden {
        // Not 403: whether it is there is nobody's business.
        return Err(Failure::NotFound);
    }
    let mut search = Search { root, options, other_routes, access, evidence: Vec::new() };
    let found = if options.try_files.is_empty() {
        search.look(path.name(), path.names_directory())?
    } else {
        search.try_patterns(path)?
    };
    let fallback = || options.fallback.as_ref().filter(|_| !names_known_kind(path.name()));
    found.or_else(|| Some(search.named(fallback()?))).ok_or(Failure::NotFound)
}

struct Search<'a> {
    root: &'a Root,
    options: &'a FilesOptions,
    other_routes: Option<OtherRoutes<'a>>,
    access: Access,
    evidence: Vec<Evidence>,
}

impl Search<'_> {
    fn try_patterns(&mut self, path: FolderPath<'_>) -> Result<Option<Lookup>, Failure> {
        for pattern in &self.options.try_files {
            let found = match pattern.strip_prefix(PATH) {
                Some("") => self.look(path.name(), path.names_directory())?,
                // A folder has no suffix: "a/" must not be answered with "a.html", whose links would lead astray.
                _ if path.names_directory() && pattern.contains(PATH) => None,
                _ if pattern.contains(PATH) => {
                    // The folder itself has no name: `{path}/index.html` is `index.html` then.
                    self.look(pattern.replace(PATH, path.name()).trim_start_matches('/'), false)?
                }
                _ => match self.named(pattern) {
                    // Whether there is a file says nothing of what another route answers.
                    Lookup::NamedFile(file) => self.stat(&file)?.map(|_| Lookup::NamedFile(file)),
                    found => Some(found),
                },
            };
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    fn look(&mut self, path: &str, names_directory: bool) -> Result<Option<Lookup>, Failure> {
        if names_directory {
            return self.look_inside(path);
        }
        let Some(opened) = self.open(path)? else { return Ok(None) };
        match opened.stat.kind {
            Kind::File => Ok(self.file(opened, path)),
            // Only what the address with a slash would answer is worth a redirect.
            Kind::Directory => Ok(self.look_inside(path)?.map(|_| Lookup::MissingSlash)),
            Kind::Other => Ok(None),
        }
    }

    /// The index of a folder, or its listing. The folder itself is opened last: it need not be readable for its index to be.
    fn look_inside(&mut self, folder: &str) -> Result<Option<Lookup>, Failure> {
        for name in &self.options.index {
            let path = if folder.is_empty() { name.clone() } else { format!("{folder}/{name}") };
            if let Some(opened) = self.open(&path)?
                && opened.stat.kind == Kind::File
                && let Some(found) = self.file(opened, &path)
            {
                return Ok(Some(found));
            }
        }
        let is_listed =
            self.options.browse && self.stat(folder)?.is_some_and(|stat| stat.kind == Kind::Directory);
        Ok(is_listed.then_some(Lookup::Listing))
    }

    /// A file that is there; nothing if it is source.
    fn file(&mut self, opened: Opened, path: &str) -> Option<Lookup> {
        if let Some(target) = self.taken(path) {
            return Some(Lookup::OtherRoute(target));
        }
        if source::is_file_withheld(&opened, path, self.options) {
            return None;
        }
        Some(Lookup::File { opened, path: path.to_owned(), evidence: std::mem::take(&mut self.evidence) })
    }

    /// A file that the operator named.
    fn named(&self, path: &str) -> Lookup {
        self.taken(path).map_or_else(|| Lookup::NamedFile(path.to_owned()), Lookup::OtherRoute)
    }

    fn taken(&self, path: &str) -> Option<RequestPath<'static>> {
        self.other_routes.and_then(|find| find(path))
    }

    fn stat(&self, path: &str) -> Result<Option<Stat>, WouldBlock> {
        self.root.stat(path, self.access)
    }

    /// Opens a path and remembers what was there.
    fn open(&mut self, path: &str) -> Result<Option<Opened>, Failure> {
        let opened = open_if_there(self.root, path, self.access)?;
        let seen = opened.as_ref().map(|opened| opened.stat);
        self.evidence.push(Evidence { path: path.to_owned(), seen });
        Ok(opened)
    }
}

/// Opens a path; `None` where nothing is there that could be served.
pub(super) fn open_if_there(root: &Root, path: &str, access: Access) -> Result<Option<Opened>, Failure> {
    match root.open_file(path, access) {
        Ok(opened) => Ok(Some(opened)),
        Err(error) if is_absence(error) => Ok(None),
        Err(cause) => Err(Failure::of(path, cause.into(), access)),
    }
}

/// Whether the last segment ends in the extension of a media type that we know.
fn names_known_kind(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default();
    name.contains('.') && media_type::of_name(name) != "application/octet-stream"
}

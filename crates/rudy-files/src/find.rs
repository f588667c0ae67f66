//! Looks up the file for a path: index files, `try_files`, the fallback.

use rudy_message::semantics::path::{PathBelow, PathError, RequestPath};
use rudy_pipeline::routing::template::Template;
use rudy_system::file_access::{Access, WouldBlock};
use rustix::io::Errno;

use super::failure::Failure;
use super::folders::Root;
use super::options::FilesOptions;
use super::source;
use super::stat::{Dependency, Kind, Opened, Stat, is_not_found};
use super::try_files::TriedFile;

/// The path of a request, relative to the folder that is served.
#[derive(Debug, Clone, Copy)]
pub(super) struct FolderPath<'a> {
    /// The requested path: empty, or with a slash at its beginning. The key of its cache entry.
    pub(super) key: &'a str,
    /// The path that it was made from.
    pub(super) below: PathBelow<'a>,
}

impl<'a> FolderPath<'a> {
    pub(super) fn new(path: PathBelow<'a>) -> Result<Self, PathError> {
        Ok(Self { key: path.in_folder()?, below: path })
    }

    /// Returns the path of a file that an app names, in which backslashes are part of names. `None` if it is not UTF-8.
    pub(super) fn of_app(path: PathBelow<'a>) -> Option<Self> {
        Some(Self { key: std::str::from_utf8(path.as_bytes()).ok()?, below: path })
    }

    /// Returns the path without a slash at either end; empty for the folder itself.
    pub(super) fn name(self) -> &'a str {
        let name = self.key.strip_prefix('/').unwrap_or(self.key);
        name.strip_suffix('/').unwrap_or(name)
    }

    /// Returns whether the path ended in a slash, and so names a folder.
    pub(super) fn names_directory(self) -> bool {
        self.below.names_directory()
    }
}

/// Maps a file's path below the root to its path in the site if another route matches that.
pub type OtherRoutes<'a> = &'a dyn Fn(&str) -> Option<RequestPath<'static>>;

/// A path of the site that another route matches.
pub struct OtherRoute {
    /// The path.
    pub path: RequestPath<'static>,
    /// The query instead of that of the request, with its question mark.
    pub query: Option<Template>,
}

/// The result of a lookup.
pub(super) enum Lookup {
    /// A file with its path below the root, and the paths that the lookup examined.
    File { opened: Opened, path: String, dependencies: Vec<Dependency> },
    /// A file named in the configuration, by its path below the root.
    Configured(String),
    /// A path of the site that another route matches.
    OtherRoute(OtherRoute),
    /// A folder that was requested without the slash at its end.
    MissingSlash,
    /// A folder without an index, which can be listed.
    Listing,
}

impl Lookup {
    fn other_route(path: RequestPath<'static>) -> Self {
        Self::OtherRoute(OtherRoute { path, query: None })
    }
}

/// Looks up `path`.
pub(super) fn find(
    root: &Root,
    options: &FilesOptions,
    path: FolderPath<'_>,
    other_routes: Option<OtherRoutes<'_>>,
    access: Access,
) -> Result<Lookup, Failure> {
    if path.below.is_hidden() && !options.serve_hidden {
        // Not 403, which would reveal that the file exists.
        return Err(Failure::NotFound);
    }
    let mut search = Search { root, options, other_routes, access, dependencies: Vec::new() };
    let found = if options.try_files.is_empty() {
        search.lookup(path.name(), path.names_directory())?
    } else {
        search.try_patterns(path)?
    };
    let fallback = || options.fallback.as_ref().filter(|_| !options.types.is_known(path.name()));
    found.or_else(|| Some(search.configured(fallback()?))).ok_or(Failure::NotFound)
}

struct Search<'a> {
    root: &'a Root,
    options: &'a FilesOptions,
    other_routes: Option<OtherRoutes<'a>>,
    access: Access,
    dependencies: Vec<Dependency>,
}

impl Search<'_> {
    fn try_patterns(&mut self, path: FolderPath<'_>) -> Result<Option<Lookup>, Failure> {
        let files = &self.options.try_files;
        for (number, tried) in files.iter().enumerate() {
            let found = self.try_file(tried, path, number + 1 == files.len())?;
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    fn try_file(
        &mut self,
        tried: &TriedFile,
        path: FolderPath<'_>,
        is_last: bool,
    ) -> Result<Option<Lookup>, Failure> {
        // A folder has no suffix: for "a/", the relative links of "a.html" would be wrong.
        if path.names_directory() && tried.has_request_path() && !tried.is_request_path() {
            return Ok(None);
        }
        let options = self.options;
        let Some(file) = tried.file((path.name(), path.below.whole()), &options.paths, options.serve_hidden)
        else {
            return Ok(None);
        };
        let found = if tried.fixed().is_none() {
            let found = self.lookup(&file, path.names_directory() && tried.is_request_path())?;
            // Without a file, this is a path like any other.
            let is_path = is_last && tried.has_group() || tried.query().is_some();
            found.or_else(|| self.path_on_other_route(&file).filter(|_| is_path).map(Lookup::other_route))
        } else {
            match self.configured(&file) {
                // Another route can respond even if the file is missing.
                Lookup::Configured(file) => self.stat(&file)?.map(|_| Lookup::Configured(file)),
                found => Some(found),
            }
        };
        Ok(match (found, tried.query()) {
            (Some(Lookup::OtherRoute(other)), query) => {
                Some(Lookup::OtherRoute(OtherRoute { query: query.cloned(), ..other }))
            }
            (found, None) => found,
            // A file has no query.
            _ => None,
        })
    }

    fn lookup(&mut self, path: &str, names_directory: bool) -> Result<Option<Lookup>, Failure> {
        if names_directory {
            return self.lookup_folder(path);
        }
        let Some(opened) = self.open(path)? else { return Ok(None) };
        match opened.stat.kind {
            Kind::File => Ok(self.file(opened, path)),
            // Redirect only if the URL with a slash exists.
            Kind::Directory => Ok(self.lookup_folder(path)?.map(|_| Lookup::MissingSlash)),
            Kind::Other => Ok(None),
        }
    }

    /// Returns the index of a folder, or its listing. Opens the folder last, because its index can be readable even if it is not.
    fn lookup_folder(&mut self, folder: &str) -> Result<Option<Lookup>, Failure> {
        for name in &self.options.index {
            let path = if folder.is_empty() { name.clone() } else { format!("{folder}/{name}") };
            if let Some(opened) = self.open(&path)?
                && opened.stat.kind == Kind::File
                && let Some(found) = self.file(opened, &path)
            {
                return Ok(Some(found));
            }
        }
        let is_listed = self.options.browse.is_on()
            && self.stat(folder)?.is_some_and(|stat| stat.kind == Kind::Directory);
        Ok(is_listed.then_some(Lookup::Listing))
    }

    /// Returns the result for an existing file; `None` if it is source code.
    fn file(&mut self, opened: Opened, path: &str) -> Option<Lookup> {
        if let Some(target) = self.path_on_other_route(path) {
            return Some(Lookup::other_route(target));
        }
        if source::is_file_withheld(&opened, path, self.options) {
            return None;
        }
        Some(Lookup::File {
            opened,
            path: path.to_owned(),
            dependencies: std::mem::take(&mut self.dependencies),
        })
    }

    /// Returns the result for a file named in the configuration.
    fn configured(&self, path: &str) -> Lookup {
        self.path_on_other_route(path)
            .map_or_else(|| Lookup::Configured(path.to_owned()), Lookup::other_route)
    }

    fn path_on_other_route(&self, path: &str) -> Option<RequestPath<'static>> {
        self.other_routes.and_then(|find| find(path))
    }

    fn stat(&self, path: &str) -> Result<Option<Stat>, WouldBlock> {
        self.root.stat(path, self.access)
    }

    /// Opens a path and records it as a dependency.
    fn open(&mut self, path: &str) -> Result<Option<Opened>, Failure> {
        let opened = open_if_exists(self.root, path, self.access)?;
        let seen = opened.as_ref().map(|opened| opened.stat);
        self.dependencies.push(Dependency { path: path.to_owned(), seen });
        Ok(opened)
    }
}

/// Opens a path. Returns `None` if nothing there can be served.
pub(super) fn open_if_exists(root: &Root, path: &str, access: Access) -> Result<Option<Opened>, Failure> {
    if_exists(root.open_file(path, access), path, access)
}

/// Distinguishes a missing file from one that cannot be opened.
pub(super) fn if_exists(
    opened: Result<Opened, Errno>,
    path: &str,
    access: Access,
) -> Result<Option<Opened>, Failure> {
    match opened {
        Ok(opened) => Ok(Some(opened)),
        Err(error) if is_not_found(error) => Ok(None),
        Err(cause) => Err(Failure::of(path, cause.into(), access)),
    }
}

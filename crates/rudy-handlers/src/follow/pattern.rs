//! Patterns for file names, and the files that match them.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use globset::{GlobBuilder, GlobMatcher};

use super::decide::{FileEntry, Identity};

/// The path of a file, or a pattern for many files whose parts may contain `*`, `?`, `[` and `{`.
#[derive(Debug, Clone)]
pub struct Pattern {
    path: PathBuf,
    parts: Vec<Part>,
}

#[derive(Debug, Clone)]
enum Part {
    Name(OsString),
    Glob { matcher: GlobMatcher, with_hidden: bool },
}

/// The files that match the patterns at one moment.
#[derive(Debug, Default)]
pub(super) struct Listing {
    /// The regular files, in the order of the patterns, sorted by name within each.
    pub(super) files: Vec<FileEntry>,
    /// The folders to watch: where matching files may appear and disappear.
    pub(super) folders: BTreeSet<PathBuf>,
    /// Paths that cannot be followed, with the reason.
    pub(super) errors: Vec<(PathBuf, String)>,
    /// Paths that could not be checked: files below them may exist although they are not listed.
    unchecked: Vec<PathBuf>,
}

impl Pattern {
    /// Parses a pattern. The error describes what was expected.
    pub fn new(path: &Path) -> Result<Self, String> {
        let mut prefix = PathBuf::new();
        let parts = path.components().map(|part| {
            prefix.push(part);
            match part {
                // A file or folder may be named `a[1].log`: a name that exists is taken literally.
                Component::Normal(name) if prefix.symlink_metadata().is_err() => {
                    Part::new(name.to_os_string())
                }
                other => Ok(Part::Name(other.as_os_str().to_os_string())),
            }
        });
        let parts: Vec<_> = parts.collect::<Result<_, _>>()?;
        if parts.is_empty() {
            return Err("expected the name of a file".to_owned());
        }
        Ok(Self { path: path.to_owned(), parts })
    }

    /// The pattern as it was written.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether it may match several files.
    #[must_use]
    pub fn is_glob(&self) -> bool {
        self.parts.iter().any(|part| matches!(part, Part::Glob { .. }))
    }

    /// Adds the files that match now.
    pub(super) fn find(&self, listing: &mut Listing) {
        walk(PathBuf::new(), &self.parts, listing);
    }
}

impl Part {
    fn new(name: OsString) -> Result<Self, String> {
        let Some(text) = name.to_str().filter(|text| text.contains(['*', '?', '[', '{'])) else {
            return Ok(Self::Name(name));
        };
        if text.contains("**") {
            return Err(
                "`**` is not supported, because each folder is watched: write one `*` per folder level"
                    .to_owned(),
            );
        }
        let glob = GlobBuilder::new(text).literal_separator(true).build();
        let matcher = glob.map_err(|error| error.kind().to_string())?.compile_matcher();
        Ok(Self::Glob { matcher, with_hidden: text.starts_with('.') })
    }
}

fn walk(path: PathBuf, parts: &[Part], listing: &mut Listing) {
    match parts.split_first() {
        None => listing.add_file(path),
        Some((Part::Name(name), rest)) => {
            if rest.is_empty() {
                listing.folders.insert(nearest_folder(&path));
            }
            walk(path.join(name), rest, listing);
        }
        Some((Part::Glob { matcher, with_hidden }, rest)) => {
            listing.folders.insert(nearest_folder(&path));
            let names = match names_in(&path) {
                Ok(names) => names,
                Err(error) => return listing.add_error(path, &error),
            };
            let is_shown = |name: &OsString| *with_hidden || !name.as_encoded_bytes().starts_with(b".");
            for name in names.into_iter().filter(|name| is_shown(name) && matcher.is_match(name)) {
                walk(path.join(name), rest, listing);
            }
        }
    }
}

impl Listing {
    /// Returns whether a file with this name may exist although it is not listed.
    pub(super) fn may_contain(&self, name: &Path) -> bool {
        self.unchecked.iter().any(|place| name.starts_with(place))
    }

    fn add_file(&mut self, path: PathBuf) {
        match fs::metadata(&path) {
            Ok(metadata) => {
                if let Some(why) = unsupported(&metadata) {
                    return self.errors.push((path, why.to_owned()));
                }
                self.watch_target(&path);
                self.files.push(FileEntry { identity: identity(&metadata), name: path });
            }
            Err(error) => self.add_error(path, &error),
        }
    }

    fn add_error(&mut self, path: PathBuf, error: &io::Error) {
        let why = match error.kind() {
            io::ErrorKind::NotFound => "it does not exist yet".to_owned(),
            // A parent is not a folder; it may be replaced by one.
            io::ErrorKind::NotADirectory => error.to_string(),
            _ => {
                self.unchecked.push(path.clone());
                error.to_string()
            }
        };
        self.errors.push((path, why));
    }

    /// The target of a symbolic link changes in its own folder.
    fn watch_target(&mut self, path: &Path) {
        if path.is_symlink()
            && let Ok(target) = path.canonicalize()
            && let Some(folder) = target.parent()
        {
            self.folders.insert(folder.to_owned());
        }
    }
}

/// Returns why a file of this type cannot be followed.
pub(super) fn unsupported(metadata: &Metadata) -> Option<&'static str> {
    if metadata.is_dir() {
        Some("it is a folder")
    } else if metadata.is_file() {
        None
    } else {
        Some("it is not a regular file")
    }
}

pub(super) fn identity(metadata: &Metadata) -> Identity {
    Identity { device: metadata.dev(), inode: metadata.ino() }
}

/// Returns the folder, or its nearest existing parent, in which the missing folder will appear.
fn nearest_folder(path: &Path) -> PathBuf {
    let there = path.ancestors().find(|folder| folder.is_dir());
    let folder = there.filter(|folder| !folder.as_os_str().is_empty());
    folder.unwrap_or(Path::new(if path.is_absolute() { "/" } else { "." })).to_owned()
}

fn names_in(folder: &Path) -> io::Result<Vec<OsString>> {
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let mut names = fs::read_dir(folder)?
        .map(|entry| entry.map(|entry| entry.file_name()))
        .collect::<Result<Vec<_>, _>>()?;
    names.sort();
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listing(folder: &Path, pattern: &str) -> Listing {
        let mut listing = Listing::default();
        Pattern::new(&folder.join(pattern)).unwrap().find(&mut listing);
        listing
    }

    fn names(folder: &Path, pattern: &str) -> Vec<String> {
        let short = |path: &Path| path.strip_prefix(folder).unwrap().display().to_string();
        listing(folder, pattern).files.iter().map(|file| short(&file.name)).collect()
    }

    fn folder_with(names: &[&str]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for name in names {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        folder
    }

    #[test]
    fn a_pattern_matches_names_of_files_and_folders() {
        let existing = ["b.log", "a.log", ".hidden.log", "a.txt", "x/app.log", "y/app.log", "a[1].log"];
        let folder = folder_with(&existing);
        for (pattern, expected) in [
            ("a.log", &["a.log"][..]),
            ("*.log", &["a.log", "a[1].log", "b.log"]),
            ("[ab].log", &["a.log", "b.log"]),
            ("{a,b}.log", &["a.log", "b.log"]),
            (".*.log", &[".hidden.log"]),
            ("*/app.log", &["x/app.log", "y/app.log"]),
            ("a[1].log", &["a[1].log"]),
            ("missing.log", &[]),
            ("z*", &[]),
        ] {
            assert_eq!(names(folder.path(), pattern), expected, "{pattern}");
        }
    }

    #[test]
    fn an_existing_folder_is_matched_literally() {
        let folder = folder_with(&["[live] {a}/x.log"]);
        assert_eq!(names(&folder.path().join("[live] {a}"), "*.log"), ["x.log"]);
    }

    #[test]
    fn a_path_that_cannot_be_followed_is_listed_with_the_reason() {
        let folder = folder_with(&["x/app.log"]);
        std::os::unix::fs::symlink("nowhere", folder.path().join("link")).unwrap();
        std::os::unix::net::UnixListener::bind(folder.path().join("socket")).unwrap();
        for (pattern, expected) in [
            ("missing.log", "it does not exist yet"),
            ("missing/*.log", "it does not exist yet"),
            ("x", "it is a folder"),
            ("socket", "it is not a regular file"),
            ("lin[k]", "it does not exist yet"),
            ("x/app.log/*", "Not a directory (os error 20)"),
        ] {
            let listing = listing(folder.path(), pattern);
            assert!(listing.files.is_empty() && listing.unchecked.is_empty(), "{pattern}");
            assert_eq!(
                listing.errors.iter().map(|(_, why)| why).collect::<Vec<_>>(),
                [expected],
                "{pattern}"
            );
        }
    }

    #[test]
    fn folders_where_files_may_appear_are_watched() {
        let folder = folder_with(&["x/app.log", "y/app.log"]);
        std::os::unix::fs::symlink("x/app.log", folder.path().join("current")).unwrap();
        for (pattern, expected) in [
            ("x/app.log", &["x"][..]),
            ("*/app.log", &["", "x", "y"]),
            ("missing/deep/*.log", &[""]),
            ("current", &["", "x"]),
        ] {
            let expected: Vec<_> = expected.iter().map(|name| folder.path().join(name)).collect();
            let listing = listing(folder.path(), pattern);
            let tidy = |path: &PathBuf| path.components().collect::<PathBuf>();
            let listing: Vec<_> = listing.folders.iter().map(tidy).collect();
            let expected: Vec<_> = expected.iter().map(tidy).collect();
            assert_eq!(listing, expected, "{pattern}");
        }
    }

    #[test]
    fn an_invalid_pattern_is_an_error() {
        for (pattern, says) in
            [("", "expected the name"), ("/a/**/b.log", "`**` is not supported"), ("/[.log", "unclosed")]
        {
            let error = Pattern::new(Path::new(pattern)).unwrap_err();
            assert!(error.contains(says), "{pattern}: {error}");
        }
    }
}

//! Which files a name with `*` stands for, now and later.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use globset::{GlobBuilder, GlobMatcher};

use super::decide::{Identity, Listed};

/// A file, or many by a name whose parts may have `*`, `?`, `[` and `{`.
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

/// What patterns stand for at a moment.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// The regular files, pattern by pattern and by name within one.
    pub(super) files: Vec<Listed>,
    /// The folders in which files may appear and disappear.
    pub(super) folders: BTreeSet<PathBuf>,
    /// What is not followed, and why.
    pub(super) troubles: Vec<(PathBuf, String)>,
    /// What could not be looked at: that a file there is not listed does not say that it is gone.
    doubtful: Vec<PathBuf>,
}

impl Pattern {
    /// Reads a pattern. The error says what was expected.
    pub fn new(path: &Path) -> Result<Self, String> {
        let mut to_here = PathBuf::new();
        let parts = path.components().map(|part| {
            to_here.push(part);
            match part {
                // A file may be called `a[1].log`, or a folder on the way to it, and a name that exists means itself.
                Component::Normal(name) if to_here.symlink_metadata().is_err() => {
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

    /// As it was written.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether it may stand for several files.
    #[must_use]
    pub fn is_glob(&self) -> bool {
        self.parts.iter().any(|part| matches!(part, Part::Glob { .. }))
    }

    /// Adds what it stands for now.
    pub(super) fn find(&self, found: &mut Found) {
        walk(PathBuf::new(), &self.parts, found);
    }
}

impl Part {
    fn new(name: OsString) -> Result<Self, String> {
        let Some(text) = name.to_str().filter(|text| text.contains(['*', '?', '[', '{'])) else {
            return Ok(Self::Name(name));
        };
        if text.contains("**") {
            return Err("`**` is not followed: each folder on the way is watched, so write one `*` for each"
                .to_owned());
        }
        let glob = GlobBuilder::new(text).literal_separator(true).build();
        let matcher = glob.map_err(|error| error.kind().to_string())?.compile_matcher();
        Ok(Self::Glob { matcher, with_hidden: text.starts_with('.') })
    }
}

fn walk(path: PathBuf, parts: &[Part], found: &mut Found) {
    match parts.split_first() {
        None => found.note_file(path),
        Some((Part::Name(name), rest)) => {
            if rest.is_empty() {
                found.folders.insert(nearest_folder(&path));
            }
            walk(path.join(name), rest, found);
        }
        Some((Part::Glob { matcher, with_hidden }, rest)) => {
            found.folders.insert(nearest_folder(&path));
            let names = match names_in(&path) {
                Ok(names) => names,
                Err(error) => return found.note_trouble(path, &error),
            };
            let is_shown = |name: &OsString| *with_hidden || !name.as_encoded_bytes().starts_with(b".");
            for name in names.into_iter().filter(|name| is_shown(name) && matcher.is_match(name)) {
                walk(path.join(name), rest, found);
            }
        }
    }
}

impl Found {
    /// Whether a file of this name may be there although it is not listed.
    pub(super) fn may_have(&self, name: &Path) -> bool {
        self.doubtful.iter().any(|place| name.starts_with(place))
    }

    fn note_file(&mut self, path: PathBuf) {
        match fs::metadata(&path) {
            Ok(metadata) => {
                if let Some(why) = unfit(&metadata) {
                    return self.troubles.push((path, why.to_owned()));
                }
                self.note_target(&path);
                self.files.push(Listed { identity: identity(&metadata), name: path });
            }
            Err(error) => self.note_trouble(path, &error),
        }
    }

    fn note_trouble(&mut self, path: PathBuf, error: &io::Error) {
        let why = match error.kind() {
            io::ErrorKind::NotFound => "it is not there yet".to_owned(),
            // On the way to it stands something that is no folder, and may be replaced by one.
            io::ErrorKind::NotADirectory => error.to_string(),
            _ => {
                self.doubtful.push(path.clone());
                error.to_string()
            }
        };
        self.troubles.push((path, why));
    }

    /// What a link leads to changes in a folder of its own.
    fn note_target(&mut self, path: &Path) {
        if path.is_symlink()
            && let Ok(target) = path.canonicalize()
            && let Some(folder) = target.parent()
        {
            self.folders.insert(folder.to_owned());
        }
    }
}

/// Why a file that can be looked at is none to follow.
pub(super) fn unfit(metadata: &Metadata) -> Option<&'static str> {
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

/// The folder itself, or the nearest above it that is there: that is where the missing one will appear.
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

    fn found(folder: &Path, pattern: &str) -> Found {
        let mut found = Found::default();
        Pattern::new(&folder.join(pattern)).unwrap().find(&mut found);
        found
    }

    fn names(folder: &Path, pattern: &str) -> Vec<String> {
        let short = |path: &Path| path.strip_prefix(folder).unwrap().display().to_string();
        found(folder, pattern).files.iter().map(|file| short(&file.name)).collect()
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
    fn a_pattern_finds_files_by_name_in_any_folder() {
        let names_there = ["b.log", "a.log", ".hidden.log", "a.txt", "x/app.log", "y/app.log", "a[1].log"];
        let folder = folder_with(&names_there);
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
    fn a_folder_that_is_there_means_itself_whatever_it_is_called() {
        let folder = folder_with(&["[live] {a}/x.log"]);
        assert_eq!(names(&folder.path().join("[live] {a}"), "*.log"), ["x.log"]);
    }

    #[test]
    fn what_is_no_file_to_follow_is_named_with_its_reason() {
        let folder = folder_with(&["x/app.log"]);
        std::os::unix::fs::symlink("nowhere", folder.path().join("link")).unwrap();
        std::os::unix::net::UnixListener::bind(folder.path().join("socket")).unwrap();
        for (pattern, expected) in [
            ("missing.log", "it is not there yet"),
            ("missing/*.log", "it is not there yet"),
            ("x", "it is a folder"),
            ("socket", "it is not a regular file"),
            ("lin[k]", "it is not there yet"),
            ("x/app.log/*", "Not a directory (os error 20)"),
        ] {
            let found = found(folder.path(), pattern);
            assert!(found.files.is_empty() && found.doubtful.is_empty(), "{pattern}");
            assert_eq!(
                found.troubles.iter().map(|(_, why)| why).collect::<Vec<_>>(),
                [expected],
                "{pattern}"
            );
        }
    }

    #[test]
    fn the_folders_where_something_may_appear_are_watched() {
        let folder = folder_with(&["x/app.log", "y/app.log"]);
        std::os::unix::fs::symlink("x/app.log", folder.path().join("current")).unwrap();
        for (pattern, expected) in [
            ("x/app.log", &["x"][..]),
            ("*/app.log", &["", "x", "y"]),
            ("missing/deep/*.log", &[""]),
            ("current", &["", "x"]),
        ] {
            let expected: Vec<_> = expected.iter().map(|name| folder.path().join(name)).collect();
            let found = found(folder.path(), pattern);
            let tidy = |path: &PathBuf| path.components().collect::<PathBuf>();
            let found: Vec<_> = found.folders.iter().map(tidy).collect();
            let expected: Vec<_> = expected.iter().map(tidy).collect();
            assert_eq!(found, expected, "{pattern}");
        }
    }

    #[test]
    fn a_pattern_that_cannot_be_followed_is_an_error() {
        for (pattern, says) in
            [("", "expected the name"), ("/a/**/b.log", "`**` is not followed"), ("/[.log", "unclosed")]
        {
            let error = Pattern::new(Path::new(pattern)).unwrap_err();
            assert!(error.contains(says), "{pattern}: {error}");
        }
    }
}

//! Folders for tests.

use std::ffi::OsStr;
use std::fmt::{self, Display, Formatter};
use std::fs::{self, OpenOptions, Permissions};
use std::io::Write as _;
use std::ops::Deref;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::eventually;

/// A temporary folder, which is deleted when this is dropped. It is a [`Path`] with the operations of [`Files`].
pub struct Folder(TempDir);

impl Folder {
    /// Creates an empty folder.
    pub fn new() -> Self {
        Self(tempfile::tempdir().expect("a temp folder can be created"))
    }

    /// Creates a folder with these files, each a name and its content.
    pub fn with<T: AsRef<[u8]>>(files: &[(&str, T)]) -> Self {
        let folder = Self::new();
        folder.path().add(files);
        folder
    }

    /// Returns the path.
    pub fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Default for Folder {
    fn default() -> Self {
        Self::new()
    }
}

impl Deref for Folder {
    type Target = Path;

    fn deref(&self) -> &Path {
        self.path()
    }
}

/// The path.
impl Display for Folder {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.path().display().fmt(f)
    }
}

impl AsRef<OsStr> for Folder {
    fn as_ref(&self) -> &OsStr {
        self.path().as_os_str()
    }
}

impl AsRef<Path> for Folder {
    fn as_ref(&self) -> &Path {
        self.path()
    }
}

/// Operations on the files of a folder, for tests.
pub trait Files {
    /// Returns the path of a file as text.
    fn text(&self, name: &str) -> String;

    /// Writes a file, and creates the folders above it. Returns its path.
    fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf;

    /// Writes files, each a name and its content.
    fn add<T: AsRef<[u8]>>(&self, files: &[(&str, T)]) {
        for (name, content) in files {
            self.write(name, content);
        }
    }

    /// Returns the text of a file.
    fn read(&self, name: &str) -> String;

    /// Appends text to a file, which is created if it is missing.
    fn append(&self, name: impl AsRef<Path>, text: &str);

    /// Waits until a file contains `part`, and returns its text.
    fn wait_for(&self, name: impl AsRef<Path>, part: &str) -> String {
        self.wait_until(name, |text| text.contains(part))
    }

    /// Waits until the condition is true for the text of a file, and returns it.
    fn wait_until(&self, name: impl AsRef<Path>, condition: impl Fn(&str) -> bool) -> String;

    /// Sets the permissions of a file, or of the folder itself (`.`).
    fn set_mode(&self, name: &str, mode: u32);

    /// Returns the permissions of a file, or of the folder itself (`.`).
    fn mode(&self, name: &str) -> u32;
}

impl Files for Path {
    fn text(&self, name: &str) -> String {
        self.join(name).into_os_string().into_string().expect("a plain path")
    }

    fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.join(name);
        fs::create_dir_all(path.parent().expect("a name in a folder")).expect("a temp folder can be written");
        fs::write(&path, content).expect("a temp folder can be written");
        path
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    fn append(&self, name: impl AsRef<Path>, text: &str) {
        let file = OpenOptions::new().append(true).create(true).open(self.join(name));
        file.and_then(|mut file| file.write_all(text.as_bytes())).expect("a temp folder can be written");
    }

    fn wait_until(&self, name: impl AsRef<Path>, condition: impl Fn(&str) -> bool) -> String {
        let path = self.join(name);
        eventually(&format!("{} has the text", path.display()), || {
            fs::read_to_string(&path).ok().filter(|text| condition(text))
        })
    }

    fn mode(&self, name: &str) -> u32 {
        fs::metadata(self.join(name)).expect("the file exists").permissions().mode() & 0o7777
    }

    fn set_mode(&self, name: &str, mode: u32) {
        fs::set_permissions(self.join(name), Permissions::from_mode(mode)).expect("the file is ours");
    }
}

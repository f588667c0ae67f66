//! Folders for tests.

use std::fs::{self, Permissions};
use std::ops::Deref;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

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

    /// Sets the permissions of a file, or of the folder itself (`.`).
    fn set_mode(&self, name: &str, mode: u32);
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

    fn set_mode(&self, name: &str, mode: u32) {
        fs::set_permissions(self.join(name), Permissions::from_mode(mode)).expect("the file is ours");
    }
}

//! The list of the siblings that the command has made, in a hidden file of the folder.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The name of the file. It has a path below the folder in each line.
const NAME: &str = ".rudy-precompress";

/// The first line, so that the file explains itself.
const TITLE: &[u8] = b"# compressed files that `rudy precompress` has made and may remove";

/// The paths of the siblings, with that of the folder.
#[derive(Debug, Default)]
pub(super) struct Made(BTreeSet<PathBuf>);

impl Made {
    /// Reads the list; without one it is empty.
    pub(super) fn read(folder: &Path) -> io::Result<Self> {
        let content = match fs::read(folder.join(NAME)) {
            Ok(content) => content,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(error),
        };
        let lines = content.split(|byte| *byte == b'\n').filter(|line| !line.is_empty() && line[0] != b'#');
        let is_below =
            |path: &&Path| path.is_relative() && !path.components().any(|part| part.as_os_str() == "..");
        let paths = lines.map(|line| Path::new(OsStr::from_bytes(line))).filter(is_below);
        Ok(Self(paths.map(|path| folder.join(path)).collect()))
    }

    pub(super) fn contains(&self, path: &Path) -> bool {
        self.0.contains(path)
    }

    pub(super) fn insert(&mut self, path: &Path) {
        self.0.insert(path.to_owned());
    }

    pub(super) fn remove(&mut self, path: &Path) {
        self.0.remove(path);
    }

    /// Removes siblings whose files are gone. Returns their number.
    pub(super) fn prune(&mut self, folder: &Path, dry_run: bool) -> io::Result<usize> {
        let is_orphan =
            |path: &&PathBuf| path.starts_with(folder) && path.exists() && !path.with_extension("").exists();
        let orphans: Vec<_> = self.0.iter().filter(is_orphan).cloned().collect();
        for path in orphans.iter().filter(|_| !dry_run) {
            fs::remove_file(path)?;
            self.0.remove(path);
        }
        Ok(orphans.len())
    }

    /// Writes the list, without siblings that no longer exist. Without siblings there is no list.
    pub(super) fn save(&self, folder: &Path) -> io::Result<()> {
        let kept = self.0.iter().filter(|path| path.exists());
        // A name with a line feed would be read as two.
        let names = kept
            .filter_map(|path| path.strip_prefix(folder).ok())
            .map(|path| path.as_os_str().as_bytes())
            .filter(|name| !name.contains(&b'\n') && name[0] != b'#');
        let mut lines: Vec<_> = names.collect();
        if lines.is_empty() {
            return match fs::remove_file(folder.join(NAME)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
                _ => Ok(()),
            };
        }
        lines.insert(0, TITLE);
        let mut file = tempfile::Builder::new().prefix(NAME).tempfile_in(folder)?;
        file.write_all(&lines.join(&b"\n"[..]))?;
        file.write_all(b"\n")?;
        file.persist(folder.join(NAME)).map_err(|failed| failed.error)?;
        Ok(())
    }
}

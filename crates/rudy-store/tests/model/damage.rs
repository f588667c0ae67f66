//! What a bad disk or another program does to the files.

use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use super::random::Random;

/// Bodies above this size are verified once per process.
const VERIFIED_ONCE: u64 = 65_536;

/// The inodes of files with the content of another one.
pub(crate) type Copies = BTreeSet<u64>;

/// Damages some files. While a process is running (`is_open`), only those that it verifies at each use.
pub(crate) fn damage(folder: &Path, random: &mut Random, copies: &mut Copies, is_open: bool) {
    let mut files = Vec::new();
    list(&folder.join("objects"), &mut files);
    if !is_open && random.once_in(20) {
        files = vec![folder.join("state")];
    } else if !is_open && random.once_in(5) {
        files = vec![folder.join("snapshot")];
    }
    files.sort();
    for _ in 0..=random.below(3) {
        if files.is_empty() {
            return;
        }
        let path = files[random.index(files.len())].clone();
        let other = &files[random.index(files.len())];
        let is_small = |path: &Path| fs::metadata(path).is_ok_and(|metadata| metadata.len() <= VERIFIED_ONCE);
        if !is_open || is_small(&path) && is_small(other) {
            damage_file(&path, other, random, copies);
        }
    }
}

/// Errors do not matter: the process may remove the file at the same time.
fn damage_file(path: &Path, other: &Path, random: &mut Random, copies: &mut Copies) {
    let length = fs::metadata(path).map_or(0, |metadata| metadata.len());
    let result = match random.below(6) {
        0 => fs::remove_file(path),
        1 => {
            OpenOptions::new().write(true).open(path).and_then(|file| file.set_len(random.below(length + 1)))
        }
        // A copy of a copy could bring back an older version of a file, which no checksum can tell from a newer one.
        2 if !copies.contains(&inode(other)) => {
            let copied = fs::copy(other, path).map(drop);
            // After it: the process may have removed the file before, so that the copy has another inode.
            copies.insert(inode(path));
            copied
        }
        3 if path != other => fs::write(path.with_file_name("foreign"), "foreign"),
        _ if length == 0 => Ok(()),
        _ => flip(path, random.below(length), random),
    };
    drop(result);
}

fn inode(path: &Path) -> u64 {
    fs::metadata(path).map_or(0, |metadata| metadata.ino())
}

fn flip(path: &Path, at: u64, random: &mut Random) -> std::io::Result<()> {
    let file = OpenOptions::new().read(true).write(true).open(path)?;
    let mut byte = [0];
    file.read_exact_at(&mut byte, at)?;
    byte[0] ^= 1 << random.below(8);
    file.write_all_at(&byte, at)
}

fn list(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.path().is_dir() {
            list(&entry.path(), files);
        } else {
            files.push(entry.path());
        }
    }
}

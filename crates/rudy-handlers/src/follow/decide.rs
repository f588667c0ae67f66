//! Decides what to do with a followed file from its state and its current size. Pure: this code touches no
//! file.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// How long a file without a name must be unchanged before it is closed. After a rotation, the program that
/// writes the file continues until log rotation notifies it: seconds later, when all files are renamed.
pub(super) const QUIET_TIME: Duration = Duration::from_secs(10);

/// Identifies a file independently of its name. It is unique among existing files, and an open file exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Identity {
    pub(super) device: u64,
    pub(super) inode: u64,
}

/// A name in a listing, and the file that it refers to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FileEntry {
    pub(super) name: PathBuf,
    pub(super) identity: Identity,
}

/// The result of comparing a listing with the open files.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Names {
    /// For each open file, in order, the index of its name in the listing; `None` if the listing does not
    /// contain it.
    pub(super) open: Vec<Option<usize>>,
    /// Indices of the names of files that are not open yet.
    pub(super) new: Vec<usize>,
    /// Duplicate names: the index of a name, and that of the name under which the same file is followed.
    pub(super) duplicates: Vec<(usize, usize)>,
}

/// Compares a listing with the open files. A file is followed under its first name in the listing.
pub(super) fn compare(open: &[Identity], listed: &[FileEntry]) -> Names {
    let mut first: BTreeMap<Identity, usize> = BTreeMap::new();
    let mut names = Names::default();
    for (number, entry) in listed.iter().enumerate() {
        match first.get(&entry.identity) {
            // Two patterns match the same name: not worth a message.
            Some(known) if listed[*known].name == entry.name => {}
            Some(known) => names.duplicates.push((number, *known)),
            None => {
                first.insert(entry.identity, number);
                if !open.contains(&entry.identity) {
                    names.new.push(number);
                }
            }
        }
    }
    names.open = open.iter().map(|identity| first.get(identity).copied()).collect();
    names
}

/// The state of an open file.
#[derive(Debug, Clone, Copy)]
pub(super) struct Progress {
    /// The offset up to which it was read.
    pub(super) read_to: u64,
    /// Whether the last listing contains it.
    pub(super) is_listed: bool,
    /// When its size last changed, or it disappeared from the listing.
    pub(super) changed_at: Instant,
}

/// The next step for an open file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// Wait: it has not changed.
    Wait,
    /// Read the bytes that were appended.
    Read,
    /// Read from the start: it is shorter than before, so it was truncated.
    Restart,
    /// Close it: it has no name, and has not changed for [`QUIET_TIME`].
    Close,
}

/// Decides by the current size. A file that was truncated and has since grown beyond its old size looks like
/// one that only grew; the file system offers no way to tell the two apart.
pub(super) fn decide(progress: &Progress, size: u64, now: Instant) -> Step {
    let quiet = now.saturating_duration_since(progress.changed_at);
    match size.cmp(&progress.read_to) {
        std::cmp::Ordering::Less => Step::Restart,
        std::cmp::Ordering::Greater => Step::Read,
        std::cmp::Ordering::Equal if !progress.is_listed && quiet >= QUIET_TIME => Step::Close,
        std::cmp::Ordering::Equal => Step::Wait,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(inode: u64) -> Identity {
        Identity { device: 1, inode }
    }

    fn listed(names: &[(&str, u64)]) -> Vec<FileEntry> {
        names.iter().map(|(name, inode)| FileEntry { name: name.into(), identity: file(*inode) }).collect()
    }

    #[test]
    fn files_are_identified_by_inode_and_not_by_name() {
        for (case, open, names, expected, new, duplicates) in [
            ("nothing", &[][..], &[][..], &[][..], &[][..], &[][..]),
            ("a file appears", &[], &[("a", 1)], &[], &[0], &[]),
            ("a file stays", &[1], &[("a", 1)], &[Some(0)], &[], &[]),
            (
                "a file is renamed, and another takes its name",
                &[1],
                &[("a", 2), ("a.1", 1)],
                &[Some(1)],
                &[0],
                &[],
            ),
            ("a file is renamed outside the pattern", &[1], &[("a", 2)], &[None], &[0], &[]),
            ("a file is deleted", &[1], &[], &[None], &[], &[]),
            ("a file has two names", &[], &[("a", 1), ("b", 1)], &[], &[0], &[(1, 0)]),
            ("two patterns match a file", &[1], &[("a", 1), ("a", 1)], &[Some(0)], &[], &[]),
        ] {
            let open: Vec<_> = open.iter().map(|inode| file(*inode)).collect();
            let expected =
                Names { open: expected.to_vec(), new: new.to_vec(), duplicates: duplicates.to_vec() };
            assert_eq!(compare(&open, &listed(names)), expected, "{case}");
        }
    }

    #[test]
    fn an_open_file_is_read_restarted_or_closed() {
        let start = Instant::now();
        for (read_to, size, is_listed, quiet_s, expected) in [
            (0, 0, true, 0, Step::Wait),
            (0, 5, true, 0, Step::Read),
            (5, 5, true, 1000, Step::Wait),
            (5, 4, true, 0, Step::Restart),
            (5, 0, true, 0, Step::Restart),
            (5, 9, false, 1000, Step::Read),
            (5, 5, false, 9, Step::Wait),
            (5, 5, false, 10, Step::Close),
            (5, 0, false, 10, Step::Restart),
        ] {
            let progress = Progress { read_to, is_listed, changed_at: start };
            let step = decide(&progress, size, start + Duration::from_secs(quiet_s));
            assert_eq!(step, expected, "read {read_to} of {size}, listed: {is_listed}, quiet {quiet_s} s");
        }
    }
}

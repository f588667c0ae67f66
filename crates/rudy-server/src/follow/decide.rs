//! What to do about a file, from what is known of it and what the file system says now. No file is touched here.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// How long a file that no name leads to any more must be quiet before it is closed. Whoever wrote to it goes on until
/// it is told of the rotation, which log rotation does when all its files are renamed: seconds later.
pub(super) const QUIET_TIME: Duration = Duration::from_secs(10);

/// A file, whatever its name: no two that exist at a time have the same, and a file that we hold open exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Identity {
    pub(super) device: u64,
    pub(super) inode: u64,
}

/// A name, and the file that it leads to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Listed {
    pub(super) name: PathBuf,
    pub(super) identity: Identity,
}

/// What a listing says about the files that are held open, and which are to be opened.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Names {
    /// For each held file, in order, the number of its name in the listing; `None` where nothing leads to it any more.
    pub(super) of_held: Vec<Option<usize>>,
    /// Numbers of names whose file is not held.
    pub(super) fresh: Vec<usize>,
    /// Further names of a file that is followed under another: this one, and that.
    pub(super) further: Vec<(usize, usize)>,
}

/// Compares a listing with what is held. The first name of a file is the one it is known by.
pub(super) fn compare(held: &[Identity], listed: &[Listed]) -> Names {
    let mut first: BTreeMap<Identity, usize> = BTreeMap::new();
    let mut names = Names::default();
    for (number, entry) in listed.iter().enumerate() {
        match first.get(&entry.identity) {
            // The same name found by two patterns is nothing to speak of.
            Some(known) if listed[*known].name == entry.name => {}
            Some(known) => names.further.push((number, *known)),
            None => {
                first.insert(entry.identity, number);
                if !held.contains(&entry.identity) {
                    names.fresh.push(number);
                }
            }
        }
    }
    names.of_held = held.iter().map(|identity| first.get(identity).copied()).collect();
    names
}

/// How far a file has been read, and how it stands otherwise.
#[derive(Debug, Clone, Copy)]
pub(super) struct Progress {
    /// Bytes read from its start.
    pub(super) read_to: u64,
    /// Whether a name still leads to it.
    pub(super) is_listed: bool,
    /// When it was last found longer or shorter than it had been read, or lost its name.
    pub(super) changed_at: Instant,
}

/// What to do about an open file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// Nothing has come.
    Wait,
    /// There is more of it.
    Read,
    /// It is shorter than what was read of it: it was emptied and is written anew.
    Restart,
    /// Its name is gone and its writer with it.
    Close,
}

/// Decides by the size that the open file has now. A file that was emptied and has since grown beyond what was read looks
/// like one that only grew: that cannot be told by its size, nor by anything else that a file tells.
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

    fn listed(names: &[(&str, u64)]) -> Vec<Listed> {
        names.iter().map(|(name, inode)| Listed { name: name.into(), identity: file(*inode) }).collect()
    }

    #[test]
    fn files_are_told_apart_by_what_they_are_and_not_by_their_names() {
        for (what, held, names, of_held, fresh, further) in [
            ("nothing", &[][..], &[][..], &[][..], &[][..], &[][..]),
            ("one appears", &[], &[("a", 1)], &[], &[0], &[]),
            ("it stays", &[1], &[("a", 1)], &[Some(0)], &[], &[]),
            (
                "it is renamed, and another takes its name",
                &[1],
                &[("a", 2), ("a.1", 1)],
                &[Some(1)],
                &[0],
                &[],
            ),
            ("it is renamed out of sight", &[1], &[("a", 2)], &[None], &[0], &[]),
            ("it is deleted", &[1], &[], &[None], &[], &[]),
            ("two names lead to it", &[], &[("a", 1), ("b", 1)], &[], &[0], &[(1, 0)]),
            ("two patterns find it", &[1], &[("a", 1), ("a", 1)], &[Some(0)], &[], &[]),
        ] {
            let held: Vec<_> = held.iter().map(|inode| file(*inode)).collect();
            let expected =
                Names { of_held: of_held.to_vec(), fresh: fresh.to_vec(), further: further.to_vec() };
            assert_eq!(compare(&held, &listed(names)), expected, "{what}");
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

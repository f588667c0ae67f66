//! htpasswd files: users and the hashes of their passwords.

use std::collections::HashMap;
use std::hash::BuildHasher;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use rudy_runtime::random::RandomState;
use rudy_system::line_file::{each_line, read_text};
use rudy_system::watched_files::{Seen, Watched, stamp};

use super::hash::PasswordHash;

/// A file of users. It is read again when it changes.
#[derive(Debug)]
pub struct PasswordFile {
    path: PathBuf,
    users: ArcSwap<Users>,
    seen: Mutex<Seen>,
}

/// The users of a file.
#[derive(Debug, Default)]
pub(super) struct Users {
    list: Vec<(Box<str>, Arc<PasswordHash>)>,
    /// The positions in the list.
    by_name: HashMap<Box<str>, usize>,
    /// Selects the hash with which the password of an unknown user is compared.
    decoys: RandomState,
}

impl PasswordFile {
    /// Reads a file.
    ///
    /// # Errors
    ///
    /// Why it cannot be used: each line that is wrong.
    pub fn read(path: &Path) -> Result<Self, Vec<String>> {
        let seen = Mutex::new(Seen::new(vec![stamp(path)]));
        let users = ArcSwap::from_pointee(Users::read(path)?);
        Ok(Self { path: path.to_owned(), users, seen })
    }

    /// Returns a warning about hashes that are too fast to protect their passwords.
    pub fn weakness(&self) -> Option<String> {
        let users = self.users.load();
        let weak: Vec<_> = users.list.iter().filter(|(_, hash)| hash.is_weak()).collect();
        let (first, hash) = weak.first()?;
        let others = match weak.len() {
            1 => String::new(),
            count => format!(" and {} others", count - 1),
        };
        let file = self.path.display();
        Some(format!(
            "{file}: the password of {first}{others} is easy to guess from its hash ({}): make a new one with \
             `rudy hash-password --file {file} --user {first}`",
            hash.algorithm()
        ))
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn users(&self) -> Arc<Users> {
        self.users.load_full()
    }
}

impl Watched for PasswordFile {
    fn update(&self) -> Option<Result<String, String>> {
        let mut seen = self.seen.lock();
        Some(
            match seen.update(vec![stamp(&self.path)], || {
                Users::read(&self.path).map_err(|faults| faults.join("; "))
            })? {
                Ok(users) => {
                    let count = users.list.len();
                    self.users.store(Arc::new(users));
                    Ok(format!("{} has changed: it has {count} users now", self.path.display()))
                }
                Err(why) => {
                    Err(format!("cannot use {}: {why}; its old users stay valid", self.path.display()))
                }
            },
        )
    }
}

impl Users {
    fn read(path: &Path) -> Result<Self, Vec<String>> {
        Self::parse(&read_text(path).map_err(|why| vec![why])?)
    }

    fn parse(text: &str) -> Result<Self, Vec<String>> {
        let mut users = Self::default();
        each_line(text, |line| users.add(line))?;
        Ok(users)
    }

    /// Adds the user of a line: `name:hash`, and maybe a comment behind another colon.
    fn add(&mut self, line: &str) -> Result<(), String> {
        let Some((name, rest)) = line.split_once(':') else {
            return Err("has no colon: expected `user:hash`, as `rudy hash-password` writes it".to_owned());
        };
        let hash = rest.split(':').next().unwrap_or(rest);
        if name.is_empty() {
            return Err("has no user name before the colon".to_owned());
        }
        if name.contains(char::is_control) {
            return Err("has a user name with control characters".to_owned());
        }
        // Messages show names, and must not show hashes.
        if PasswordHash::parse(name).is_ok() {
            return Err("has a hash in place of the user name: expected `user:hash`".to_owned());
        }
        let hash = PasswordHash::parse(hash).map_err(|why| {
            format!("({name}) {why}: make a new hash with `rudy hash-password --user {name}`")
        })?;
        if self.by_name.insert(name.into(), self.list.len()).is_some() {
            return Err(format!("has another password of {name}"));
        }
        self.list.push((name.into(), Arc::new(hash)));
        Ok(())
    }

    /// Returns the hash to compare the password of a user with, and whether it is that of the user. For an unknown user, it is that of
    /// another one, always the same: the comparison takes as long as for a user that exists. `None` without any user.
    pub(super) fn hash(&self, name: &str) -> Option<(&Arc<PasswordHash>, bool)> {
        if let Some((_, hash)) = self.by_name.get(name).and_then(|position| self.list.get(*position)) {
            return Some((hash, true));
        }
        let count = u64::try_from(self.list.len()).ok().filter(|count| *count > 0)?;
        let position = usize::try_from(self.decoys.hash_one(name) % count).ok()?;
        self.list.get(position).map(|(_, hash)| (hash, false))
    }
}

#[cfg(test)]
mod tests {
    use rudy_system::line_file::FAULTS_MAX;

    use super::super::hash::tests::OF_SECRET;
    use super::*;

    #[test]
    fn a_line_has_a_user_and_a_hash() {
        let [first, second] = [OF_SECRET[0], OF_SECRET[1]];
        let text = format!("# users\n\nann:{first}\n  bob:{second}:Bob of Accounting\r\n");
        let users = Users::parse(&text).unwrap();
        let hash = |name: &str| users.hash(name).map(|(hash, is_known)| (hash.to_string(), is_known));
        assert_eq!(hash("ann"), Some((first.to_owned(), true)));
        assert_eq!(hash("bob"), Some((second.to_owned(), true)));
        let (decoy, is_known) = hash("eve").unwrap();
        assert!(!is_known && [first, second].contains(&decoy.as_str()));
        assert_eq!(hash("eve"), Some((decoy, false)), "always the same");
        assert_eq!(Users::parse("# none yet\n").unwrap().hash("ann"), None);
    }

    #[test]
    fn a_byte_order_mark_is_no_part_of_the_first_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("users");
        std::fs::write(&path, format!("\u{feff}ann:{}\r\n", OF_SECRET[0])).unwrap();
        let users = Users::read(&path).unwrap();
        assert_eq!(
            users.hash("ann").map(|(hash, is_known)| (hash.to_string(), is_known)),
            Some((OF_SECRET[0].to_owned(), true))
        );
    }

    #[test]
    fn an_invalid_line_is_named() {
        let hash = OF_SECRET[0];
        for (text, expected) in [
            ("ann", "line 1 has no colon"),
            (
                "\nann:secret",
                "line 2 (ann) has a password in plain text: make a new hash with `rudy hash-password --user ann`",
            ),
            (&format!(":{hash}"), "line 1 has no user name"),
            (&format!("ann:{hash}\nann:{hash}"), "line 2 has another password of ann"),
            (&format!("a\tb:{hash}"), "control characters"),
            (&format!("{hash}:ann"), "line 1 has a hash in place of the user name"),
        ] {
            let faults = Users::parse(text).expect_err(text);
            assert!(faults.len() == 1 && faults[0].contains(expected), "{text}: {faults:?}");
            assert!(!faults[0].contains(hash) && !faults[0].contains("secret"), "{faults:?}");
        }
    }

    #[test]
    fn all_wrong_lines_are_reported_up_to_a_number() {
        let text = format!("ann\nbob:{}\n:x\neve:secret\n", OF_SECRET[0]);
        let faults = Users::parse(&text).unwrap_err();
        let lines: Vec<_> = faults.iter().map(|fault| &fault[..6]).collect();
        assert_eq!(lines, ["line 1", "line 3", "line 4"], "{faults:?}");
        let faults = Users::parse(&"ann\n".repeat(FAULTS_MAX + 7)).unwrap_err();
        assert_eq!((faults.len(), faults[FAULTS_MAX].as_str()), (FAULTS_MAX + 1, "7 more lines are wrong"));
    }

    #[test]
    fn a_changed_file_is_read_again_and_an_invalid_one_is_not_used() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("htpasswd");
        let write = |text: &str| {
            // Another inode, so that every change is noticed.
            let new = folder.path().join("new");
            std::fs::write(&new, text).unwrap();
            std::fs::rename(&new, &path).unwrap();
        };
        write(&format!("ann:{}\n", OF_SECRET[0]));
        let file = PasswordFile::read(&path).unwrap();
        let knows = |name: &str| file.users().hash(name).is_some_and(|(_, is_known)| is_known);
        assert!(file.update().is_none() && knows("ann"));
        write(&format!("bob:{}\n", OF_SECRET[4]));
        assert!(file.update().unwrap().unwrap().contains("1 users now"));
        assert!(knows("bob") && !knows("ann"));
        assert!(file.weakness().unwrap().contains("--user bob"));
        write("bob:secret\n");
        assert!(file.update().unwrap().unwrap_err().contains("its old users stay valid"));
        assert!(knows("bob") && file.update().is_none());
    }
}

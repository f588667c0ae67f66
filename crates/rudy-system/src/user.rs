//! Users and groups of the system, which a process or thread can switch to.

use std::ffi::CString;
use std::io;
use std::thread;

use nix::unistd;
use rustix::process::{Gid, Uid, getegid, geteuid};
use rustix::thread::{
    CapabilitySet, capabilities, set_thread_groups, set_thread_res_gid, set_thread_res_uid,
};

/// A user with its groups.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    /// The name, or the number as text without an entry in the database.
    pub name: String,
    /// The number of the user.
    pub uid: Uid,
    /// The number of the primary group.
    pub gid: Gid,
    /// The supplementary groups, including the primary group, as set by `initgroups(3)`.
    pub groups: Vec<Gid>,
    /// The home folder.
    pub home: String,
    /// Whether the group was specified explicitly.
    has_group: bool,
}

impl User {
    /// Looks up `USER` or `USER:GROUP`, each a name or a number. A number needs no entry in the database, because container
    /// images often have none.
    ///
    /// The lookup uses the modules of `/etc/nsswitch.conf`, which may wait for the network: call it on the blocking pool.
    pub fn find(text: &str) -> io::Result<Self> {
        let (user, group) = match text.split_once(':') {
            Some((user, group)) => (user, Some(group)),
            None => (text, None),
        };
        let number = number(user)?;
        let entry = match number {
            // If the lookup fails, the user has no supplementary groups, and so fewer permissions, not more.
            Some(uid) => unistd::User::from_uid(uid.into()).unwrap_or(None),
            None => unistd::User::from_name(user).map_err(|error| failed("user", user, error))?,
        };
        let group = group.map(find_group).transpose()?;
        match (entry, number) {
            (Some(entry), _) => Self::known(entry, group),
            (None, Some(uid)) => {
                // Not group 0, as some tools default to, but the group of the same number, which is usually private to the user.
                let gid = group.unwrap_or_else(|| Gid::from_raw(uid));
                Ok(Self {
                    name: user.to_owned(),
                    uid: Uid::from_raw(uid),
                    gid,
                    groups: vec![gid],
                    home: "/".to_owned(),
                    has_group: group.is_some(),
                })
            }
            (None, None) => Err(unknown("user", user)),
        }
    }

    fn known(entry: unistd::User, group: Option<Gid>) -> io::Result<Self> {
        let gid = group.unwrap_or_else(|| Gid::from_raw(entry.gid.as_raw()));
        let name = CString::new(&*entry.name)?;
        let groups = unistd::getgrouplist(&name, unistd::Gid::from_raw(gid.as_raw()))
            .map_err(|error| failed("groups of the user", &entry.name, error))?;
        Ok(Self {
            uid: Uid::from_raw(entry.uid.as_raw()),
            gid,
            groups: groups.into_iter().map(|group| Gid::from_raw(group.as_raw())).collect(),
            home: entry.dir.to_string_lossy().into_owned(),
            name: entry.name,
            has_group: group.is_some(),
        })
    }

    /// Whether this process runs as this user, and as its group if specified. Supplementary groups are not compared, because a
    /// service manager may have added some.
    #[must_use]
    pub fn is_current(&self) -> bool {
        self.uid == geteuid() && (!self.has_group || self.gid == getegid())
    }

    /// Switches the calling thread, and all that it starts, to this user. Sets real, effective and saved ids, so it is permanent.
    ///
    /// It only makes system calls, so it can be called between fork and exec.
    pub fn assume(&self) -> io::Result<()> {
        // The user comes last, because it loses the permission to change the groups.
        set_thread_groups(&self.groups)?;
        set_thread_res_gid(self.gid, self.gid, self.gid)?;
        set_thread_res_uid(self.uid, self.uid, self.uid)?;
        Ok(())
    }

    /// Runs `work` on a new thread that switches to this user.
    ///
    /// In Linux, ids, groups and capabilities belong to a thread, so `work` has exactly the permissions of a process of the user,
    /// including access control lists and security modules. A child process would need a way to return the result.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> io::Result<T> {
        let result = thread::scope(|scope| {
            let run = || self.assume().map(|()| work());
            thread::Builder::new()
                .name("rudy-user".to_owned())
                .spawn_scoped(scope, run)
                .map(thread::ScopedJoinHandle::join)
        })?;
        result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

/// Whether this process may become another user. Root may, unless a container took the capabilities away.
#[must_use]
pub fn may_change_user() -> bool {
    let needed = CapabilitySet::SETUID | CapabilitySet::SETGID;
    capabilities(None).is_ok_and(|sets| sets.effective.contains(needed))
}

fn find_group(group: &str) -> io::Result<Gid> {
    if let Some(gid) = number(group)? {
        return Ok(Gid::from_raw(gid));
    }
    let entry = unistd::Group::from_name(group).map_err(|error| failed("group", group, error))?;
    Ok(Gid::from_raw(entry.ok_or_else(|| unknown("group", group))?.gid.as_raw()))
}

/// Parses a numeric id; `None` for a name.
fn number(text: &str) -> io::Result<Option<u32>> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Ok(None);
    }
    // For the system, the largest number means "no change": Rudy would stay root.
    let number = text.parse().ok().filter(|&number| number != u32::MAX);
    let too_large =
        || io::Error::new(io::ErrorKind::InvalidInput, format!("{text} is too large for a user or group id"));
    number.map(Some).ok_or_else(too_large)
}

fn unknown(what: &str, name: &str) -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, format!("there is no {what} `{}`", name.escape_debug()))
}

fn failed(what: &str, name: &str, error: nix::Error) -> io::Error {
    // Some modules of the database return ENOENT or ESRCH for an unknown name.
    match error {
        nix::Error::ENOENT | nix::Error::ESRCH => unknown(what, name),
        error => {
            let error = io::Error::from(error);
            io::Error::new(
                error.kind(),
                format!("cannot look up the {what} `{}`: {error}", name.escape_debug()),
            )
        }
    }
}

/// Whether the error is a missing permission of this user that root would have.
#[must_use]
pub fn root_may(kind: io::ErrorKind) -> bool {
    user_lacks_right(kind, geteuid().is_root())
}

fn user_lacks_right(kind: io::ErrorKind, is_root: bool) -> bool {
    // EACCES and EPERM.
    kind == io::ErrorKind::PermissionDenied && !is_root
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(user: &User) -> (u32, u32, Vec<u32>) {
        (user.uid.as_raw(), user.gid.as_raw(), user.groups.iter().map(|group| group.as_raw()).collect())
    }

    #[test]
    fn a_user_is_found_by_name_and_by_number() {
        let root = User::find("root").unwrap();
        assert_eq!((root.uid, root.gid, &*root.home), (Uid::ROOT, Gid::ROOT, "/root"));
        assert!(root.groups.contains(&Gid::ROOT));
        assert_eq!(User::find("0").unwrap(), root);
    }

    #[test]
    fn an_explicit_group_replaces_the_primary_group() {
        for text in ["root:12345", "0:12345"] {
            let user = User::find(text).unwrap();
            assert_eq!((user.uid.as_raw(), user.gid.as_raw()), (0, 12345), "{text}");
            assert!(user.groups.contains(&user.gid), "{text}");
        }
        assert_eq!(User::find("root:root").unwrap().gid, Gid::ROOT);
    }

    #[test]
    fn a_number_needs_no_entry_in_the_database() {
        assert_eq!(ids(&User::find("4000123").unwrap()), (4_000_123, 4_000_123, vec![4_000_123]));
        assert_eq!(ids(&User::find("4000123:7").unwrap()), (4_000_123, 7, vec![7]));
    }

    #[test]
    fn an_unknown_user_is_an_error_with_its_name() {
        for (text, expected) in [
            ("no such user", "there is no user `no such user`"),
            ("a\0b", "there is no user `a\\0b`"),
            ("", "there is no user ``"),
            (":root", "there is no user ``"),
            ("root:", "there is no group ``"),
            ("root:no such group", "there is no group `no such group`"),
            ("-1", "there is no user `-1`"),
            ("4294967295", "4294967295 is too large for a user or group id"),
            ("0:4294967295", "4294967295 is too large for a user or group id"),
            ("99999999999999999999", "99999999999999999999 is too large for a user or group id"),
        ] {
            assert_eq!(User::find(text).unwrap_err().to_string(), expected, "{text}");
        }
    }

    #[test]
    fn work_runs_as_the_user_without_changing_the_caller() {
        let before = (geteuid(), getegid());
        let user = User::find("4000123:7").unwrap();
        let found =
            user.run(|| (geteuid().as_raw(), getegid().as_raw(), std::fs::read("/etc/shadow").is_ok()));
        if may_change_user() {
            assert_eq!(found.unwrap(), (4_000_123, 7, false));
        } else {
            assert_eq!(found.unwrap_err().kind(), io::ErrorKind::PermissionDenied);
        }
        assert_eq!((geteuid(), getegid()), before);
    }

    #[test]
    fn a_missing_permission_of_root_is_an_error() {
        use io::ErrorKind::{NotFound, PermissionDenied};
        for (kind, is_root, expected) in
            [(PermissionDenied, false, true), (PermissionDenied, true, false), (NotFound, false, false)]
        {
            assert_eq!(user_lacks_right(kind, is_root), expected, "{kind:?}, root: {is_root}");
        }
    }
}

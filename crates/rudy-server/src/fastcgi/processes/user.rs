//! The user that an app runs as, from `/etc/passwd` and `/etc/group`.
//!
//! The C library's `getpwnam` would know users from a directory service too; but it needs `unsafe`, may wait for the
//! network, and an app's user is a system user that stands in the file.

use std::fs;
use std::io;

use rustix::process::{Gid, Uid};

/// A user, with the groups it is in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct User {
    pub(super) name: String,
    pub(super) uid: Uid,
    pub(super) gid: Gid,
    /// The supplementary groups, and the main one among them, as `initgroups(3)` has it.
    pub(super) groups: Vec<Gid>,
    pub(super) home: String,
}

impl User {
    /// Looks a user up by name.
    pub(super) fn find(name: &str) -> io::Result<Self> {
        let read = |path| match fs::read(path) {
            Ok(bytes) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
            Err(error) => Err(io::Error::other(format!("cannot read {path}: {error}"))),
        };
        Self::parse(name, &read("/etc/passwd")?, &read("/etc/group")?).ok_or_else(|| {
            let known = format!("there is no user `{}` in /etc/passwd", name.escape_debug());
            io::Error::new(io::ErrorKind::NotFound, known)
        })
    }

    /// passwd(5): `name:password:uid:gid:comment:home:shell`; group(5): `name:password:gid:user,user`.
    fn parse(name: &str, passwd: &str, group: &str) -> Option<Self> {
        let line = passwd.lines().find(|line| line.split(':').next() == Some(name))?;
        let fields: Vec<_> = line.split(':').collect();
        let [_, _, uid, gid, _, home, ..] = fields[..] else { return None };
        let gid = gid.parse().ok()?;
        let mut groups = vec![gid];
        for line in group.lines() {
            if let [_, _, id, members] = line.split(':').collect::<Vec<_>>()[..]
                && members.split(',').any(|member| member == name)
                && let Ok(id) = id.parse()
                && !groups.contains(&id)
            {
                groups.push(id);
            }
        }
        Some(Self {
            name: name.to_owned(),
            uid: Uid::from_raw(uid.parse().ok()?),
            gid: Gid::from_raw(gid),
            groups: groups.into_iter().map(Gid::from_raw).collect(),
            home: home.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_comes_with_its_groups() {
        let passwd = "root:x:0:0:root:/root:/bin/bash\nwww:x:33:34:www:/var/www:/usr/sbin/nologin\nbad:x:1\n";
        let group =
            "root:x:0:\nwww:x:34:\nmedia:x:50:someone,www\nother:x:51:www2\nagain:x:34:www\nlast:x:52:www\n";
        let user = User::parse("www", passwd, group).unwrap();
        assert_eq!((user.uid.as_raw(), user.gid.as_raw(), &*user.home), (33, 34, "/var/www"));
        assert_eq!(user.groups, [34, 50, 52].map(Gid::from_raw));
        for unknown in ["nobody", "bad", "", "ww"] {
            assert_eq!(User::parse(unknown, passwd, group), None, "{unknown}");
        }
    }

    #[test]
    fn one_that_is_not_there_is_said_by_name() {
        let error = User::find("no such user").unwrap_err();
        assert_eq!(error.to_string(), "there is no user `no such user` in /etc/passwd");
    }
}

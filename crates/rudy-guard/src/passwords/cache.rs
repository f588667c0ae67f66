//! Remembers which passwords were verified, without the passwords.

use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::hmac::{self, HMAC_SHA256};
use aws_lc_rs::rand::SystemRandom;
use parking_lot::Mutex;

use super::hash::PasswordHash;

/// The number of remembered logins. With more users at a time, some passwords are verified again.
const SLOTS: usize = 1024;

/// How long a login is remembered: a password that was removed from its file is forgotten at once in any case.
const REMEMBERED: Duration = Duration::from_mins(10);

/// A code of file, user, password and hash. Without the key, which only this process has, nothing follows from it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tag([u8; 32]);

/// A login, and until when it is remembered.
type Slot = Option<(Tag, Instant)>;

/// The logins of the last minutes.
#[derive(Debug)]
pub(super) struct Logins {
    key: hmac::Key,
    /// By the first bytes of the tag. A login replaces another one in the same place.
    slots: Mutex<Box<[Slot]>>,
}

impl Logins {
    /// `None` if the system has no random numbers for the key: then every password is verified.
    pub(super) fn new() -> Option<Self> {
        let key = hmac::Key::generate(HMAC_SHA256, &SystemRandom::new()).ok()?;
        Some(Self { key, slots: Mutex::new(vec![None; SLOTS].into()) })
    }

    /// Returns the tag of a login as a user of a file: another file may have the same line for another person.
    pub(super) fn tag(&self, file: &Path, user: &str, password: &[u8], hash: &PasswordHash) -> Tag {
        let mut context = hmac::Context::with_key(&self.key);
        let hash = hash.to_string();
        // With their lengths, no two logins have the same text.
        for part in [file.as_os_str().as_bytes(), user.as_bytes(), hash.as_bytes(), password] {
            context.update(&part.len().to_le_bytes());
            context.update(part);
        }
        let mut tag = [0; 32];
        tag.copy_from_slice(context.sign().as_ref());
        Tag(tag)
    }

    /// Returns whether a login was remembered and is still valid.
    pub(super) fn contains(&self, tag: &Tag, now: Instant) -> bool {
        let slots = self.slots.lock();
        slots[tag.slot()]
            .is_some_and(|(known, until)| now < until && verify_slices_are_equal(&known.0, &tag.0).is_ok())
    }

    /// Remembers a successful login.
    pub(super) fn add(&self, tag: Tag, now: Instant) {
        let mut slots = self.slots.lock();
        slots[tag.slot()] = Some((tag, now + REMEMBERED));
    }
}

impl Tag {
    fn slot(&self) -> usize {
        usize::from(u16::from_le_bytes([self.0[0], self.0[1]])) % SLOTS
    }
}

#[cfg(test)]
mod tests {
    use super::super::hash::tests::OF_SECRET;
    use super::*;

    #[test]
    fn a_login_is_remembered_with_its_file_user_password_and_hash() {
        let logins = Logins::new().unwrap();
        let hashes = OF_SECRET.map(|text| PasswordHash::parse(text).unwrap());
        let now = Instant::now();
        let tag_of = |logins: &Logins, file: &str, user: &str, password: &str, hash: usize| {
            logins.tag(Path::new(file), user, password.as_bytes(), &hashes[hash])
        };
        let tag = tag_of(&logins, "/a", "ann", "secret", 0);
        assert!(!logins.contains(&tag, now));
        logins.add(tag, now);
        assert!(logins.contains(&tag_of(&logins, "/a", "ann", "secret", 0), now));
        for (file, user, password, hash) in [
            ("/b", "ann", "secret", 0),
            ("/aa", "nn", "secret", 0),
            ("/a", "bob", "secret", 0),
            ("/a", "ann", "other", 0),
            ("/a", "ann", "secret", 1),
        ] {
            let other = tag_of(&logins, file, user, password, hash);
            assert!(!logins.contains(&other, now), "{file} {user} {password} {hash}");
        }
        assert!(logins.contains(&tag, now + Duration::from_mins(9)));
        assert!(!logins.contains(&tag, now + REMEMBERED));
        let other_process = Logins::new().unwrap();
        assert_ne!(tag_of(&other_process, "/a", "ann", "secret", 0).0, tag.0);
    }
}

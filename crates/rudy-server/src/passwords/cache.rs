//! Remembers which passwords were verified, without the passwords.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::hmac::{self, HMAC_SHA256};
use aws_lc_rs::rand::SystemRandom;

use super::hash::PasswordHash;

/// The number of remembered logins. With more users at a time, some passwords are verified again.
const SLOTS: usize = 1024;

/// How long a login is remembered: a password that was removed from its file is forgotten at once in any case.
const REMEMBERED: Duration = Duration::from_mins(10);

/// A code of user, password and hash. Without the key, which only this process has, nothing follows from it.
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

    /// Returns the tag of a login.
    pub(super) fn tag(&self, user: &str, password: &[u8], hash: &PasswordHash) -> Tag {
        let mut context = hmac::Context::with_key(&self.key);
        // A user name has no line feed, and a hash neither: so no two logins have the same text.
        for part in [user.as_bytes(), b"\n", hash.to_string().as_bytes(), b"\n", password] {
            context.update(part);
        }
        let mut tag = [0; 32];
        tag.copy_from_slice(context.sign().as_ref());
        Tag(tag)
    }

    /// Returns whether a login was remembered and is still valid.
    pub(super) fn contains(&self, tag: &Tag, now: Instant) -> bool {
        let slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        slots[tag.slot()]
            .is_some_and(|(known, until)| now < until && verify_slices_are_equal(&known.0, &tag.0).is_ok())
    }

    /// Remembers a successful login.
    pub(super) fn add(&self, tag: Tag, now: Instant) {
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
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
    fn a_login_is_remembered_with_its_user_password_and_hash() {
        let logins = Logins::new().unwrap();
        let hashes = OF_SECRET.map(|text| PasswordHash::parse(text).unwrap());
        let now = Instant::now();
        let tag = logins.tag("ann", b"secret", &hashes[0]);
        assert!(!logins.contains(&tag, now));
        logins.add(tag, now);
        assert!(logins.contains(&logins.tag("ann", b"secret", &hashes[0]), now));
        for other in [
            logins.tag("bob", b"secret", &hashes[0]),
            logins.tag("ann", b"other", &hashes[0]),
            logins.tag("ann", b"secret", &hashes[1]),
        ] {
            assert!(!logins.contains(&other, now));
        }
        assert!(logins.contains(&tag, now + Duration::from_mins(9)));
        assert!(!logins.contains(&tag, now + REMEMBERED));
        let other_process = Logins::new().unwrap();
        assert_ne!(other_process.tag("ann", b"secret", &hashes[0]).0, tag.0);
    }
}

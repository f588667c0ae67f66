//! The `$apr1$` hash of Apache's `htpasswd`: MD5, repeated a thousand times. It is too fast to protect passwords.

use md5::{Digest, Md5};

/// What the hash mixes in, and begins with.
const MAGIC: &[u8] = b"$apr1$";

const ROUNDS: usize = 1000;

/// The digits of the encoding, from 0 to 63.
const DIGITS: &[u8; 64] = b"./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// Returns the last part of the hash of a password: 22 characters.
pub(super) fn apr1(password: &[u8], salt: &[u8]) -> String {
    let mut digest = first_digest(password, salt);
    for round in 0..ROUNDS {
        let mut md5 = Md5::new();
        md5.update(if round % 2 == 1 { password } else { &digest[..] });
        if round % 3 != 0 {
            md5.update(salt);
        }
        if round % 7 != 0 {
            md5.update(password);
        }
        md5.update(if round % 2 == 1 { &digest[..] } else { password });
        digest = md5.finalize().into();
    }
    encode(&digest)
}

fn first_digest(password: &[u8], salt: &[u8]) -> [u8; 16] {
    let inner = Md5::new().chain_update(password).chain_update(salt).chain_update(password).finalize();
    let mut md5 = Md5::new().chain_update(password).chain_update(MAGIC).chain_update(salt);
    for chunk in password.chunks(inner.len()) {
        md5.update(&inner[..chunk.len()]);
    }
    let mut left = password.len();
    while left > 0 {
        md5.update(if left % 2 == 1 { &[0][..] } else { &password[..1] });
        left /= 2;
    }
    md5.finalize().into()
}

/// Encodes a digest: groups of three bytes in an order of their own, the lowest six bits first.
fn encode(digest: &[u8; 16]) -> String {
    const GROUPS: [[usize; 3]; 5] = [[0, 6, 12], [1, 7, 13], [2, 8, 14], [3, 9, 15], [4, 10, 5]];
    let mut text = String::with_capacity(22);
    let mut push = |mut bits: usize, digits: usize| {
        for _ in 0..digits {
            text.push(DIGITS[bits % 64].into());
            bits /= 64;
        }
    };
    for [high, middle, low] in GROUPS.map(|group| group.map(|index| usize::from(digest[index]))) {
        push((high << 16) | (middle << 8) | low, 4);
    }
    push(digest[11].into(), 2);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Made with `openssl passwd -apr1 -salt SALT PASSWORD`.
    #[test]
    fn hashes_are_those_of_openssl() {
        for (password, salt, hash) in [
            ("myPassword", "r31.....", "HqJZimcKQFAMYayBlzkrA/"),
            ("", "abcdefgh", "L.PT565ESX4Tp2bqNs7Ie."),
            ("a", "x", "16j9.5e7KiXmuYFAYpPJM/"),
            ("exactly-16-bytes", "saltsalt", "i24pe2uG8zySwko1Aj0cg/"),
            ("a password that is longer than one digest of MD5", "12345678", "l49U5GrX2j6M6Q1kdlCiU/"),
        ] {
            assert_eq!(apr1(password.as_bytes(), salt.as_bytes()), hash, "{password}");
        }
    }
}

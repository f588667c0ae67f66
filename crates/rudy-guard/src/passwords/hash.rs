//! Hashes of passwords: which ones Rudy accepts, and how they are verified.
//!
//! A hash that takes long protects the passwords of a file that was stolen, and costs the server as much for each guess. So hashes that
//! cost too little are reported, and those that cost too much are rejected.

use std::fmt;

use argon2::password_hash::PasswordHash as PhcHash;
use argon2::{Argon2, Params, PasswordVerifier as _};
use aws_lc_rs::constant_time::verify_slices_are_equal;
use sha_crypt::{ROUNDS_DEFAULT, Sha256Params, Sha512Params, sha256_crypt_b64, sha512_crypt_b64};

use super::apr1::apr1;

/// The maximum memory of an argon2 hash, in KiB: 256 MiB, as much as `limits` would let a few large requests use.
const ARGON2_KIB_MAX: u32 = 256 * 1024;

/// The maximum number of argon2 passes over its memory: with 256 MiB, one pass takes about a tenth of a second.
const ARGON2_PASSES_MAX: u32 = 16;

/// The maximum cost of a bcrypt hash, as a power of two: about two seconds.
const BCRYPT_COST_MAX: u32 = 15;

/// The maximum number of rounds of a SHA-crypt hash: about a second.
const ROUNDS_MAX: usize = 1_000_000;

/// A hash, as it is in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PasswordHash {
    scheme: Scheme,
    text: Box<str>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scheme {
    Argon2,
    Bcrypt,
    Sha512Crypt,
    Sha256Crypt,
    Apr1,
}

impl PasswordHash {
    /// Reads a hash.
    ///
    /// # Errors
    ///
    /// Why it is not accepted, as a clause.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let scheme = match text.strip_prefix('$').and_then(|rest| rest.split_once('$')) {
            Some(("argon2id" | "argon2i" | "argon2d", _)) => check_argon2(text)?,
            Some(("2a" | "2b" | "2y", rest)) => check_bcrypt(rest)?,
            Some(("6", rest)) => check_rounds(rest, Scheme::Sha512Crypt)?,
            Some(("5", rest)) => check_rounds(rest, Scheme::Sha256Crypt)?,
            Some(("apr1", rest)) if rest.split_once('$').is_some_and(|(_, hash)| hash.len() == 22) => {
                Scheme::Apr1
            }
            _ => return Err(unsupported(text)),
        };
        Ok(Self { scheme, text: text.into() })
    }

    /// Returns whether this is the hash of a password. It takes up to seconds.
    pub(super) fn verify(&self, password: &[u8]) -> bool {
        match self.scheme {
            Scheme::Argon2 => PhcHash::new(&self.text)
                .is_ok_and(|hash| Argon2::default().verify_password(password, &hash).is_ok()),
            Scheme::Bcrypt => bcrypt::verify(password, &self.text).unwrap_or(false),
            Scheme::Sha512Crypt | Scheme::Sha256Crypt => {
                let Some((rounds, salt, hash)) = self.text.get(3..).and_then(split_rounds) else {
                    return false;
                };
                let (salt, is_512) = (salt.as_bytes(), self.scheme == Scheme::Sha512Crypt);
                let computed = if is_512 {
                    Sha512Params::new(rounds).and_then(|params| sha512_crypt_b64(password, salt, &params))
                } else {
                    Sha256Params::new(rounds).and_then(|params| sha256_crypt_b64(password, salt, &params))
                };
                computed.is_ok_and(|computed| is_equal(&computed, hash))
            }
            Scheme::Apr1 => {
                let mut parts = self.text.split('$').skip(2);
                let (Some(salt), Some(hash)) = (parts.next(), parts.next()) else { return false };
                is_equal(&apr1(password, salt.as_bytes()), hash)
            }
        }
    }

    /// Returns whether the hash is too fast to protect its password.
    pub(super) fn is_weak(&self) -> bool {
        matches!(self.scheme, Scheme::Apr1 | Scheme::Sha256Crypt)
    }

    /// Returns the name of its algorithm.
    pub(super) fn algorithm(&self) -> &'static str {
        match self.scheme {
            Scheme::Argon2 => "argon2",
            Scheme::Bcrypt => "bcrypt",
            Scheme::Sha512Crypt => "sha512-crypt",
            Scheme::Sha256Crypt => "sha256-crypt",
            Scheme::Apr1 => "$apr1$",
        }
    }
}

impl fmt::Display for PasswordHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

fn is_equal(one: &str, other: &str) -> bool {
    verify_slices_are_equal(one.as_bytes(), other.as_bytes()).is_ok()
}

fn check_argon2(text: &str) -> Result<Scheme, String> {
    let hash = PhcHash::new(text).map_err(|error| format!("has an invalid argon2 hash: {error}"))?;
    let params = Params::try_from(&hash).map_err(|error| format!("has an invalid argon2 hash: {error}"))?;
    if hash.salt.is_none() || hash.hash.is_none() {
        return Err("has an argon2 hash without its last parts".to_owned());
    }
    if params.m_cost() > ARGON2_KIB_MAX || params.t_cost() > ARGON2_PASSES_MAX {
        return Err(format!(
            "has an argon2 hash that costs too much: at most m={ARGON2_KIB_MAX} and t={ARGON2_PASSES_MAX} are possible"
        ));
    }
    Ok(Scheme::Argon2)
}

/// Checks what follows `$2y$`: the cost, a dollar sign, and 53 characters.
fn check_bcrypt(rest: &str) -> Result<Scheme, String> {
    let invalid = || "has an invalid bcrypt hash".to_owned();
    let (cost, hash) = rest.split_once('$').ok_or_else(invalid)?;
    let cost: u32 = cost.parse().map_err(|_| invalid())?;
    let is_digit = |byte: u8| byte.is_ascii_alphanumeric() || b"./".contains(&byte);
    if cost < 4 || hash.len() != 53 || !hash.bytes().all(is_digit) {
        return Err(invalid());
    }
    if cost > BCRYPT_COST_MAX {
        return Err(format!("has a bcrypt hash that costs too much: at most {BCRYPT_COST_MAX} is possible"));
    }
    Ok(Scheme::Bcrypt)
}

fn check_rounds(rest: &str, scheme: Scheme) -> Result<Scheme, String> {
    let length = if scheme == Scheme::Sha512Crypt { 86 } else { 43 };
    match split_rounds(rest) {
        Some((rounds, _, hash)) if hash.len() == length && rounds <= ROUNDS_MAX => Ok(scheme),
        Some((rounds, ..)) if rounds > ROUNDS_MAX => {
            Err(format!("has a hash that costs too much: at most {ROUNDS_MAX} rounds are possible"))
        }
        _ => Err("has an invalid SHA-crypt hash".to_owned()),
    }
}

/// Splits what follows `$6$`: the number of rounds, if it is not the default, the salt, and the hash.
fn split_rounds(rest: &str) -> Option<(usize, &str, &str)> {
    let (rounds, rest) = match rest.strip_prefix("rounds=") {
        Some(rest) => {
            let (rounds, rest) = rest.split_once('$')?;
            // Fewer are counted as the minimum.
            (rounds.parse::<usize>().ok()?.max(sha_crypt::ROUNDS_MIN), rest)
        }
        None => (ROUNDS_DEFAULT, rest),
    };
    let (salt, hash) = rest.split_once('$')?;
    Some((rounds, salt, hash))
}

/// Explains why a text is no hash that is accepted.
fn unsupported(text: &str) -> String {
    let is_des =
        || text.len() == 13 && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"./".contains(&byte));
    let what = if text.starts_with("{SHA}") || text.starts_with("{SSHA}") {
        "has a SHA-1 hash, which is guessed in no time"
    } else if text.starts_with("$1$") {
        "has an MD5 hash, which is guessed quickly"
    } else if text.starts_with('$') || text.starts_with('{') {
        "has a hash that Rudy does not support"
    } else if is_des() {
        "has a DES hash, which is guessed in no time, or a password in plain text"
    } else {
        "has a password in plain text"
    };
    what.to_owned()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Hashes of `secret`, made with `htpasswd`, `openssl passwd` and `argon2`.
    pub(in crate::passwords) const OF_SECRET: [&str; 6] = [
        "$2y$05$9c8Cio3BrXkvwXzYBWNYE..9S3XtlRg34aX7JBxuclljFm9sA2iTS",
        "$6$abcdefgh$ltjgWl6579NluT/Vi1nwEvcil.G5Nbc4NiXZaNGStk8PSwGfQv72N2CKPPrVACtLtip/cZ/1GM/O6IND4WQhG.",
        "$6$rounds=10000$abcdefgh$dtkgtX8ow6kub/Iulo6m6YRiWBlfmJEeDmTXbQPwlPu6qBjkZV2Ix8CeH0sE3NMp3Sq63bHshmKLBUGe7mWYy/",
        "$5$abcdefgh$gruCpC7VkOTspMQTTSAR8mtlO9Upms.fwqE5y16JVM.",
        "$apr1$abcdefgh$h9FWgUz3n9YxylKLlR5SQ/",
        "$argon2id$v=19$m=64,t=1,p=1$c29tZXNhbHQ$4mqQiyq0VpIzuZmp+8eSF3YJ7Av58TkEJ4LIdOVsAc4",
    ];

    #[test]
    fn a_hash_verifies_its_password_only() {
        for text in OF_SECRET {
            let hash = PasswordHash::parse(text).unwrap_or_else(|why| panic!("{text} {why}"));
            assert!(hash.verify(b"secret"), "{text}");
            for other in ["", "secre", "secret ", "Secret"] {
                assert!(!hash.verify(other.as_bytes()), "{text} {other}");
            }
        }
    }

    #[test]
    fn weak_hashes_are_known() {
        let weak = OF_SECRET.map(|text| PasswordHash::parse(text).unwrap()).into_iter();
        let weak: Vec<_> = weak.filter(PasswordHash::is_weak).map(|hash| hash.algorithm()).collect();
        assert_eq!(weak, ["sha256-crypt", "$apr1$"]);
    }

    #[test]
    fn hashes_that_protect_nothing_or_cost_too_much_are_rejected() {
        for (text, expected) in [
            ("", "plain text"),
            ("secret", "plain text"),
            ("{PLAIN}secret", "does not support"),
            ("{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=", "SHA-1"),
            ("{SSHA}5en6G6MezRroT3XKqkdPOmY/BfQ=", "SHA-1"),
            ("rqXexS6ZhobKA", "DES"),
            ("$1$abcdefgh$irWbblnpmw.5z7wgBnprh0", "MD5"),
            ("$y$j9T$abc$def", "does not support"),
            ("$2x$05$abcdefghijklmnopqrstuuOjoZ2yXR5hbf41v4TrXdlqdWfPu7/ya", "does not support"),
            ("$2y$05$short", "invalid bcrypt"),
            ("$2y$16$abcdefghijklmnopqrstuuOjoZ2yXR5hbf41v4TrXdlqdWfPu7/ya", "at most 15"),
            ("$6$abc", "invalid SHA-crypt"),
            ("$6$abcdefgh$short", "invalid SHA-crypt"),
            ("$5$rounds=1000001$abcdefgh$gruCpC7VkOTspMQTTSAR8mtlO9Upms.fwqE5y16JVM.", "at most 1000000"),
            ("$apr1$abcdefgh$short", "does not support"),
            ("$argon2id$v=19$m=1048576,t=2,p=1$c29tZXNhbHQ$UmFuZG9tUmFuZG9tUmFuZG9t", "at most m=262144"),
            ("$argon2id$v=19$m=19456,t=2,p=1$c29tZXNhbHQ", "without its last parts"),
            ("xapr1$abcdefgh$HqJZimcKQFAMYayBlzkrA/", "plain text"),
        ] {
            let why = PasswordHash::parse(text).expect_err(text);
            assert!(why.contains(expected), "{text}: {why}");
        }
    }
}

//! `rudy hash-password`: hashes a password, for a line of an htpasswd file.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

use argon2::password_hash::{PasswordHasher as _, SaltString};
use argon2::{Algorithm as Variant, Argon2, Params, Version};
use rudy_system::line_file::read_text;
use tempfile::NamedTempFile;

use super::prompt::read_password;

/// The cost of a bcrypt hash, as a power of two: about a quarter of a second.
const BCRYPT_COST: u32 = 12;

/// The permissions of a new file: the user who made it can write, and the group, such as that of the server, can read.
const MODE: u32 = 0o640;

/// The options of `rudy hash-password`.
#[derive(Debug, Clone)]
pub struct HashPassword {
    /// The name of the user, to write the line of an htpasswd file.
    pub user: Option<String>,
    /// The file in which the line of the user is replaced, or to which it is added.
    pub file: Option<PathBuf>,
    /// The algorithm.
    pub algorithm: Algorithm,
}

/// The algorithm of a hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Algorithm {
    /// argon2id with 19 MiB of memory and two passes, as OWASP recommends.
    Argon2id,
    /// bcrypt, which other servers support, too. It ignores what follows the first 72 bytes of a password.
    Bcrypt,
}

/// Reads a password. Returns the line with its hash to print, or `None` if it was written to the file.
///
/// # Errors
///
/// What cannot be done, and why.
pub fn hash_password(options: &HashPassword) -> Result<Option<String>, String> {
    if let Some(user) = options.user.as_deref().filter(|user| !is_valid(user)) {
        return Err(format!(
            "use the name {user:?}: expected a name without colons and control characters that does not begin with #"
        ));
    }
    let password = read_password().map_err(|why| format!("read the password: {why}"))?;
    let hash = options.algorithm.hash(&password).map_err(|why| format!("hash the password: {why}"))?;
    match (&options.user, &options.file) {
        (Some(user), Some(file)) => {
            let written = write_user(file, user, &hash);
            written.map_err(|error| format!("write {}: {error}", file.display()))?;
            Ok(None)
        }
        (Some(user), None) => Ok(Some(format!("{user}:{hash}"))),
        (None, _) => Ok(Some(hash)),
    }
}

/// Returns whether a line can begin with the name of a user.
fn is_valid(user: &str) -> bool {
    !user.is_empty()
        && user.trim() == user
        && !user.starts_with('#')
        && !user.contains(|letter: char| letter == ':' || letter.is_control())
}

impl Algorithm {
    fn hash(self, password: &[u8]) -> Result<String, String> {
        let mut salt = [0; 16];
        aws_lc_rs::rand::fill(&mut salt).map_err(|_| "the system has no random numbers".to_owned())?;
        match self {
            Self::Argon2id => {
                let argon2 = Argon2::new(Variant::Argon2id, Version::V0x13, Params::DEFAULT);
                let salt = SaltString::encode_b64(&salt).map_err(|error| error.to_string())?;
                argon2
                    .hash_password(password, &salt)
                    .map(|hash| hash.to_string())
                    .map_err(|error| error.to_string())
            }
            Self::Bcrypt => {
                let hash = bcrypt::non_truncating_hash_with_salt(password, BCRYPT_COST, salt);
                // `2y` is what Apache, nginx and Caddy read.
                hash.map(|hash| hash.format_for_version(bcrypt::Version::TwoY)).map_err(|error| match error {
                    bcrypt::BcryptError::Truncation(_) => {
                        "bcrypt uses only 71 bytes of a password".to_owned()
                    }
                    error => error.to_string(),
                })
            }
        }
    }
}

/// Replaces the line of a user, or adds it. A reader of the file sees the old content or the new one.
fn write_user(file: &Path, user: &str, hash: &str) -> io::Result<()> {
    // A link stays one.
    let file = fs::canonicalize(file).unwrap_or_else(|_| file.to_owned());
    let (before, text) = match fs::metadata(&file) {
        Ok(before) => (Some(before), read_text(&file).map_err(io::Error::other)?),
        Err(error) if error.kind() == io::ErrorKind::NotFound => (None, String::new()),
        Err(error) => return Err(error),
    };
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut new = NamedTempFile::new_in(folder)?;
    new.write_all(with_user(&text, user, hash).as_bytes())?;
    let mode = before.as_ref().map_or(MODE, |before| before.mode() & 0o7777);
    new.as_file().set_permissions(fs::Permissions::from_mode(mode))?;
    if let Some(before) = before {
        // Only root can give a file to another user; others may keep the group.
        let _ = fchown(new.as_file(), None, Some(before.gid()));
        let _ = fchown(new.as_file(), Some(before.uid()), None);
    }
    new.as_file().sync_all()?;
    new.persist(&file)?;
    Ok(())
}

/// Returns the text of a file with the line of a user. Comments and other users stay.
fn with_user(text: &str, user: &str, hash: &str) -> String {
    let line = format!("{user}:{hash}");
    let is_of_user = |line: &str| line.trim_start().split_once(':').is_some_and(|(name, _)| name == user);
    let mut lines: Vec<&str> = text.lines().collect();
    match lines.iter().position(|line| is_of_user(line)) {
        Some(position) => lines[position] = &line,
        None => lines.push(&line),
    }
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::super::hash::PasswordHash;
    use super::*;

    #[test]
    fn a_new_hash_verifies_its_password() {
        for algorithm in [Algorithm::Argon2id, Algorithm::Bcrypt] {
            let text = algorithm.hash(b"secret").unwrap();
            let hash = PasswordHash::parse(&text).unwrap();
            assert!(!hash.is_weak() && hash.verify(b"secret") && !hash.verify(b"other"), "{text}");
            assert_ne!(algorithm.hash(b"secret").unwrap(), text, "another salt");
        }
        assert!(Algorithm::Bcrypt.hash(&[b'x'; 73]).unwrap_err().contains("71 bytes"));
    }

    #[test]
    fn the_line_of_a_user_is_replaced_or_added() {
        for (text, expected) in [
            ("", "ann:new\n"),
            ("# users\nbob:old", "# users\nbob:old\nann:new\n"),
            ("ann:old:comment\nanna:old\n", "ann:new\nanna:old\n"),
        ] {
            assert_eq!(with_user(text, "ann", "new"), expected);
        }
    }

    #[test]
    fn a_file_keeps_its_permissions_and_a_link_to_it() {
        let folder = tempfile::tempdir().unwrap();
        let [file, link] = ["file", "link"].map(|name| folder.path().join(name));
        std::os::unix::fs::symlink("file", &link).unwrap();
        write_user(&file, "ann", "1").unwrap();
        let mode = || fs::metadata(&file).unwrap().mode() & 0o7777;
        assert_eq!(mode(), MODE);
        fs::set_permissions(&file, fs::Permissions::from_mode(0o604)).unwrap();
        write_user(&link, "bob", "2").unwrap();
        assert_eq!((mode(), fs::read_to_string(&file).unwrap().as_str()), (0o604, "ann:1\nbob:2\n"));
        assert!(link.is_symlink());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2, "no temporary file stays");
    }

    #[test]
    fn a_name_that_no_line_can_begin_with_is_rejected() {
        assert!(is_valid("ann") && is_valid("Ann of Accounting"));
        for name in ["", "a:b", "#a", " a", "a\nb"] {
            assert!(!is_valid(name), "{name:?}");
        }
    }
}

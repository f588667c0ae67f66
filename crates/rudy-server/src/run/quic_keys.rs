//! The secret of QUIC, which the processes of an installation share: after a crash, the next process tells the clients of the last one
//! that their connections are gone (stateless reset, RFC 9000 §10.3).

use std::path::Path;
use std::time::Duration;
use std::{fs, io};

use rudy_net::QuicKeys;
use rudy_runtime::clock;
use rudy_system::state_dir;

use crate::config::Config;

/// The age at which a start replaces the secret. A process keeps its secret, because the ids of its connections are made with it.
const ROTATION: Duration = Duration::from_hours(30 * 24);

const SECRET_BYTES: usize = 32;

/// Returns the secret for a start, if a listener has HTTP/3.
pub(super) fn for_start(config: &Config, folder: Option<&Path>) -> Option<QuicKeys> {
    config.addresses().iter().any(|address| address.http3).then(|| load(folder?)).flatten()
}

/// Reads the secret from the state folder, or creates it. `None` if the folder cannot be used: the process then has a secret of its own.
fn load(folder: &Path) -> Option<QuicKeys> {
    let path = folder.join("quic-key");
    let known = read(&path);
    if let Ok(Some(keys)) = known {
        return Some(keys);
    }
    let keys = QuicKeys::new().ok()?;
    match state_dir::write(&path, keys.secret(), path.exists()) {
        Ok(()) => Some(keys),
        // Another process was faster.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => read(&path).ok().flatten(),
        Err(_) => None,
    }
}

/// Returns the secret in a file, unless it is damaged or too old.
fn read(path: &Path) -> io::Result<Option<QuicKeys>> {
    let (content, made) = (fs::read(path)?, fs::metadata(path)?.modified()?);
    let is_new = clock::utc().duration_since(made).unwrap_or_default() < ROTATION;
    let secret = <[u8; SECRET_BYTES]>::try_from(content).ok().filter(|_| is_new);
    Ok(secret.map(QuicKeys::of_secret))
}

/// Writes the secret as text, for the process that replaces this one.
pub(super) fn to_text(keys: &QuicKeys) -> String {
    let digit = |digit: u8| char::from_digit(digit.into(), 16).unwrap_or_default();
    keys.secret().iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

/// Reads the secret of the process that this one replaces.
pub(super) fn from_text(text: &str) -> Option<QuicKeys> {
    let mut secret = [0; SECRET_BYTES];
    let (pairs, []) = text.as_bytes().as_chunks::<2>() else { return None };
    if pairs.len() != SECRET_BYTES {
        return None;
    }
    for (byte, pair) in secret.iter_mut().zip(pairs) {
        *byte = u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(QuicKeys::of_secret(secret))
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::unix::fs::PermissionsExt;
    use std::time::SystemTime;

    use super::*;

    #[test]
    fn processes_on_one_folder_have_one_secret_until_a_start_finds_it_too_old() {
        let folder = tempfile::tempdir().unwrap();
        let first = load(folder.path()).unwrap();
        assert_eq!(load(folder.path()).unwrap().secret(), first.secret());
        let path = folder.path().join("quic-key");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let long_ago = SystemTime::now() - ROTATION;
        File::options().write(true).open(&path).unwrap().set_modified(long_ago).unwrap();
        let next = load(folder.path()).unwrap();
        assert_ne!(next.secret(), first.secret());
        fs::write(&path, b"damaged").unwrap();
        assert_ne!(load(folder.path()).unwrap().secret(), next.secret());
        assert!(load(Path::new("/proc/no")).is_none());
    }

    #[test]
    fn the_text_for_another_process_has_the_secret() {
        let keys = QuicKeys::new().unwrap();
        assert_eq!(from_text(&to_text(&keys)).unwrap().secret(), keys.secret());
        for text in ["", "00", &"0".repeat(65), &"g".repeat(64), &"é".repeat(32)] {
            assert!(from_text(text).is_none(), "{text}");
        }
    }
}

//! The SHA-256 sums of all files of the release, and the signature of the sums.

use std::path::Path;
use std::process::Command;

use super::facts;
use crate::steps::Run;
use crate::{Outcome, command, setup};

/// The program that signs, and its package.
const PROGRAMS: &[(&str, &str)] = &[("minisign", "minisign")];

/// The path of the secret key.
const KEY: &str = "RUDY_MINISIGN_KEY";

/// In the order of the names in all languages.
const SUMS: &str = "rm -f SHA256SUMS.minisig && find . -type f -not -name SHA256SUMS -printf '%P\\0' | LC_ALL=C sort --zero-terminated \
    | xargs --null sha256sum > SHA256SUMS";

/// Writes the sums, and signs them if there is a key.
pub(super) fn run(run: &mut Run) -> Outcome {
    setup::programs(PROGRAMS)?;
    command::run(Command::new("sh").args(["-euc", SUMS]).current_dir(facts::folder()))?;
    let Some(key) = std::env::var_os(KEY) else {
        let reason = format!("{KEY} does not name a key, which `minisign -G` makes");
        run.skip("signature of SHA256SUMS", &reason);
        return Ok(());
    };
    sign(Path::new(&key))
}

/// Signs the sums. minisign asks for the password of the key, if it has one.
fn sign(key: &Path) -> Outcome {
    // Instead of the time, which would make each signature another one.
    let comment = format!("Rudy {}, commit {}", facts::VERSION, facts::commit()?);
    let mut sign = Command::new("minisign");
    sign.args(["-S", "-m", "SHA256SUMS", "-t", &comment])
        .arg("-s")
        .arg(std::path::absolute(key).unwrap_or_else(|_| key.into()));
    command::run(sign.current_dir(facts::folder()))
}

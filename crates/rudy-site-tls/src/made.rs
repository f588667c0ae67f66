//! Certificates that Rudy makes and keeps in its state folder.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::slice;
use std::time::SystemTime;

use parking_lot::Mutex;
use rudy_pipeline::routing::HostPattern;
use rudy_system::state_dir;
use rudy_tls::{Certificate, self_signed, sha256, signed_by_authority};

use super::authority::Authority;

/// The names of this machine that no other machine can have (RFC 6761 §6.3).
const LOCAL: [&str; 4] = ["localhost", "*.localhost", "127.0.0.1", "::1"];

/// A certificate that Rudy makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum MadeCertificate {
    /// Signed with its own key.
    SelfSigned,
    /// Signed by the local authority.
    Internal,
}

/// The certificates that a process has made.
#[derive(Debug, Default)]
pub(super) struct MadeCertificates {
    /// `None` keeps them in memory only.
    folder: Option<PathBuf>,
    /// By their kind and names.
    in_memory: Mutex<HashMap<(MadeCertificate, Vec<String>), Certificate>>,
}

impl MadeCertificates {
    pub(super) fn in_folder(folder: Option<PathBuf>) -> Self {
        Self { folder, in_memory: Mutex::default() }
    }

    /// Returns the certificate for this machine and these hosts: the kept one, or a new one if less than a third of its
    /// time is left. Also returns why it could not be kept.
    pub(super) fn get(
        &self,
        kind: MadeCertificate,
        hosts: &[HostPattern],
        now: SystemTime,
    ) -> Result<(Certificate, Option<String>), String> {
        let own = hosts.iter().filter_map(HostPattern::certificate_name).map(Cow::into_owned);
        let mut names: Vec<_> = LOCAL.into_iter().map(str::to_owned).chain(own).collect();
        names.sort();
        names.dedup();
        let mut in_memory = self.in_memory.lock();
        if let Some(known) = in_memory.get(&(kind, names.clone())).filter(|known| is_fresh(known, now)) {
            return Ok((known.clone(), None));
        }
        let made = self.read_or_make(kind, &names, now)?;
        in_memory.insert((kind, names), made.0.clone());
        Ok(made)
    }

    fn read_or_make(
        &self,
        kind: MadeCertificate,
        names: &[String],
        now: SystemTime,
    ) -> Result<(Certificate, Option<String>), String> {
        let folder = self.folder.as_deref();
        match kind {
            MadeCertificate::SelfSigned => {
                let file = file_name("self-signed", names);
                kept(folder, &file, now, || text(self_signed(names, now)))
            }
            MadeCertificate::Internal => {
                // The file of a certificate depends on its authority, so that a new authority has new certificates.
                let authority = Authority::kept(folder, now)?;
                let file = file_name("internal", &[slice::from_ref(&authority.certificate), names].concat());
                kept(folder, &file, now, || text(signed_by_authority(&authority.key, names, now)))
            }
        }
    }
}

fn text<T>(result: Result<T, impl fmt::Display>) -> Result<T, String> {
    result.map_err(|error| error.to_string())
}

/// Returns the certificate in the file, or writes a new one.
fn kept(
    folder: Option<&Path>,
    file: &str,
    now: SystemTime,
    make: impl FnOnce() -> Result<String, String>,
) -> Result<(Certificate, Option<String>), String> {
    let read = |path: &Path| {
        let pem = fs::read(path).ok()?;
        Certificate::from_pem(&pem, &pem).ok().filter(|certificate| is_fresh(certificate, now))
    };
    let path = folder.map(|folder| folder.join("certificates").join(file));
    if let Some(certificate) = path.as_deref().and_then(read) {
        return Ok((certificate, None));
    }
    let pem = make()?;
    let certificate = text(Certificate::from_pem(pem.as_bytes(), pem.as_bytes()))?;
    let Some(path) = path else { return Ok((certificate, None)) };
    match state_dir::write(&path, pem.as_bytes(), path.exists()) {
        // Another process was faster.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            Ok((read(&path).unwrap_or(certificate), None))
        }
        Err(error) => Ok((certificate, Some(not_kept(&path, &error)))),
        Ok(()) => Ok((certificate, None)),
    }
}

fn not_kept(path: &Path, error: &io::Error) -> String {
    format!(
        "the certificate is new at each start, because {} cannot be written: {error}; set `StateDirectory=rudy` in the \
         systemd unit, or $XDG_STATE_HOME",
        path.display()
    )
}

/// Whether at least a third of the certificate's time is left.
fn is_fresh(certificate: &Certificate, now: SystemTime) -> bool {
    let all = certificate.not_after.duration_since(certificate.not_before).unwrap_or_default();
    certificate.is_valid_at(now)
        && certificate.not_after.duration_since(now).is_ok_and(|left| left >= all / 3)
}

/// Sites with the same names share a file.
fn file_name(kind: &str, names: &[String]) -> String {
    let hash = sha256(names.join(" ").as_bytes());
    let start = hash.first_chunk().map_or(0, |start| u64::from_be_bytes(*start));
    format!("{kind}-{start:016x}.pem")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_certificate_is_kept_between_runs_and_renewed_in_time() {
        let folder = tempfile::tempdir().unwrap();
        let hosts = ["a.test".parse().unwrap(), "[2001:db8::1]".parse().unwrap()];
        let now = SystemTime::now();
        let get = |folder: &Path, now| {
            let made = MadeCertificates::in_folder(Some(folder.to_owned()));
            made.get(MadeCertificate::SelfSigned, &hosts, now).unwrap()
        };
        let (first, problem) = get(folder.path(), now);
        assert_eq!(problem, None);
        assert!(["a.test", "2001:db8::1", "x.localhost", "::1"].iter().all(|name| first.names.include(name)));
        let day = Duration::from_hours(24);
        assert_eq!(get(folder.path(), now + 260 * day).0.not_after, first.not_after);
        assert_ne!(get(folder.path(), now + 270 * day).0.not_after, first.not_after);
        let (_, problem) = get("/proc/no".as_ref(), now);
        assert!(problem.unwrap().contains("new at each start"));
    }
}

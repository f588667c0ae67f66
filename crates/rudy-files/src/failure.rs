//! Errors of lookups: the status for the client and the line in the log.

use std::io;

use http::StatusCode;
use rudy_system::file_access::{Access, WouldBlock};
use rudy_system::sandboxed::hint;
use rustix::io::Errno;

use super::Files;

/// Why a file cannot be sent.
#[derive(Debug)]
pub(super) enum Failure {
    /// The lookup must run on the thread pool for blocking work.
    WouldBlock,
    /// The file is missing.
    NotFound,
    /// The file system returned an error.
    Io { path: String, cause: io::Error },
}

impl Failure {
    /// Returns the failure for an error of the file system at `path`.
    pub(super) fn of(path: &str, cause: io::Error, access: Access) -> Self {
        if access.must_wait(&cause) {
            return Self::WouldBlock;
        }
        Self::Io { path: path.to_owned(), cause }
    }

    /// Returns the status and the explanation for the client. The explanation shows no path, because paths are not public.
    pub(super) fn status(&self) -> Result<(StatusCode, &'static str), WouldBlock> {
        match self {
            Self::WouldBlock => Err(WouldBlock),
            Self::NotFound => Ok((StatusCode::NOT_FOUND, "The requested URL was not found on this server.")),
            Self::Io { cause, .. } => Ok(io_status(cause)),
        }
    }
}

impl From<WouldBlock> for Failure {
    fn from(_: WouldBlock) -> Self {
        Self::WouldBlock
    }
}

fn io_status(cause: &io::Error) -> (StatusCode, &'static str) {
    match Errno::from_io_error(cause) {
        Some(Errno::ACCESS | Errno::PERM) => {
            (StatusCode::FORBIDDEN, "The server does not have permission to read this file.")
        }
        // No descriptors or memory left, or too many concurrent renames. All are temporary.
        Some(Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::AGAIN) => (
            StatusCode::SERVICE_UNAVAILABLE,
            "The server cannot open more files at the moment. Try again later.",
        ),
        _ => (StatusCode::INTERNAL_SERVER_ERROR, "The server could not read this file."),
    }
}

impl Files {
    /// Logs an error of the file system.
    pub(super) fn log_failure(&self, failure: &Failure) {
        if let (Some(log), Failure::Io { path, cause }) = (self.1.get(), failure) {
            let path = self.0.root.path().join(path).display().to_string();
            let kind = format!("cannot read a file: {cause}");
            log.recurring_error((&*kind, &*path), &format!("cannot read {path}: {cause}{}", hint(cause)));
        }
    }

    /// Logs that a configured file (fallback, or a file of `try_files`) is missing.
    pub(super) fn log_missing(&self, path: &str) {
        if let Some(log) = self.1.get() {
            let path = self.0.root.path().join(path).display().to_string();
            let message = format!("configured file not found: {path}");
            log.recurring_error(("configured file not found", &*path), &message);
        }
    }

    /// Opens the root again if its path now leads to another folder. If the path is broken, logs that and goes on with the open
    /// folder; fails if no folder is open.
    pub(super) fn revalidate_root(&self, now_ms: u64, access: Access) -> Result<(), Failure> {
        let root = &self.0.root;
        let Err(cause) = root.revalidate(now_ms, self.0.revalidate_after_ms, access) else { return Ok(()) };
        if access.must_wait(&cause.into()) || !root.is_open() {
            return Err(Failure::of("", cause.into(), access));
        }
        if let Some(log) = self.1.get() {
            let root = root.path().display().to_string();
            let message =
                format!("cannot reopen the root {root}: {cause}; still serving the folder that is open");
            log.recurring_error(("cannot reopen a root", &*root), &message);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_failure_has_a_status_and_no_path() {
        let failure = |cause: Errno| Failure::Io { path: "secret-name".into(), cause: cause.into() };
        for (failure, status) in [
            (Failure::NotFound, 404),
            (failure(Errno::ACCESS), 403),
            (failure(Errno::MFILE), 503),
            (failure(Errno::IO), 500),
            (Failure::Io { path: String::new(), cause: io::Error::other("no number") }, 500),
        ] {
            let (actual, explanation) = failure.status().unwrap();
            assert_eq!(actual, status, "{failure:?}");
            assert!(!explanation.contains("secret-name"));
        }
    }
}

//! What goes wrong with a file, and who hears of it: the client by a status, the operator by the log.

use std::io;

use http::StatusCode;
use rustix::io::Errno;

use super::Files;
use super::access::{Access, WouldBlock};

/// Why there is nothing that could be sent.
#[derive(Debug)]
pub(super) enum Failure {
    /// Only the pool for blocking work can tell.
    WouldBlock,
    /// There is nothing. Nobody's fault.
    NotFound,
    /// There is something, and the file system does not give it to us. The operator's.
    Refused { path: String, cause: io::Error },
}

impl Failure {
    /// What the file system says of `path`.
    pub(super) fn of(path: &str, cause: io::Error, access: Access) -> Self {
        if access.must_wait(&cause) {
            return Self::WouldBlock;
        }
        Self::Refused { path: path.to_owned(), cause }
    }

    /// The status, and a sentence for whoever reads the answer. It names no path: that is the operator's affair.
    pub(super) fn answer(&self) -> Result<(StatusCode, &'static str), WouldBlock> {
        match self {
            Self::WouldBlock => Err(WouldBlock),
            Self::NotFound => Ok((StatusCode::NOT_FOUND, "The requested URL was not found on this server.")),
            Self::Refused { cause, .. } => Ok(answer_refused(cause)),
        }
    }
}

impl From<WouldBlock> for Failure {
    fn from(_: WouldBlock) -> Self {
        Self::WouldBlock
    }
}

fn answer_refused(cause: &io::Error) -> (StatusCode, &'static str) {
    match Errno::from_io_error(cause) {
        Some(Errno::ACCESS | Errno::PERM) => {
            (StatusCode::FORBIDDEN, "The server does not have permission to read this file.")
        }
        // No descriptor or no memory left, or a storm of renames: it may go better in a moment.
        Some(Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::AGAIN) => (
            StatusCode::SERVICE_UNAVAILABLE,
            "The server cannot open more files at the moment. Try again later.",
        ),
        _ => (StatusCode::INTERNAL_SERVER_ERROR, "The server could not read this file."),
    }
}

impl Files {
    /// Tells the operator what the file system refuses.
    pub(super) fn say(&self, failure: &Failure) {
        if let (Some(log), Failure::Refused { path, cause }) = (self.0.log.get(), failure) {
            let path = self.0.root.path().join(path);
            log.recurring_error(
                &format!("cannot read a file: {cause}"),
                &format!("cannot read {}: {cause}", path.display()),
            );
        }
    }

    /// Tells the operator that a page which the options name is not there.
    pub(super) fn say_missing(&self, path: &str) {
        if let Some(log) = self.0.log.get() {
            let named = self.0.root.path().join(path);
            let message = format!("{} is to answer, and is not a file that is there", named.display());
            log.recurring_error("a page that is to answer is not there", &message);
        }
    }

    /// Sees whether the root's path leads elsewhere by now. If it leads nowhere, the operator reads that in the log; it is a
    /// failure only if the folder is not open.
    pub(super) fn follow_root(&self, now_ms: u64, access: Access) -> Result<(), Failure> {
        let root = &self.0.root;
        let Err(cause) = root.follow(now_ms, self.0.revalidate_after_ms, access) else { return Ok(()) };
        if access.must_wait(&cause.into()) || !root.is_open() {
            return Err(Failure::of("", cause.into(), access));
        }
        if let Some(log) = self.0.log.get() {
            let root = root.path().display();
            let message =
                format!("cannot open the root {root} again: {cause}; the open folder is still served");
            log.recurring_error("a root cannot be opened again", &message);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_answered_by_blame() {
        let refused = |cause: Errno| Failure::Refused { path: "secret-name".into(), cause: cause.into() };
        for (failure, status) in [
            (Failure::NotFound, 404),
            (refused(Errno::ACCESS), 403),
            (refused(Errno::MFILE), 503),
            (refused(Errno::IO), 500),
            (Failure::Refused { path: String::new(), cause: io::Error::other("no number") }, 500),
        ] {
            let (answer, explanation) = failure.answer().unwrap();
            assert_eq!(answer, status, "{failure:?}");
            assert!(!explanation.contains("secret-name"));
        }
    }
}

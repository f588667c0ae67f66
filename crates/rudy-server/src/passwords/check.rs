//! Verifies the passwords of requests, off the threads that handle them.

use std::num::NonZeroUsize;
use std::sync::{Arc, OnceLock};
use std::thread::available_parallelism;
use std::time::Instant;

use super::PASSWORD_BYTES_MAX;
use super::cache::Logins;
use super::file::PasswordFile;
use super::hash::PasswordHash;
use super::threads::{Busy, Threads};

/// A name and a password.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Credentials {
    pub(crate) user: String,
    pub(crate) password: Vec<u8>,
}

/// Verifies the passwords of all configurations of a process.
#[derive(Debug, Default)]
pub(crate) struct PasswordChecks {
    threads: Threads,
    logins: OnceLock<Option<Logins>>,
}

/// What is known about a password.
pub(crate) enum Verdict {
    /// It is correct, or not.
    Known(bool),
    /// It must be verified.
    Unknown(Check),
}

/// A password to verify.
pub(crate) struct Check {
    checks: Arc<PasswordChecks>,
    credentials: Credentials,
    hash: Arc<PasswordHash>,
    /// Whether the hash is that of the user.
    is_known: bool,
}

impl PasswordChecks {
    /// Returns what is known about a password without computing its hash.
    pub(crate) fn verdict(self: &Arc<Self>, credentials: Credentials, file: &PasswordFile) -> Verdict {
        let users = file.users();
        let Some((hash, is_known)) = users.hash(&credentials.user) else { return Verdict::Known(false) };
        if credentials.password.len() > PASSWORD_BYTES_MAX {
            return Verdict::Known(false);
        }
        let check = Check { checks: self.clone(), credentials, hash: hash.clone(), is_known };
        if check.is_remembered() { Verdict::Known(true) } else { Verdict::Unknown(check) }
    }

    fn logins(&self) -> Option<&Logins> {
        self.logins.get_or_init(Logins::new).as_ref()
    }
}

impl Check {
    /// Verifies the password, on one of at most `threads` threads. `attempt` is called there with the verification, which takes long.
    ///
    /// # Errors
    ///
    /// Too many passwords wait.
    pub(crate) async fn run<E: Send + 'static>(
        self,
        threads: NonZeroUsize,
        attempt: impl FnOnce(&dyn Fn() -> bool) -> Result<bool, E> + Send + 'static,
    ) -> Result<Result<bool, E>, Busy> {
        let checks = self.checks.clone();
        // Browsers send several requests at once: the first one has verified the password for the others.
        let task = move || if self.is_remembered() { Ok(true) } else { attempt(&|| self.verify()) };
        checks.threads.run(threads, task).await
    }

    fn verify(&self) -> bool {
        let is_correct = self.hash.verify(&self.credentials.password) && self.is_known;
        if is_correct && let Some(logins) = self.checks.logins() {
            let Credentials { user, password } = &self.credentials;
            logins.add(logins.tag(user, password, &self.hash), Instant::now());
        }
        is_correct
    }

    fn is_remembered(&self) -> bool {
        let Credentials { user, password } = &self.credentials;
        let logins = self.checks.logins();
        logins.is_some_and(|logins| logins.contains(&logins.tag(user, password, &self.hash), Instant::now()))
    }
}

/// The default number of threads: half of the cores.
pub(crate) fn default_threads() -> NonZeroUsize {
    let cores = available_parallelism().map_or(1, NonZeroUsize::get);
    NonZeroUsize::new(cores / 2).unwrap_or(NonZeroUsize::MIN)
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::super::hash::tests::OF_SECRET;
    use super::*;

    fn credentials(user: &str, password: &str) -> Credentials {
        Credentials { user: user.to_owned(), password: password.as_bytes().to_vec() }
    }

    async fn verify(
        checks: &Arc<PasswordChecks>,
        file: &PasswordFile,
        user: &str,
        password: &str,
    ) -> (bool, bool) {
        match checks.verdict(credentials(user, password), file) {
            Verdict::Known(is_correct) => (is_correct, false),
            Verdict::Unknown(check) => {
                let Ok(result) = check.run(NonZeroUsize::MIN, |verify| Ok::<_, Infallible>(verify())).await
                else {
                    panic!("the threads are not busy")
                };
                let Ok(is_correct) = result;
                (is_correct, true)
            }
        }
    }

    #[tokio::test]
    async fn a_password_is_verified_once_and_a_wrong_one_each_time() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("htpasswd");
        std::fs::write(&path, format!("ann:{}\n", OF_SECRET[0])).unwrap();
        let file = PasswordFile::read(&path).unwrap();
        let checks = Arc::new(PasswordChecks::default());
        for (user, password, expected) in [
            ("ann", "secret", (true, true)),
            ("ann", "secret", (true, false)),
            ("ann", "wrong", (false, true)),
            ("ann", "wrong", (false, true)),
            // The only hash is the decoy, and its password does not make an unknown user known.
            ("eve", "secret", (false, true)),
            ("eve", "secret", (false, true)),
            ("ann", &"x".repeat(PASSWORD_BYTES_MAX + 1), (false, false)),
        ] {
            assert_eq!(verify(&checks, &file, user, password).await, expected, "{user} {password}");
        }
        std::fs::write(&path, "# none\n").unwrap();
        let empty = PasswordFile::read(&path).unwrap();
        assert_eq!(verify(&checks, &empty, "ann", "secret").await, (false, false));
    }
}

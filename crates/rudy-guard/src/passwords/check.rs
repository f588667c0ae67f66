//! Verifies the passwords of requests, off the threads that handle them.

use std::fmt;
use std::num::NonZeroUsize;
use std::sync::{Arc, OnceLock};

use rudy_runtime::clock;

use super::PASSWORD_BYTES_MAX;
use super::cache::{Logins, Tag};
use super::file::PasswordFile;
use super::hash::PasswordHash;
use super::threads::{Busy, Threads};

/// A name and a password.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    /// The name of the user.
    pub user: String,
    /// The password, which is not shown.
    pub password: Vec<u8>,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").field("user", &self.user).finish_non_exhaustive()
    }
}

/// Verifies the passwords of all configurations of a process.
#[derive(Debug, Default)]
pub struct PasswordChecks {
    threads: Threads,
    logins: OnceLock<Option<Logins>>,
}

/// A password to verify.
pub struct Check {
    checks: Arc<PasswordChecks>,
    file: Arc<PasswordFile>,
    credentials: Credentials,
    hash: Arc<PasswordHash>,
    /// Whether the hash is that of the user.
    is_known: bool,
}

impl PasswordChecks {
    /// Returns how to verify a password. `None` if no password like it can be correct.
    pub fn check(self: &Arc<Self>, credentials: Credentials, file: &Arc<PasswordFile>) -> Option<Check> {
        let users = file.users();
        let (hash, is_known) = users.hash(&credentials.user)?;
        let (checks, file, hash) = (self.clone(), file.clone(), hash.clone());
        let is_possible = credentials.password.len() <= PASSWORD_BYTES_MAX;
        is_possible.then_some(Check { checks, file, credentials, hash, is_known })
    }

    fn logins(&self) -> Option<&Logins> {
        self.logins.get_or_init(Logins::new).as_ref()
    }
}

impl Check {
    /// Returns whether the password was verified a short time ago. What depends on the result shows whether a guess is correct, as
    /// fast as requests can be sent: it is a login that limits have to count.
    #[must_use]
    pub fn is_remembered(&self) -> bool {
        let is_remembered = self.logins().is_some_and(|(logins, tag)| logins.contains(&tag, clock::now()));
        // An unknown user may have the name and the hash of one who was removed. The comparison takes as long.
        is_remembered && self.is_known
    }

    /// Verifies the password, on one of at most `threads` threads. `attempt` is called there with the verification, which takes long.
    ///
    /// # Errors
    ///
    /// Too many passwords wait.
    pub async fn run<E: Send + 'static>(
        self,
        threads: NonZeroUsize,
        attempt: impl FnOnce(&dyn Fn() -> bool) -> Result<bool, E> + Send + 'static,
    ) -> Result<Result<bool, E>, Busy> {
        let checks = self.checks.clone();
        // Browsers send several requests at once: the first one has verified the password for the others.
        let task = move || attempt(&|| self.is_remembered() || self.verify());
        checks.threads.run(threads, task).await
    }

    fn verify(&self) -> bool {
        let is_correct = self.hash.verify(&self.credentials.password) && self.is_known;
        if is_correct && let Some((logins, tag)) = self.logins() {
            logins.add(tag, clock::now());
        }
        is_correct
    }

    /// Returns the remembered logins, and the tag of this one.
    fn logins(&self) -> Option<(&Logins, Tag)> {
        let logins = self.checks.logins()?;
        let Credentials { user, password } = &self.credentials;
        Some((logins, logins.tag(self.file.path(), user, password, &self.hash)))
    }
}

/// The default number of threads: half of the cores.
#[must_use]
pub fn default_threads() -> NonZeroUsize {
    NonZeroUsize::new(rudy_system::cores() / 2).unwrap_or(NonZeroUsize::MIN)
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::path::Path;

    use super::super::hash::tests::OF_SECRET;
    use super::*;
    use rudy_system::watched_files::Watched as _;

    fn credentials(user: &str, password: &str) -> Credentials {
        Credentials { user: user.to_owned(), password: password.as_bytes().to_vec() }
    }

    #[test]
    fn a_password_is_not_shown() {
        let shown = format!("{:?}", credentials("ann", "secret"));
        assert_eq!(shown, "Credentials { user: \"ann\", .. }");
    }

    /// Whether a password is correct, and whether its hash had to be computed.
    async fn verify(
        checks: &Arc<PasswordChecks>,
        file: &Arc<PasswordFile>,
        user: &str,
        password: &str,
    ) -> (bool, bool) {
        let Some(check) = checks.check(credentials(user, password), file) else { return (false, false) };
        if check.is_remembered() {
            return (true, false);
        }
        let Ok(result) = check.run(NonZeroUsize::MIN, |verify| Ok::<_, Infallible>(verify())).await else {
            panic!("the threads are not busy")
        };
        let Ok(is_correct) = result;
        (is_correct, true)
    }

    /// Writes a file of users who all have the hash of `secret`.
    fn file_of(path: &Path, users: &[&str]) -> Arc<PasswordFile> {
        let lines: Vec<_> = users.iter().map(|user| format!("{user}:{}\n", OF_SECRET[0])).collect();
        // Another inode, so that every change is noticed.
        let new = path.with_extension("new");
        std::fs::write(&new, lines.concat()).unwrap();
        std::fs::rename(&new, path).unwrap();
        Arc::new(PasswordFile::read(path).unwrap())
    }

    #[tokio::test]
    async fn a_password_is_verified_once_and_a_wrong_one_each_time() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("htpasswd");
        let file = file_of(&path, &["ann"]);
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
        assert_eq!(verify(&checks, &file_of(&path, &[]), "ann", "secret").await, (false, false));
    }

    /// Without her line, her password is compared with the hash of another user, which is the same.
    #[tokio::test]
    async fn a_user_who_was_removed_or_renamed_is_logged_out_also_if_another_line_has_the_same_hash() {
        let folder = tempfile::tempdir().unwrap();
        let checks = Arc::new(PasswordChecks::default());
        let path = folder.path().join("htpasswd");
        let file = file_of(&path, &["ann", "bob"]);
        assert_eq!(verify(&checks, &file, "ann", "secret").await, (true, true));
        for users in [&["bob"][..], &["anna", "bob"], &["Ann"]] {
            // Watched files are updated in place, and a reload reads them again.
            let again = file_of(&path, users);
            file.update().unwrap().unwrap();
            for file in [&file, &again] {
                assert_eq!(verify(&checks, file, "ann", "secret").await, (false, true), "{users:?}");
            }
        }
        let again = file_of(&path, &["bob", "ann"]);
        assert_eq!(verify(&checks, &again, "ann", "secret").await, (true, false), "the line is valid again");
    }

    #[tokio::test]
    async fn a_login_at_one_file_is_none_at_another() {
        let folder = tempfile::tempdir().unwrap();
        let checks = Arc::new(PasswordChecks::default());
        let file = |name: &str, users: &[&str]| file_of(&folder.path().join(name), users);
        assert_eq!(verify(&checks, &file("one", &["ann"]), "ann", "secret").await, (true, true));
        assert_eq!(verify(&checks, &file("two", &["bob"]), "ann", "secret").await, (false, true));
        assert_eq!(verify(&checks, &file("three", &["ann"]), "ann", "secret").await, (true, true));
    }
}

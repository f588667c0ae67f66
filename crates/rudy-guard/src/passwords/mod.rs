//! Passwords: their hashes in htpasswd files, and how they are verified.

mod apr1;
mod cache;
mod check;
mod file;
mod hash;
mod prompt;
mod threads;
mod write;

pub use self::check::{Check, Credentials, PasswordChecks, default_threads};
pub use self::file::PasswordFile;
pub use self::threads::Busy;
pub use self::write::{Algorithm, HashPassword, hash_password};

/// The maximum length of a password in bytes. The time that some hashes take grows with it.
const PASSWORD_BYTES_MAX: usize = 1024;

//! The flags of `rudy hash-password`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use rudy_guard::passwords::{self, Algorithm};
use rudy_server::run::{Exit, cannot, print};

/// Hash a password for the users of `basic_auth`
///
/// Asks for the password on the terminal, or reads the first line of standard input. Prints its hash; with --user, the line
/// of an htpasswd file; with --file, replaces that line in the file or adds it.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  rudy hash-password --file /etc/rudy/htpasswd --user ann    add a user, or replace the password
  rudy hash-password --user ann >> htpasswd                  add a user to a file
  pwgen -s 20 1 | rudy hash-password                         hash a generated password

Exit codes: 0 done; 1 no password, or the file cannot be written; 2 invalid arguments.")]
pub(crate) struct HashPassword {
    /// Name of the user
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
    /// File in which to replace or add the line of the user; it is created if it is missing
    #[arg(long, value_name = "FILE", requires = "user")]
    file: Option<PathBuf>,
    /// Algorithm of the hash
    #[arg(long, value_name = "NAME", value_enum, default_value_t = HashAlgorithm::Argon2id)]
    algorithm: HashAlgorithm,
}

/// The algorithm of a hash.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum HashAlgorithm {
    /// Needs 19 MiB of memory for each guess
    Argon2id,
    /// For files that other servers read, too; at most 71 bytes
    Bcrypt,
}

impl HashPassword {
    pub(crate) fn run(self) -> Exit {
        let algorithm = match self.algorithm {
            HashAlgorithm::Argon2id => Algorithm::Argon2id,
            HashAlgorithm::Bcrypt => Algorithm::Bcrypt,
        };
        let options = passwords::HashPassword { user: self.user, file: self.file, algorithm };
        match passwords::hash_password(&options) {
            Ok(Some(line)) => print(format!("{line}\n").as_bytes()),
            Ok(None) => Exit::Done,
            Err(why) => cannot(&why),
        }
    }
}

//! Where a log goes.

use std::fmt;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use super::datagrams::{Datagrams, Protocol, Receiver};
use super::output::Target;
use super::rotation::{Rotation, RotationOptions, open_log};

/// Where a log goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Destination {
    /// `-`: standard output.
    Stdout,
    /// A file. It is created if it is missing, and appended to otherwise.
    File(PathBuf),
    /// Syslog (RFC 5424).
    Syslog(Receiver),
    /// The journal of systemd.
    Journald,
}

impl Destination {
    /// Parses a flag: `-` is standard output, everything else a path.
    ///
    /// # Errors
    ///
    /// It is a word that means something else in other servers.
    pub fn from_flag(path: PathBuf) -> Result<Self, &'static str> {
        match path.as_os_str().as_encoded_bytes() {
            b"-" => Ok(Self::Stdout),
            b"off" | b"none" => Err("leave out the flag for no access log, or write a path such as ./off"),
            b"stdout" => Err("write - for standard output, or a path such as ./stdout"),
            b"stderr" => Err("write /dev/stderr, or a path such as ./stderr"),
            _ => Ok(Self::File(path)),
        }
    }

    /// Returns the path of a file.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::File(path) => Some(path),
            Self::Stdout | Self::Syslog(_) | Self::Journald => None,
        }
    }

    /// Returns why a log cannot be sent to this other program; `None` if it can, and for other destinations.
    #[must_use]
    pub fn unusable_receiver(&self) -> Option<io::Error> {
        match self {
            Self::Syslog(_) | Self::Journald => self.open("access", None).err(),
            Self::Stdout | Self::File(_) => None,
        }
    }

    /// Opens the destination of the log `kind`, whose lines begin with their priority if it is a log of another program and `kind` is
    /// not `access`.
    pub(crate) fn open(&self, kind: &'static str, rotation: Option<&RotationOptions>) -> io::Result<Target> {
        let datagrams = |protocol| Datagrams::open(protocol, kind, kind != "access").map(Target::from);
        match self {
            Self::Stdout => Ok(File::from(io::stdout().as_fd().try_clone_to_owned()?).into()),
            Self::File(path) => {
                let file = open_log(path)?;
                Ok(match rotation {
                    Some(options) => {
                        let rotation = Rotation::new(path, options.clone(), &file);
                        Target::rotated(file, rotation)
                    }
                    None => file.into(),
                })
            }
            Self::Syslog(receiver) => datagrams(Protocol::Syslog(receiver.clone())),
            Self::Journald => datagrams(Protocol::Journald),
        }
    }
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stdout => f.write_str("standard output"),
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Syslog(receiver) => write!(f, "syslog {receiver}"),
            Self::Journald => f.write_str("journald"),
        }
    }
}

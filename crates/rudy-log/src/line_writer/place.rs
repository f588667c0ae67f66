//! Where a log goes, as configured.

use std::path::Path;

use rudy_config::{
    FilePath, Invalid, Location, Problem, Setting, Shape, Table, TableInfo, TableReader, Value, two_lines,
};

use super::{Destination, Receiver, RotationOptions};

/// What messages expect of a log without a destination, or with several.
pub const ONE_DESTINATION: &str = "expected one of `path`, `syslog` and `journald = true`";

/// Where a log goes, and how its file is rotated: the keys that the tables of all logs have.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LogPlace {
    /// Where the lines go. `None` without a key.
    pub destination: Option<Destination>,
    /// The rotation of a file.
    pub rotation: Option<RotationOptions>,
}

/// The keys.
#[derive(Table)]
#[setting(default)]
struct Keys {
    /// File to append to, relative to the configuration file. `-` is the standard output.
    #[setting(example = "/var/log/rudy/access.log")]
    path: Option<LogFile>,
    /// Receiver of syslog messages (RFC 5424), one per line, instead of a file: `unix:/dev/log` or `udp:HOST:514`.
    #[setting(example = "unix:/dev/log")]
    syslog: Option<Receiver>,
    /// Sends the lines to the journal of systemd instead of a file. Those of the error log have their priorities.
    journald: bool,
    /// Rotation of the file by Rudy itself. Without it, another program such as logrotate can rename the file.
    #[setting(example = { size = "100M", keep = 14 })]
    rotate: Option<RotationOptions>,
}

impl Table for LogPlace {
    const TABLE: &'static TableInfo = Keys::TABLE;

    fn read_keys(table: &TableReader<'_>) -> Result<Self, Invalid> {
        let keys = Keys::read_keys(table)?;
        keys.place(table.location()).map_err(|problem| table.report(*problem))
    }
}

impl Setting for LogPlace {
    const SHAPE: Shape = Keys::SHAPE;

    fn read(value: &Value<'_>) -> Result<Self, Invalid> {
        value.table()
    }
}

impl Keys {
    fn place(self, location: &Location) -> Result<LogPlace, Box<Problem>> {
        let Self { path, syslog, journald, rotate: rotation } = self;
        let destination = match (path, syslog, journald) {
            (None, None, false) => None,
            (Some(file), None, false) => Some(file.into()),
            (None, Some(receiver), false) => Some(Destination::Syslog(receiver)),
            (None, None, true) => Some(Destination::Journald),
            _ => {
                let problem = Problem::value(location, "a log has one destination");
                return Err(problem.label(ONE_DESTINATION).into());
            }
        };
        if rotation.is_some() && !matches!(destination, Some(Destination::File(_))) {
            let problem = Problem::key(&location.key("rotate"), "only a file can be rotated");
            return Err(problem.label("expected a file as `path`").into());
        }
        let problem = rotation.as_ref().and_then(|rotation| rotation.problem(&location.key("rotate")));
        problem.map_or(Ok(LogPlace { destination, rotation }), |problem| Err(problem.into()))
    }
}

/// The file of a log: `-` is the standard output. The words that other servers use in place of a file are errors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogFile(Option<FilePath>);

impl Setting for LogFile {
    const SHAPE: Shape = FilePath::SHAPE;

    fn read(value: &Value<'_>) -> Result<Self, Invalid> {
        let name = value.as_text().unwrap_or_default();
        if name == "-" {
            return Ok(Self(None));
        }
        match word_of_others(name, value.location()) {
            Some(instead) => value.invalid(
                two_lines(format_args!("\"{name}\" would be the name of a file"), instead)
                    + &format!("\nfor a file of this name, write \"./{name}\""),
            ),
            None => FilePath::read(value).map(|file| Self(Some(file))),
        }
    }
}

impl From<LogFile> for Destination {
    fn from(LogFile(file): LogFile) -> Self {
        file.map_or(Self::Stdout, |file| Self::File(Path::to_owned(&file)))
    }
}

/// What to write instead of a word that is no file in other servers.
fn word_of_others(name: &str, location: &Location) -> Option<&'static str> {
    let keys = location.keys();
    let is_access_log = keys.contains("access_log");
    Some(match name {
        "off" | "none" | "discard" if is_access_log => "write `access_log = false`",
        "off" | "none" | "discard" => "write `error_log = { level = \"off\" }`",
        "stdout" => "write \"-\"",
        "stderr" if is_access_log => "write \"/dev/stderr\"",
        "stderr" => "remove `error_log`: stderr is the default",
        "syslog" => "write `{ syslog = \"unix:/dev/log\" }`",
        "journal" | "journald" => "write `{ journald = true }`",
        _ => return None,
    })
}

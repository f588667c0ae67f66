//! Logs: a thread per log that writes its lines, so that no caller waits; files with rotation, syslog and journald; and the error log.
//! The access log, which knows requests, is in rudy-watch.

mod error_log;
mod line_writer;
mod lines;
mod local_time;

pub use error_log::{ErrorLog, ErrorLogOptions, Kind, Level, Levels, LineFormat};
pub use line_writer::{
    Compression, Destination, LineWriter, LogFailure, LogFile, LogPlace, ONE_DESTINATION, OnLogFailure,
    Receiver, RotationOptions, lost_lines, open_to_append,
};
pub use lines::{LINE_BYTES_MAX, Lines, OnLine};
pub use local_time::{LocalClock, utc};

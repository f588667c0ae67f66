//! What commands share: exit codes, and messages on standard error.

mod exit;

pub use exit::{CommandError, Exit, print, print_line, report_error, write_output};

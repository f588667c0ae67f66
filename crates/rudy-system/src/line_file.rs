//! Files with an entry in each line, such as users or networks.

use std::io::Read;
use std::path::Path;

use crate::watched_files::open;

/// The maximum size of a file: enough for tens of thousands of entries.
const FILE_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// The most wrong lines to report.
pub const FAULTS_MAX: usize = 20;

/// Reads the text of a file, without a byte order mark.
///
/// # Errors
///
/// Why it cannot be read.
pub fn read_text(path: &Path) -> Result<String, String> {
    let file = open(path).map_err(|error| error.to_string())?;
    let mut text = String::new();
    let read = file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text);
    match read {
        Ok(bytes) if bytes as u64 > FILE_BYTES_MAX => Err("it is larger than 4 MiB".to_owned()),
        // With the byte order mark of Windows, the first entry would be another one.
        Ok(_) => Ok(text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text)),
        Err(error) => Err(error.to_string()),
    }
}

/// Calls `add` with each line that is neither empty nor a comment.
///
/// # Errors
///
/// What `add` finds wrong with each line, behind its number.
pub fn each_line(text: &str, mut add: impl FnMut(&str) -> Result<(), String>) -> Result<(), Vec<String>> {
    let mut faults = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Err(why) = add(line) {
            faults.push(format!("line {number} {why}"));
        }
    }
    if faults.is_empty() {
        return Ok(());
    }
    if let Some(more) = faults.len().checked_sub(FAULTS_MAX).filter(|more| *more > 0) {
        faults.truncate(FAULTS_MAX);
        faults.push(format!("{more} more lines are wrong"));
    }
    Err(faults)
}

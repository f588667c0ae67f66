//! The text of a file, and errors of its syntax.

use std::fs::File;
use std::io::Read;
use std::ops::Range;
use std::path::Path;

use crate::diagnostics::Problem;

/// The maximum size of a file: enough for thousands of sites. A device such as `/dev/zero` has no end.
const FILE_BYTES_MAX: u64 = 4 * 1024 * 1024;

pub(crate) fn read_text(path: &Path) -> Result<String, String> {
    let file = File::open(path).map_err(|error| error.to_string())?;
    let mut bytes = Vec::new();
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err("the file is larger than 4 MiB".to_owned());
    }
    String::from_utf8(bytes).map_err(|error| {
        let line = error.as_bytes()[..error.utf8_error().valid_up_to()].split(|byte| *byte == b'\n').count();
        format!("line {line} is not UTF-8")
    })
}

/// The first line that is neither empty nor a comment.
pub(crate) fn first_line(text: &str) -> Range<usize> {
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let line = lines.next().unwrap_or_default();
    let start = line.as_ptr().addr() - text.as_ptr().addr();
    start..start + line.len()
}

/// Keeps only the first of several errors in adjacent lines: one mistake, such as an unclosed quote, causes the others.
pub(crate) fn syntax_errors(source: usize, text: &str, errors: &[toml::de::Error]) -> Vec<Problem> {
    let mut problems = Vec::new();
    let (mut last_line, mut line, mut end) = (None, 0, 0);
    let mut errors: Vec<_> = errors.iter().map(|error| (error.span().unwrap_or_default(), error)).collect();
    errors.sort_by_key(|(span, _)| span.start);
    for (span, error) in errors {
        line += text.get(end..span.start).unwrap_or_default().matches('\n').count();
        end = span.start;
        if last_line.is_none_or(|last| line > last + 1) {
            problems.push(Problem::span(source, span, error.message()));
        }
        last_line = Some(line);
    }
    problems
}

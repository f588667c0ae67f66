//! Sources of `rudy replay`: any text is a list of requests or an error with a place. A log reads on after a line without a request.

use rudy_replay::source::{Format, Line, Log, Pattern, har, urls};

pub(crate) fn run(input: &[u8]) {
    let mut lines = input.split(|byte| *byte == b'\n');
    let pattern = String::from_utf8_lossy(lines.next().unwrap_or_default()).parse::<Pattern>();
    let formats = [Some(Format::Detected), Some(Format::Json), pattern.ok().map(Format::Pattern)];
    for format in formats.into_iter().flatten() {
        read(format, lines.clone());
    }
    let text = String::from_utf8_lossy(input);
    for request in urls(&text).into_iter().chain(har(&text)).flatten() {
        assert!(request.target.starts_with('/'), "{}", request.target);
    }
}

fn read<'a>(format: Format, lines: impl Iterator<Item = &'a [u8]>) {
    let mut log = Log::new(format);
    for (line, number) in lines.zip(1..) {
        match log.line(line) {
            Ok(Line::Request(request)) => {
                assert_eq!(request.place.0, number);
                assert!(request.target.starts_with('/'), "{}", request.target);
            }
            Ok(Line::NoRequest) => {}
            Err(error) => assert_eq!(error.place.map(|place| place.0), Some(number), "{error}"),
        }
    }
}

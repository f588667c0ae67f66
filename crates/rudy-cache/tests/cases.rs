//! Conversations of a client, the cache and an origin, from `tests/cases/*.case`.
//!
//! | line | meaning |
//! |---|---|
//! | `case NAME` | A case with an empty cache. |
//! | `policy NAME[=VALUE] …` | Settings other than the default. |
//! | `wait SECONDS` | The clock advances, from second 0 at 08:49:37. |
//! | `> METHOD /TARGET` | The client sends a request to `https://a.example`. |
//! | `> NAME: VALUE` | A field of this request. |
//! | `= DECISION` | The expected `Cache-Status` without the name; then `background`, `stale-if-error` or `504`. |
//! | `>> NAME: VALUE` | A field that the cache sends to the origin. `>> !NAME`: it does not. |
//! | `< STATUS` | The origin responds. |
//! | `< NAME: VALUE` | A field of this response. |
//! | `* OUTCOME` | What changes in the cache. |
//! | `<< NAME: VALUE` | A field of the response from the cache. `<< !NAME`: it has none. `<< 304`: it is a 304. |
//! | `received BYTES` | The connection failed after that many bytes of the content. |
//!
//! Each stored response is written to its bytes and read again before it is used.

mod runner;

use std::path::Path;

use runner::Runner;

#[test]
fn every_case_holds() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let mut failures = Vec::new();
    let mut count = 0;
    for file in files.iter().filter(|file| file.extension().is_some_and(|extension| extension == "case")) {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        let text = std::fs::read_to_string(file).unwrap();
        for case in cases(&text) {
            count += 1;
            if let Err((line, problem)) = Runner::default().run(&case) {
                failures.push(format!("{name}:{line}: {problem}"));
            }
        }
    }
    assert!(count > 0, "there are cases");
    assert!(failures.is_empty(), "{} of {count} cases fail:\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn a_case_can_fail() {
    for (text, problem) in [
        ("case a\n> GET /\n= hit", "expected `hit`, found `fwd=uri-miss`"),
        (
            "case a\n> GET /\n= fwd=uri-miss\n< 200\n* stored",
            "expected `stored`, found `not stored: it is never fresh",
        ),
        ("case a\n> GET /\n> a: b\n= fwd=uri-miss\n>> a: c", "expected `a: c`, found `b`"),
        (
            "case a\n> GET /\n= fwd=uri-miss\n>> !accept-encoding",
            "expected no `accept-encoding`, found `identity`",
        ),
        ("case a\nwait x", "not a number"),
        ("case a\nhello", "not a line of a case"),
    ] {
        let (_, found) = Runner::default().run(&cases(text)[0]).unwrap_err();
        assert!(found.starts_with(problem), "{found}");
    }
}

/// Returns the lines of each case with their numbers, without comments and empty lines.
fn cases(text: &str) -> Vec<Vec<(usize, &str)>> {
    let mut cases: Vec<Vec<_>> = Vec::new();
    for (index, line) in
        text.lines().enumerate().filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
    {
        if line.starts_with("case ") {
            cases.push(Vec::new());
        } else {
            cases.last_mut().expect("a case begins with its name").push((index + 1, line));
        }
    }
    cases
}

//! Rules for sources and manifests.

use super::File;

/// The only file with calls that close connections, so that none leaks and every error response arrives (RFC 9112 §9.6).
const CLOSE: &str = "crates/rudy-socket/src/close.rs";

/// Calls that close a socket or one direction of it, change how it closes, or leak its descriptor. Without `poll_shutdown`, which a
/// type that wraps a socket must forward, and without drops, which are not visible in the text.
const CLOSING: &[&str] = &[
    ".shutdown(",
    "net::shutdown(",
    "Shutdown::Both",
    "Shutdown::Read",
    "Shutdown::Write",
    "set_linger(",
    "SO_LINGER",
    "into_raw_fd(",
    "mem::forget(",
    "ManuallyDrop",
    "Box::leak(",
    "io::close(",
    "libc::close(",
];

/// Maximum number of lines in a source file without its tests. Split a file that is longer.
const LINES_MAX: usize = 500;

/// Marks of unfinished code. Concatenated, so that the check does not find this file.
const MARKS: &[&str] =
    &[concat!("TO", "DO"), concat!("FIX", "ME"), concat!("todo", "!("), concat!("dbg", "!(")];

/// Returns manifests of members that do not use the lints of the workspace.
pub(super) fn without_lints(manifests: &[File]) -> Vec<String> {
    manifests
        .iter()
        .filter(|file| file.path.ends_with("Cargo.toml") && !file.path.starts_with("fuzz/"))
        .filter(|file| file.text.contains("[package]") && !file.text.contains("[lints]\nworkspace = true"))
        .map(|file| format!("{} lacks `[lints]` with `workspace = true`", file.path))
        .collect()
}

/// Returns places outside of [`CLOSE`] that close a socket. Tests are exempt, because they contain clients.
pub(super) fn closes(sources: &[File]) -> Vec<String> {
    sources
        .iter()
        .filter(|file| ["crates/", "libraries/"].iter().any(|folder| file.path.starts_with(folder)))
        .filter(|file| file.path.contains("/src/"))
        .filter(|file| file.path != CLOSE)
        .flat_map(|file| lines_with(file, outside_tests(file), CLOSING))
        .map(|place| format!("{place}: only {CLOSE} has calls that close connections"))
        .collect()
}

/// Returns source files with more than [`LINES_MAX`] lines.
pub(super) fn too_long(sources: &[File]) -> Vec<String> {
    let in_workspace = |file: &&File| !file.path.starts_with("fuzz/");
    sources
        .iter()
        .filter(in_workspace)
        .map(|file| (&file.path, outside_tests(file).lines().count()))
        .filter(|(_, lines)| *lines > LINES_MAX)
        .map(|(path, lines)| format!("{path} has {lines} lines, more than {LINES_MAX}: split it"))
        .collect()
}

/// Returns places with marks of unfinished code.
pub(super) fn unfinished(sources: &[File]) -> Vec<String> {
    sources
        .iter()
        .flat_map(|file| lines_with(file, &file.text, MARKS))
        .map(|place| format!("{place}: finish it or remove it"))
        .collect()
}

/// Returns the text of a file without the tests at its end. Empty if the file only contains tests, by its name.
fn outside_tests(file: &File) -> &str {
    if file.path.ends_with("/tests.rs") || file.path.contains("/tests/") {
        return "";
    }
    // Not `mod tests;`, which can be followed by code.
    file.text.split_once("#[cfg(test)]\nmod tests {").map_or(&file.text, |(code, _)| code)
}

/// Returns `path:line: needle` for every line of `text` that contains a needle. Skips comment lines, except for [`MARKS`].
fn lines_with(file: &File, text: &str, needles: &[&str]) -> Vec<String> {
    let comments_count = needles == MARKS;
    let mut places = Vec::new();
    for (index, line) in text.lines().enumerate() {
        if !comments_count && line.trim_start().starts_with("//") {
            continue;
        }
        if let Some(needle) = needles.iter().find(|needle| line.contains(**needle)) {
            places.push(format!("{}:{}: `{needle}`", file.path, index + 1));
        }
    }
    places
}

/// A file that is used as it is. A test compares its version.
const CHART: &str = "packaging/helm/rudy/Chart.yaml";

/// Finds the version of the workspace in files of packages, where the next one would miss. A release replaces `@VERSION@`.
pub(super) fn versions(packaging: &[File], version: &str) -> Vec<String> {
    let named = packaging.iter().filter(|file| file.path != CHART && file.text.contains(version));
    named.map(|file| format!("{} names the version {version}: write @VERSION@", file.path)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::file;

    #[test]
    fn a_close_outside_of_the_allowed_file_is_reported_with_its_line() {
        for line in [
            "stream.shutdown(How::Write);",
            "rustix::net::shutdown(stream, how);",
            "let how = Shutdown::Read;",
            "stream.set_linger(Some(Duration::ZERO));",
            "let fd = stream.into_raw_fd();",
            "std::mem::forget(stream);",
            "let stream = ManuallyDrop::new(stream);",
        ] {
            let text = format!("fn f() {{\n    {line}\n}}\n");
            let problems = closes(&[file("crates/rudy-server/src/log.rs", &text), file(CLOSE, &text)]);
            assert_eq!(problems.len(), 1, "{line}");
            assert!(problems[0].starts_with("crates/rudy-server/src/log.rs:2:"), "{problems:?}");
        }
    }

    #[test]
    fn tests_and_comments_can_mention_closing_sockets() {
        let in_tests = "fn f() {}\n\n#[cfg(test)]\nmod tests {\n    fn g() { s.shutdown(b) }\n}\n";
        let in_comment = "// never s.shutdown() here\n";
        let sources = [
            file("crates/rudy-net/src/a.rs", in_tests),
            file("crates/rudy-net/src/b.rs", in_comment),
            file("crates/rudy-net/src/connection/tests.rs", "s.shutdown(b)\n"),
            file("crates/rudy-net/tests/c.rs", "s.shutdown(b)\n"),
        ];
        assert_eq!(closes(&sources), Vec::<String>::new());
    }

    #[test]
    fn code_after_a_declaration_of_a_tests_module_is_checked() {
        let text = "#[cfg(test)]\nmod tests;\n\nfn f() { s.shutdown(b) }\n";
        assert_eq!(closes(&[file("crates/rudy-net/src/a.rs", text)]).len(), 1);
    }

    #[test]
    fn a_file_with_too_many_lines_is_reported() {
        let lines = |n: usize| file("crates/rudy-net/src/a.rs", &"x\n".repeat(n));
        assert!(too_long(&[lines(LINES_MAX)]).is_empty());
        assert_eq!(too_long(&[lines(LINES_MAX + 1)]).len(), 1);
        assert!(too_long(&[file("crates/rudy-net/src/tests.rs", &"x\n".repeat(LINES_MAX + 1))]).is_empty());
    }

    #[test]
    fn marks_of_unfinished_code_are_found_in_comments_too() {
        for mark in MARKS {
            assert_eq!(unfinished(&[file("xtask/src/a.rs", &format!("// {mark} x\n"))]).len(), 1);
        }
    }

    #[test]
    fn a_member_without_the_lints_is_reported() {
        let with = "[package]\nname = \"a\"\n\n[lints]\nworkspace = true\n";
        let without = "[package]\nname = \"b\"\n";
        let manifests = [file("crates/a/Cargo.toml", with), file("crates/b/Cargo.toml", without)];
        assert_eq!(without_lints(&manifests).len(), 1);
        assert!(without_lints(&[file("Cargo.toml", "[workspace]\n")]).is_empty());
    }

    #[test]
    fn a_version_in_a_file_of_packages_is_reported() {
        let files = [
            file("packaging/a", "version @VERSION@"),
            file("packaging/b", "version 1.2.3"),
            file(CHART, "version: 1.2.3"),
        ];
        assert_eq!(versions(&files, "1.2.3"), ["packaging/b names the version 1.2.3: write @VERSION@"]);
    }
}

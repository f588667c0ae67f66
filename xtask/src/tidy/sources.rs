//! Rules for the text of sources and manifests.

use super::File;

/// The file in which a connection is ended: every one goes through it, so that none leaks and every error answer arrives
/// (RFC 9112 §9.6).
const CLOSE: &str = "crates/rudy-net/src/close.rs";

/// What ends a socket, or one direction of it, or has its end be another one, or loses its descriptor. `poll_shutdown` is
/// not among them: a type that wraps a socket has to pass it on. Nor is a drop, which no text shows.
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

/// Lines in a source file, its tests left out: those are lists, and a list may be long. A file that needs more holds two
/// ideas.
const LINES_MAX: usize = 500;

/// What says that something is not done yet. In two halves each, so that this file does not find itself.
const MARKS: &[&str] =
    &[concat!("TO", "DO"), concat!("FIX", "ME"), concat!("todo", "!("), concat!("dbg", "!(")];

/// Manifests of members without the line that takes the workspace's lints.
pub(super) fn without_lints(manifests: &[File]) -> Vec<String> {
    manifests
        .iter()
        .filter(|file| file.path.ends_with("Cargo.toml") && !file.path.starts_with("fuzz/"))
        .filter(|file| file.text.contains("[package]") && !file.text.contains("[lints]\nworkspace = true"))
        .map(|file| format!("{} lacks `[lints]` with `workspace = true`", file.path))
        .collect()
}

/// Places outside [`CLOSE`] that end a socket. Tests hold clients, and a client may hang up as it likes.
pub(super) fn closes(sources: &[File]) -> Vec<String> {
    sources
        .iter()
        .filter(|file| file.path.starts_with("crates/") && file.path.contains("/src/"))
        .filter(|file| file.path != CLOSE)
        .flat_map(|file| lines_with(file, outside_tests(file), CLOSING))
        .map(|place| format!("{place}: a connection ends only in {CLOSE}"))
        .collect()
}

/// Source files over [`LINES_MAX`].
pub(super) fn too_long(sources: &[File]) -> Vec<String> {
    let in_building = |file: &&File| !file.path.starts_with("fuzz/");
    sources
        .iter()
        .filter(in_building)
        .map(|file| (&file.path, outside_tests(file).lines().count()))
        .filter(|(_, lines)| *lines > LINES_MAX)
        .map(|(path, lines)| {
            format!("{path} has {lines} lines; {LINES_MAX} are allowed: which two ideas does it hold?")
        })
        .collect()
}

/// Places that say something is still to be done.
pub(super) fn left_for_later(sources: &[File]) -> Vec<String> {
    sources
        .iter()
        .flat_map(|file| lines_with(file, &file.text, MARKS))
        .map(|place| format!("{place}: do it, or leave it out"))
        .collect()
}

/// A file's text up to its tests, which stand at its end; all of it is tests where the file says so by its name.
fn outside_tests(file: &File) -> &str {
    if file.path.ends_with("/tests.rs") || file.path.contains("/tests/") {
        return "";
    }
    // Not `mod tests;`, which may stand above code.
    file.text.split_once("#[cfg(test)]\nmod tests {").map_or(&file.text, |(code, _)| code)
}

/// `path:line: needle` for every line of `text` with one of the needles in it, comments that stand alone left out
/// unless they are what is looked for.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::file;

    #[test]
    fn a_socket_ended_outside_the_close_is_found_with_its_line() {
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
    fn tests_and_comments_may_speak_of_ending_sockets() {
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
    fn tests_in_another_file_do_not_hide_the_code_below_their_mention() {
        let text = "#[cfg(test)]\nmod tests;\n\nfn f() { s.shutdown(b) }\n";
        assert_eq!(closes(&[file("crates/rudy-net/src/a.rs", text)]).len(), 1);
    }

    #[test]
    fn a_file_may_have_as_many_lines_as_allowed_and_not_one_more() {
        let lines = |n: usize| file("crates/rudy-net/src/a.rs", &"x\n".repeat(n));
        assert!(too_long(&[lines(LINES_MAX)]).is_empty());
        assert_eq!(too_long(&[lines(LINES_MAX + 1)]).len(), 1);
        assert!(too_long(&[file("crates/rudy-net/src/tests.rs", &"x\n".repeat(LINES_MAX + 1))]).is_empty());
    }

    #[test]
    fn what_is_left_for_later_is_found_in_comments_too() {
        for mark in MARKS {
            assert_eq!(left_for_later(&[file("xtask/src/a.rs", &format!("// {mark} x\n"))]).len(), 1);
        }
    }

    #[test]
    fn a_member_without_the_lints_is_found() {
        let with = "[package]\nname = \"a\"\n\n[lints]\nworkspace = true\n";
        let without = "[package]\nname = \"b\"\n";
        let manifests = [file("crates/a/Cargo.toml", with), file("crates/b/Cargo.toml", without)];
        assert_eq!(without_lints(&manifests).len(), 1);
        assert!(without_lints(&[file("Cargo.toml", "[workspace]\n")]).is_empty());
    }
}

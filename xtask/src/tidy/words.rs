//! Rules for words: phrases that no text may contain, and names that may not return to the code.

use std::sync::LazyLock;

use proc_macro2::{TokenStream, TokenTree};
use regex::Regex;

use super::File;

/// Phrases that prose, messages and comments may not contain, each with the text to write in its place.
const PHRASES: &[(&str, &str)] = &[
    ("nobody", "name the person or program: no client, no other process"),
    ("whoever", "name the person or program: the user, the caller, the client"),
    ("whomever", "name the person or program"),
    ("whom", "name the person or program"),
    ("somebody", "name the person or program: a user, an administrator"),
    ("anew", "again"),
    ("amiss", "wrong, invalid"),
    ("in vain", "without success"),
    ("by and by", "gradually"),
    ("come what may", "always"),
    ("so many", "a number"),
    ("is told", "receives, is notified"),
    ("are told", "receive, are notified"),
    ("was told", "received, was notified"),
    ("is said", "name the subject and use the active voice"),
    ("are said", "name the subject and use the active voice"),
    ("was said", "name the subject and use the active voice"),
    ("says that", "reports, states, shows"),
    ("is to be", "must be, will be"),
    ("are to be", "must be, will be"),
    ("let in", "accepted"),
    ("lets in", "accepts"),
    ("heed", "handle"),
    ("heeds", "handles"),
    ("heeded", "handled"),
    ("under way", "in flight, in progress"),
    ("stands in", "is in"),
    ("stands on", "is on"),
    ("stands for", "means"),
    ("it stands", "it is"),
    ("hears of", "receives, is notified of"),
    ("is asked for", "is requested"),
    ("are asked for", "are requested"),
    ("a request's way", "the lifecycle of a request"),
    ("for ever", "forever"),
];

/// Names that may not return, each with the name to use: a word is banned in every compound (`lane` in `NewLane` and
/// `for_lanes`), a capitalised word as the whole name only.
const NAMES: &[(&str, &str)] = &[
    ("lane", "worker"),
    ("crew", "thread pool"),
    ("carrier", "spawner"),
    ("inbox", "receive buffer"),
    ("hush", "clear_waker"),
    ("deaf", "write_closed"),
    ("seat", "permit"),
    ("lease", "checkout"),
    ("grant", "permit"),
    ("shun", "back_off"),
    ("prove", "mark_accepted"),
    ("bury", "reap"),
    ("heed", "handle"),
    ("bell", "wake-up descriptor"),
    ("spill", "buffer"),
    ("shed", "rejected, over the limit"),
    ("vitals", "metrics"),
    ("dress", "apply_error_page"),
    ("whose", "request context"),
    ("asked", "request info"),
    ("said", "output"),
    ("lent", "borrowed"),
    ("floor", "layer"),
    ("knee", "maximum sustainable rate"),
    ("tell", "notify, report, log"),
    ("told", "received, message, output"),
    ("anew", "again"),
    ("believed", "trusted"),
    ("News", "Received"),
    ("Home", "RuntimeId"),
    ("Link", "Connection"),
    ("Job", "QueuedConnection"),
    ("Local", "LocalAddress"),
    ("Held", "PooledConnection"),
    ("Lead", "Leader"),
    ("Begun", "ResponseHead"),
    ("Passing", "ResponseBody"),
    ("Unsent", "HeadOnlyBody"),
    ("Evidence", "Dependencies"),
    ("WhileWanted", "cancel on disconnect"),
    ("Quiet", "NoLinger"),
];

/// Names that may not return to the sources in [`MEASURING`], where [`NAMES`] have other meanings.
const MEASURING_NAMES: &[(&str, &str)] = &[
    ("subject", "variant"),
    ("beside", "companion"),
    ("company", "companion"),
    ("says", "output_format"),
    ("figure", "metric"),
    ("doubt", "validity warning"),
    ("doubtful", "suspect"),
    ("lag", "schedule_delay"),
    ("under_way", "in_flight"),
    ("carried_over", "warmup_spillover"),
    ("left_over", "not_sent"),
    ("abandoned", "in_flight_at_end"),
    ("moment", "sample"),
    ("crowd", "connections"),
    ("fleet", "connections"),
    ("scribe", "recorder"),
    ("course", "schedule, chart"),
    ("stolen", "steal"),
    ("Seen", "Measurement"),
    ("Says", "OutputFormat"),
    ("Nines", "SuccessRate"),
    ("Feed", "RequestSchedule"),
    ("Room", "DescriptorLimit"),
    ("Look", "Sample"),
];

/// Sources that measure and whose names follow the glossary.
const MEASURING: &[&str] = &[
    "crates/rudy-charts/",
    "crates/rudy-command/",
    "crates/rudy-diagnose/",
    "crates/rudy-experiment/",
    "crates/rudy-lab/",
    "crates/rudy-load/",
    "crates/rudy-observe/",
    "crates/rudy-request/",
    "crates/rudy-stats/",
    "crates/rudy-units/",
    "tests/tests/measure/lab.rs",
    "tests/tests/measure/lab_gate.rs",
    "tests/tests/measure/lab_plans.rs",
    "tests/tests/measure/lab_report/",
    "tests/tests/peers/generators/",
];

/// Sources whose names follow the glossary.
const NAMED: &[&str] = &[
    "crates/rudy-cache/",
    "crates/rudy-caching/",
    "crates/rudy-charts/",
    "crates/rudy-client/",
    "crates/rudy-command/",
    "crates/rudy-diagnose/",
    "crates/rudy-experiment/",
    "crates/rudy-fastcgi/",
    "crates/rudy-files/",
    "crates/rudy-gateway/",
    "crates/rudy-guard/",
    "crates/rudy-handlers/",
    "crates/rudy-http/",
    "crates/rudy-lab/",
    "crates/rudy-load/",
    "crates/rudy-log/",
    "crates/rudy-message/",
    "crates/rudy-mirror/",
    "crates/rudy-net/",
    "crates/rudy-observe/",
    "crates/rudy-pipeline/",
    "crates/rudy-proxy/",
    "crates/rudy-request/",
    "crates/rudy-server/",
    "crates/rudy-service/",
    "crates/rudy-site-tls/",
    "crates/rudy-socket/",
    "crates/rudy-stats/",
    "crates/rudy-system/",
    "crates/rudy-units/",
    "crates/rudy-upstream/",
    "crates/rudy-watch/",
    "crates/rudy/",
    "libraries/",
    "tests/",
    "xtask/",
];

/// The extensions of files that people read.
pub(super) const EXTENSIONS: &[&str] = &[
    "case", "conf", "css", "go", "html", "js", "md", "php", "py", "rs", "service", "sh", "socket", "toml",
    "yaml",
];

/// This file, which has to contain what it looks for.
const THIS: &str = "xtask/src/tidy/words.rs";

/// All of [`PHRASES`]. A phrase may continue on the next line, behind the mark of its comment.
static PHRASE: LazyLock<Regex> = LazyLock::new(|| {
    let phrases: Vec<_> = PHRASES.iter().map(|(phrase, _)| phrase.replace(' ', r"[\s/!#*\\]+")).collect();
    Regex::new(&format!(r"(?i)\b(?:{})\b", phrases.join("|"))).expect("the list holds words and spaces alone")
});

/// Places with one of [`PHRASES`]. A word in quotes or backticks, or behind `=`, is a value (the user `nobody`),
/// and one behind a hyphen a part of a flag (`--kill-whom`).
pub(super) fn phrases(files: &[File]) -> Vec<String> {
    let mut problems = Vec::new();
    for file in files.iter().filter(|file| file.path != THIS) {
        for found in PHRASE.find_iter(&file.text).filter(|found| !is_literal(&file.text, found.range())) {
            let line = 1 + file.text[..found.start()].matches('\n').count();
            problems.push(format!(
                "{}:{line}: `{}`; write: {}",
                file.path,
                words_of(found.as_str()),
                instead_of(found.as_str())
            ));
        }
    }
    problems
}

/// Identifiers with one of [`NAMES`] or [`MEASURING_NAMES`] in them.
pub(super) fn names(sources: &[File]) -> Vec<String> {
    let lists = [(NAMED, NAMES), (MEASURING, MEASURING_NAMES)];
    let pairs = lists.iter().flat_map(|(folders, banned)| {
        let is_in = |file: &&File| folders.iter().any(|folder| file.path.starts_with(folder));
        sources.iter().filter(is_in).map(move |file| (file, *banned))
    });
    pairs
        .filter(|(file, _)| file.path != THIS)
        .flat_map(|(file, banned)| match file.text.parse() {
            Ok(tokens) => banned_in(tokens, file, banned),
            Err(error) => vec![format!("{} is not Rust: {error}", file.path)],
        })
        .collect()
}

fn banned_in(tokens: TokenStream, file: &File, banned: &[(&str, &str)]) -> Vec<String> {
    let mut problems = Vec::new();
    let mut after_dot = false;
    for token in tokens {
        if let TokenTree::Ident(identifier) = &token {
            let name = identifier.to_string();
            // `x.floor()`, `f64::floor` and `floor_char_boundary` are the standard library's.
            let is_method = after_dot && name.starts_with("floor");
            let parts = parts(&name);
            let is_banned = |word: &str| !is_method && has_word(&name, &parts, word);
            if let Some((word, instead)) = banned.iter().find(|(word, _)| is_banned(word)) {
                let line = identifier.span().start().line;
                problems.push(format!("{}:{line}: `{name}` has `{word}` in it; write: {instead}", file.path));
            }
        }
        after_dot = matches!(&token, TokenTree::Punct(mark) if matches!(mark.as_char(), '.' | ':'));
        if let TokenTree::Group(group) = token {
            problems.extend(banned_in(group.stream(), file, banned));
        }
    }
    problems
}

/// The words that an identifier is made of, in lower case.
fn parts(identifier: &str) -> Vec<String> {
    let starts = |(at, c): &(usize, char)| *at == 0 || *c == '_' || c.is_uppercase();
    let mut bounds: Vec<_> = identifier.char_indices().filter(starts).map(|(at, _)| at).collect();
    bounds.push(identifier.len());
    let part = |pair: &[usize]| identifier[pair[0]..pair[1]].trim_start_matches('_').to_ascii_lowercase();
    bounds.windows(2).map(part).collect()
}

/// Whether an identifier of these parts has the word in it, alone or in the plural; a capitalised word is the whole identifier.
fn has_word(identifier: &str, parts: &[String], word: &str) -> bool {
    if word.starts_with(char::is_uppercase) {
        return identifier == word;
    }
    if word.contains('_') {
        return identifier.contains(word);
    }
    parts.iter().any(|part| part == word || part.strip_suffix('s') == Some(word))
}

fn is_literal(text: &str, range: std::ops::Range<usize>) -> bool {
    let quoted = |c: Option<char>| matches!(c, Some('"' | '`' | '_'));
    let before = &text[..range.start];
    let is_value = before.ends_with("= ") || before.ends_with(['=', '-']);
    is_value || quoted(before.chars().next_back()) && quoted(text[range.end..].chars().next())
}

/// A match that may reach over two lines, as the words that it is made of.
fn words_of(found: &str) -> String {
    found
        .split(|c: char| !c.is_alphabetic() && c != '\'')
        .filter(|word| !word.is_empty())
        .collect::<Vec<_>>()
        .join(" ")
}

fn instead_of(found: &str) -> &'static str {
    let phrase = words_of(found).to_lowercase();
    PHRASES.iter().find(|(banned, _)| *banned == phrase).map_or("plain words", |(_, instead)| instead)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::file;

    #[test]
    fn a_banned_phrase_is_found_with_its_line_also_across_two_lines() {
        let text = "//! Fine.\n/// The app is\n    /// told of it.\nfn f() {} // Nobody's\n";
        let problems = phrases(&[file("crates/a.rs", text)]);
        assert_eq!(problems.len(), 2, "{problems:?}");
        assert!(problems[0].starts_with("crates/a.rs:2: `is told`; write: receives"), "{problems:?}");
        assert!(problems[1].starts_with("crates/a.rs:4: `Nobody`"), "{problems:?}");
    }

    #[test]
    fn a_literal_and_a_longer_word_are_not_phrases() {
        let text = "user = \"nobody\"\nthe user `nobody`\nuser = nobody --kill-whom=main is unheeded, renew, is toldable";
        assert_eq!(phrases(&[file("docs/a.md", text)]), Vec::<String>::new());
    }

    #[test]
    fn a_banned_name_is_found_in_compounds_but_not_in_comments_strings_or_longer_words() {
        let text = "// lane\nstruct NewLane { lanes: u8 }\nfn for_lane(planet: &str) { \"lane\"; }\n";
        let problems = names(&[file("crates/rudy-net/src/a.rs", text)]);
        assert_eq!(problems.len(), 3, "{problems:?}");
        assert!(problems[0].starts_with("crates/rudy-net/src/a.rs:2: `NewLane`"), "{problems:?}");
        assert!(names(&[file("examples/a.rs", text)]).is_empty());
    }

    #[test]
    fn sources_that_measure_have_a_list_of_their_own() {
        let text = "fn most_under_way(crowds: Seen, lane: u8) {}\n";
        assert_eq!(names(&[file("crates/rudy-load/src/a.rs", text)]).len(), 4);
        assert_eq!(names(&[file("crates/rudy-net/src/a.rs", text)]).len(), 1, "the lane");
    }

    #[test]
    fn a_capitalised_name_is_banned_alone_and_the_floor_of_a_number_is_not() {
        let text = "fn f(a: LocalAddress, b: Local) { 1.5_f64.floor(); f64::floor(1.5); floor(); }\n";
        let problems = names(&[file("xtask/src/a.rs", text)]);
        assert_eq!(problems.len(), 2, "{problems:?}");
        assert!(problems[0].contains("`Local`") && problems[1].contains("`floor`"), "{problems:?}");
    }
}

//! Generates the spellings: each change alone, then random combinations from a seed.

use std::collections::HashSet;

use super::request::{Change, Request};
use super::{fields, framing, line, path};
use crate::random::Random;

/// One spelling of a request.
#[derive(Debug, Clone)]
pub struct Spelling {
    /// The meaning and the changes, for rules to match: `meaning/file`, `path/encoded-slash`.
    pub tags: Vec<&'static str>,
    /// The encoded request.
    pub bytes: Vec<u8>,
    /// The target.
    pub target: Vec<u8>,
    /// The path and the query, not decoded, without the scheme and the authority of an absolute target.
    pub path_and_query: Vec<u8>,
    /// Whether the response has no body.
    pub is_head: bool,
}

/// The number of requests with several changes.
const COMPOSED: usize = 1500;

/// The unchanged requests. Those with `PATH` get all changes of the path, those with `LINE` all changes of the request line and
/// of fields, and those with `BODY` all changes of the framing.
const MEANINGS: &[Meaning] = &[
    ("meaning/file", || Request::get("/docs/a%20b.txt"), &[PATH, LINE, BODY]),
    ("meaning/folder", || Request::get("/docs/"), &[]),
    ("meaning/folder-without-slash", || Request::get("/docs"), &[]),
    ("meaning/missing", || Request::get("/docs/missing.txt"), &[]),
    ("meaning/script", || Request::get("/app.php?q=1"), &[]),
    ("meaning/path-info", || Request::get("/app.php/x/y"), &[PATH, LINE]),
    ("meaning/path-info-slash", || Request::get("/app.php/A%2FB"), &[]),
    ("meaning/path-info-backslash", || Request::get("/app.php/A%5CB"), &[]),
    ("meaning/path-info-dots", || Request::get("/app.php/x%2F..%2Fy"), &[]),
    ("meaning/encoded-slash", || Request::get("/docs%2Fa%20b.txt"), &[]),
    ("meaning/encoded-slash-in-script", || Request::get("/docs%2Fapp.php/x"), &[]),
    ("meaning/closed-file", || Request::get("/secret/key.txt"), &[PATH, LINE]),
    ("meaning/closed-script", || Request::get("/secret/app.php/x"), &[PATH]),
    ("meaning/closed-folder", || Request::get("/secret"), &[]),
    ("meaning/outside", || Request::get("/../outside.txt"), &[]),
    ("meaning/source", || Request::get("/upper.PHP"), &[PATH]),
    ("meaning/source-backup", || Request::get("/app.php.bak"), &[]),
    ("meaning/post", || Request::post("/app.php", b"name=value"), &[LINE, BODY]),
    ("meaning/closed-post", || Request::post("/secret/app.php", b"name=value"), &[BODY]),
];

/// A tag, the request, and the kinds of changes.
type Meaning = (&'static str, fn() -> Request, &'static [&'static str]);

const PATH: &str = "path";
const LINE: &str = "line";
const BODY: &str = "body";

/// Returns all spellings. The same seed gives the same spellings.
pub fn all(seed: u64) -> Vec<Spelling> {
    let sets = [
        (PATH, path::changes()),
        (LINE, line::changes().into_iter().chain(fields::changes()).collect()),
        (BODY, framing::changes()),
    ];
    let mut spellings = Spellings::default();
    for (meaning, request, wanted) in MEANINGS {
        spellings.add(meaning, request(), &[]);
        for (_, changes) in sets.iter().filter(|(set, _)| wanted.contains(set)) {
            for change in changes {
                spellings.add(meaning, request(), &[change]);
            }
        }
    }
    let changes: Vec<&Change> = sets.iter().flat_map(|(_, changes)| changes).collect();
    let mut random = Random::new(seed);
    let end = spellings.all.len() + COMPOSED;
    while spellings.all.len() < end {
        let (meaning, request, _) = random.pick(MEANINGS);
        let mut chosen: Vec<&Change> = Vec::new();
        for _ in 0..2 + random.below(2) {
            let change = *random.pick(&changes);
            if chosen.iter().all(|other| other.piece() != change.piece()) {
                chosen.push(change);
            }
        }
        spellings.add(meaning, request(), &chosen);
    }
    spellings.all
}

/// Spellings without duplicates.
#[derive(Default)]
struct Spellings {
    all: Vec<Spelling>,
    seen: HashSet<Vec<u8>>,
}

impl Spellings {
    fn add(&mut self, meaning: &'static str, mut request: Request, changes: &[&Change]) {
        let mut tags = vec![meaning];
        for change in changes {
            let before = request.clone();
            (change.apply)(&mut request);
            if request != before {
                tags.push(change.tag);
            }
        }
        let bytes = request.bytes();
        if self.seen.insert(bytes.clone()) {
            let (target, is_head) = (request.target(), request.method == b"HEAD");
            let path_and_query = [request.path, request.query].concat();
            self.all.push(Spelling { tags, bytes, target, path_and_query, is_head });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_of_spellings_are_the_same_in_each_run() {
        let (first, second) = (all(1), all(1));
        assert!(first.len() > 3000, "{}", first.len());
        assert!(first.iter().zip(&second).all(|(one, other)| one.bytes == other.bytes));
        let bytes: HashSet<_> = first.iter().map(|spelling| &spelling.bytes).collect();
        assert_eq!(bytes.len(), first.len());
    }
}

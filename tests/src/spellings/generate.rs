//! The spellings: each change alone, then several together as a seeded generator picks them.

use std::collections::HashSet;

use super::request::{Change, Request};
use super::{fields, framing, line, path};
use crate::random::Random;

/// One request as it is sent.
#[derive(Debug, Clone)]
pub struct Spelling {
    /// What it means, then how it is spelled: `meaning/file`, `path/encoded-slash`. Rules name these.
    pub tags: Vec<&'static str>,
    /// What goes over the wire.
    pub bytes: Vec<u8>,
    /// The target in it.
    pub target: Vec<u8>,
    /// Path and query of the target as they are sent, without the scheme and the authority of an absolute target.
    pub path_and_query: Vec<u8>,
    /// The response has no body.
    pub is_head: bool,
}

/// How many requests have several changes at once.
const COMPOSED: usize = 1500;

/// What the requests mean before they are spelled otherwise. `PATH` ones are spelled in every way of a path, `LINE` ones in
/// every way of a request line and of fields, `BODY` ones in every way of framing.
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

/// A tag, the request, and in which ways it is spelled.
type Meaning = (&'static str, fn() -> Request, &'static [&'static str]);

const PATH: &str = "path";
const LINE: &str = "line";
const BODY: &str = "body";

/// Every spelling, the same for the same seed.
#[must_use]
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

/// Spellings without those that others are already.
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
    fn there_are_thousands_and_they_are_the_same_every_time() {
        let (first, second) = (all(1), all(1));
        assert!(first.len() > 3000, "{}", first.len());
        assert!(first.iter().zip(&second).all(|(one, other)| one.bytes == other.bytes));
        let bytes: HashSet<_> = first.iter().map(|spelling| &spelling.bytes).collect();
        assert_eq!(bytes.len(), first.len());
    }
}

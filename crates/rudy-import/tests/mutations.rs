//! Whatever is in a file, the result is TOML: cases with pieces that are removed, repeated and replaced.

use std::fs;
use std::path::Path;

use rudy_import::{File, Source, import};

const MUTATIONS: usize = 1000;

/// The files that are changed.
const CASES: [&str; 9] = [
    "proxy.conf",
    "order.conf",
    "php.conf",
    "closed.conf",
    "rewrites.conf",
    "caddy.Caddyfile",
    "apache.htaccess",
    "vhosts.apache",
    "frontends.haproxy",
];

/// Texts that are inserted.
const PIECES: [&str; 24] = [
    "{", "}", ";", "\"", "'", "\\", "$", "${", "#", "\n", " ", "*", "/", "~", "=", "@", "é", "(", ")", "$1",
    "location", "if", "//", "\u{1}",
];

/// A generator of numbers, the same in each run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % (end.max(1) as u64)).expect("it is below a length")
    }
}

fn mutate(text: &str, numbers: &mut Numbers) -> String {
    let mut letters: Vec<char> = text.chars().collect();
    for _ in 0..=numbers.below(4) {
        let at = numbers.below(letters.len());
        let end = (at + numbers.below(12)).min(letters.len());
        match numbers.below(4) {
            0 => drop(letters.drain(at..end)),
            1 => drop(letters.splice(at..end, PIECES[numbers.below(PIECES.len())].chars())),
            2 => drop(letters.splice(at..at, PIECES[numbers.below(PIECES.len())].chars())),
            _ => {
                let piece: Vec<char> = letters[at..end].to_vec();
                let to = numbers.below(letters.len());
                drop(letters.splice(to..to, piece));
            }
        }
    }
    letters.into_iter().collect()
}

#[test]
fn mutated_configurations_are_rejected_or_become_toml() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases");
    let mut numbers = Numbers(0x9E37_79B9_7F4A_7C15);
    let mut translated = 0;
    for name in CASES {
        let text = fs::read_to_string(folder.join(name)).expect("the case exists");
        for _ in 0..MUTATIONS {
            let main = File { name: name.to_owned(), text: mutate(&text, &mut numbers) };
            let source = Source::of(&main).unwrap_or(Source::Nginx);
            let Ok(import) = import(source, &main, &mut |_| Vec::new()) else { continue };
            let parsed: Result<toml::Table, _> = toml::from_str(&import.toml);
            assert!(parsed.is_ok(), "{}\n{}\n{parsed:?}", main.text, import.toml);
            translated += 1;
        }
    }
    assert!(translated > MUTATIONS, "only {translated} are translated");
}

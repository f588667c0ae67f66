//! Formats nouns and names.

/// A count with its noun: `1 request`, `2 requests`, `1,000 processes`.
#[must_use]
pub fn counted(count: impl TryInto<u64>, noun: &str) -> String {
    let count = count.try_into().unwrap_or(u64::MAX);
    let number = crate::count(count);
    match noun {
        _ if count == 1 => format!("{number} {noun}"),
        noun if noun.ends_with('s') => format!("{number} {noun}es"),
        noun => format!("{number} {noun}s"),
    }
}

/// Escapes control characters in a text from elsewhere, which a terminal would interpret.
#[must_use]
pub fn visible(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { c.escape_default().to_string() } else { c.to_string() })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_noun_has_its_plural() {
        assert_eq!([counted(0_u64, "thread"), counted(1_u64, "thread")], ["0 threads", "1 thread"]);
        assert_eq!(
            [counted(1_u64, "process"), counted(2000_usize, "process")],
            ["1 process", "2,000 processes"]
        );
    }

    #[test]
    fn a_name_cannot_move_the_cursor() {
        assert_eq!(visible("a\x1b[2Jb\nc\u{e9}"), "a\\u{1b}[2Jb\\nc\u{e9}");
    }
}

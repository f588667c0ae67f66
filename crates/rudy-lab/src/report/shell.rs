//! Shell commands.

/// Joins words into a command line, with quotes if necessary.
pub(super) fn command(words: &[String]) -> String {
    let is_plain = |character: char| character.is_ascii_alphanumeric() || "/.:=_-+,@%".contains(character);
    let quoted = |word: &String| {
        if !word.is_empty() && word.chars().all(is_plain) {
            word.clone()
        } else {
            format!("'{}'", word.replace('\'', "'\\''"))
        }
    };
    words.iter().map(quoted).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_that_a_shell_would_read_otherwise_is_quoted() {
        let words = ["rudy", "serve", "a b", "it's", "", "http://[::1]:80/"].map(str::to_owned);
        assert_eq!(command(&words), r"rudy serve 'a b' 'it'\''s' '' 'http://[::1]:80/'");
    }
}

//! Shell commands.

/// Joins words into a command line, with quotes if necessary.
pub(super) fn command(arguments: &[String]) -> String {
    let is_plain = |character: char| character.is_ascii_alphanumeric() || "/.:=_-+,@%".contains(character);
    let quoted = |word: &String| {
        if !word.is_empty() && word.chars().all(is_plain) {
            word.clone()
        } else {
            format!("'{}'", word.replace('\'', "'\\''"))
        }
    };
    arguments.iter().map(quoted).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_argument_with_shell_syntax_is_quoted() {
        let arguments = ["rudy", "serve", "a b", "it's", "", "http://[::1]:80/"].map(str::to_owned);
        assert_eq!(command(&arguments), r"rudy serve 'a b' 'it'\''s' '' 'http://[::1]:80/'");
    }
}

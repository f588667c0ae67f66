//! Splits a text into words, semicolons and braces.

use std::sync::Arc;

use super::{Place, SyntaxError};

/// A token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Token {
    /// A word, without quotes and escapes.
    Word(String),
    /// `;`
    End,
    /// `{`
    Open,
    /// `}`
    Close,
}

pub(super) struct Lexer<'a> {
    file: Arc<str>,
    rest: &'a str,
    line: usize,
}

impl<'a> Lexer<'a> {
    pub(super) fn new(file: &Arc<str>, text: &'a str) -> Self {
        Self { file: Arc::clone(file), rest: text.trim_start_matches('\u{feff}'), line: 1 }
    }

    /// Where the next token is, after [`Self::next`] has skipped what is before it.
    pub(super) fn place(&self) -> Place {
        Place { file: Arc::clone(&self.file), line: self.line }
    }

    pub(super) fn error(&self, problem: impl Into<String>) -> SyntaxError {
        SyntaxError { place: self.place(), problem: problem.into() }
    }

    /// Returns the next token with its place, or `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<(Token, Place)>, SyntaxError> {
        self.skip_space();
        let place = self.place();
        let Some(first) = self.rest.chars().next() else { return Ok(None) };
        let token = match first {
            ';' => self.single(Token::End),
            '{' => self.single(Token::Open),
            '}' => self.single(Token::Close),
            '"' | '\'' => Token::Word(self.quoted(first)?),
            _ => Token::Word(self.bare()),
        };
        Ok(Some((token, place)))
    }

    /// Returns the text up to the brace that closes a block in another language, such as Lua, without interpreting it.
    pub(super) fn foreign_block(&mut self) -> Result<(), SyntaxError> {
        let (mut depth, start) = (1_usize, self.place());
        while let Some(letter) = self.bump() {
            match letter {
                '{' => depth += 1,
                '}' if depth == 1 => return Ok(()),
                '}' => depth -= 1,
                '"' | '\'' => self.skip_string(letter),
                '-' if self.rest.starts_with('-') => self.skip_line(),
                _ => {}
            }
        }
        Err(SyntaxError { place: start, problem: "this block has no end: expected `}`".to_owned() })
    }

    fn single(&mut self, token: Token) -> Token {
        self.bump();
        token
    }

    fn bump(&mut self) -> Option<char> {
        let letter = self.rest.chars().next()?;
        self.rest = &self.rest[letter.len_utf8()..];
        self.line += usize::from(letter == '\n');
        Some(letter)
    }

    fn skip_space(&mut self) {
        while let Some(letter) = self.rest.chars().next() {
            match letter {
                '#' => self.skip_line(),
                _ if letter.is_ascii_whitespace() => {
                    self.bump();
                }
                _ => return,
            }
        }
    }

    fn skip_line(&mut self) {
        while self.bump().is_some_and(|letter| letter != '\n') {}
    }

    /// Skips a string of another language. One that does not end on its line is no string: an apostrophe in a comment.
    fn skip_string(&mut self, quote: char) {
        let mut escaped = false;
        for (at, letter) in self.rest.char_indices() {
            match letter {
                '\n' => return,
                _ if escaped => escaped = false,
                '\\' => escaped = true,
                _ if letter == quote => {
                    self.rest = &self.rest[at + letter.len_utf8()..];
                    return;
                }
                _ => {}
            }
        }
    }

    fn quoted(&mut self, quote: char) -> Result<String, SyntaxError> {
        let start = self.place();
        self.bump();
        let mut word = String::new();
        loop {
            match self.bump() {
                None => {
                    let problem = format!("this text has no end: expected {quote}");
                    return Err(SyntaxError { place: start, problem });
                }
                Some(letter) if letter == quote => break,
                Some('\\') => self.escape(&mut word),
                Some(letter) => word.push(letter),
            }
        }
        let ends = |letter: char| letter.is_ascii_whitespace() || ";{)".contains(letter);
        match self.rest.chars().next() {
            // A parenthesis ends the condition of `if`, and is a word of its own there.
            None => Ok(word),
            Some(letter) if ends(letter) => Ok(word),
            Some(letter) => Err(self.error(format!(
                "`{}` follows a text in quotes: expected a space, `;` or `{{`",
                letter.escape_default()
            ))),
        }
    }

    fn bare(&mut self) -> String {
        let mut word = String::new();
        while let Some(letter) = self.rest.chars().next() {
            let is_variable = letter == '{' && word.ends_with('$');
            if letter.is_ascii_whitespace() || letter == ';' || letter == '{' && !is_variable {
                break;
            }
            self.bump();
            match letter {
                '\\' => self.escape(&mut word),
                _ => word.push(letter),
            }
        }
        word
    }

    /// Adds what a backslash and the next character stand for: most stay as they are, as in regular expressions.
    fn escape(&mut self, word: &mut String) {
        match self.bump() {
            Some(letter @ ('"' | '\'' | '\\')) => word.push(letter),
            Some('t') => word.push('\t'),
            Some('r') => word.push('\r'),
            Some('n') => word.push('\n'),
            Some(letter) => word.extend(['\\', letter]),
            None => word.push('\\'),
        }
    }
}

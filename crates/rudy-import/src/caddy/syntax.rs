//! The syntax of a Caddyfile: a directive per line, blocks in braces. No library reads it: that of Caddy is in Go.

use std::sync::Arc;

use crate::syntax::{DEPTH_MAX, Directive, Place, SyntaxError};
use crate::toml::VARIABLE;

/// The words of a line, up to a brace at its end.
#[derive(Debug)]
struct Line {
    words: Vec<String>,
    opens: bool,
    place: Place,
}

/// Reads the blocks of a file. A file without braces is one site, whose first line has its addresses.
pub(super) fn parse(file: &Arc<str>, text: &str) -> Result<Vec<Directive>, SyntaxError> {
    let text = environment(text);
    let lines = Lexer { file, letters: text.chars().collect(), at: 0, line: 1 }.lines()?;
    let mut lines = lines.into_iter().peekable();
    let mut blocks = Vec::new();
    while let Some(line) = lines.next() {
        let mut words = line.words;
        let mut opens = line.opens;
        // Addresses can be on several lines, with commas.
        while words.last().is_some_and(|word| word.ends_with(',')) && !opens {
            let Some(next) = lines.next() else { break };
            words.extend(next.words);
            opens = next.opens;
        }
        if words == ["}"] {
            return Err(error(line.place, "unexpected `}`: expected a site"));
        }
        let is_import = words.first().is_some_and(|word| word == "import");
        let block = if opens {
            Some(block(&mut lines, &line.place, 1)?)
        } else if is_import {
            None
        } else if blocks.iter().all(|block: &Directive| block.name.is_empty() || block.name.starts_with('('))
        {
            let mut rest = Vec::new();
            while lines.peek().is_some() {
                rest.extend(one(&mut lines, 0)?);
            }
            Some(rest)
        } else {
            return Err(error(line.place, "this site has no block: expected `{` at the end of the line"));
        };
        let name = if words.is_empty() { String::new() } else { words.remove(0) };
        blocks.push(Directive { name, args: words, block, place: line.place });
    }
    Ok(blocks)
}

fn error(place: Place, problem: &str) -> SyntaxError {
    SyntaxError { place, problem: problem.to_owned() }
}

type Lines = std::iter::Peekable<std::vec::IntoIter<Line>>;

fn block(lines: &mut Lines, start: &Place, depth: usize) -> Result<Vec<Directive>, SyntaxError> {
    if depth > DEPTH_MAX {
        return Err(error(start.clone(), &format!("blocks are nested deeper than {DEPTH_MAX}")));
    }
    let mut directives = Vec::new();
    loop {
        match lines.peek() {
            None => return Err(error(start.clone(), "this block has no end: expected `}`")),
            Some(line) if line.words == ["}"] && !line.opens => {
                lines.next();
                return Ok(directives);
            }
            Some(_) => directives.extend(one(lines, depth)?),
        }
    }
}

/// Reads the directive of the next line, with its block.
fn one(lines: &mut Lines, depth: usize) -> Result<Option<Directive>, SyntaxError> {
    let Some(mut line) = lines.next() else { return Ok(None) };
    if line.words.is_empty() || line.words[0] == "}" {
        return Err(error(line.place, "unexpected brace: expected a directive"));
    }
    let block = if line.opens { Some(block(lines, &line.place, depth + 1)?) } else { None };
    let name = line.words.remove(0);
    Ok(Some(Directive { name, args: line.words, block, place: line.place }))
}

/// Replaces `{$NAME:default}` by a variable of `rudy.toml`. Without a default, the variable gets one that is no setting of anyone.
fn environment(text: &str) -> String {
    let text = text.replace(VARIABLE, "\u{FFFD}");
    let mut result = String::new();
    let mut rest = text.as_str();
    while let Some(at) = rest.find("{$") {
        let (before, after) = rest.split_at(at);
        result.push_str(before);
        let Some((inner, following)) = after[2..].split_once('}') else {
            result.push_str(after);
            return result;
        };
        let (name, default) = inner.split_once(':').unwrap_or((inner, ""));
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        if name.is_empty() || !name.bytes().all(is_name) {
            result.push_str(&after[..after.len() - following.len()]);
        } else if default.contains(char::is_whitespace) {
            result.push_str(default);
        } else {
            let lower = name.to_lowercase().replace('_', "-");
            let placeholder = format!("{}.example", lower.trim_matches('-'));
            let default = if default.is_empty() { &placeholder } else { default };
            result.extend([VARIABLE.to_string().as_str(), name, ":-", default, "}"]);
        }
        rest = following;
    }
    result + rest
}

struct Lexer<'a> {
    file: &'a Arc<str>,
    letters: Vec<char>,
    at: usize,
    line: usize,
}

impl Lexer<'_> {
    fn place(&self) -> Place {
        Place { file: Arc::clone(self.file), line: self.line }
    }

    fn bump(&mut self) -> Option<char> {
        let letter = *self.letters.get(self.at)?;
        self.at += 1;
        self.line += usize::from(letter == '\n');
        Some(letter)
    }

    fn peek(&self) -> Option<char> {
        self.letters.get(self.at).copied()
    }

    fn lines(mut self) -> Result<Vec<Line>, SyntaxError> {
        let mut lines: Vec<Line> = Vec::new();
        let mut current: Option<Line> = None;
        loop {
            let place = self.place();
            match self.peek() {
                None => break,
                Some('\n') => {
                    self.bump();
                    lines.extend(current.take());
                }
                Some('#') => {
                    while self.peek().is_some_and(|letter| letter != '\n') {
                        self.bump();
                    }
                }
                Some('\\') if self.ends_line() => while self.bump().is_some_and(|letter| letter != '\n') {},
                Some(letter) if letter.is_whitespace() || letter == '\u{FEFF}' => drop(self.bump()),
                Some(_) => {
                    let (word, is_quoted) = self.word()?;
                    let line = current.get_or_insert(Line { words: Vec::new(), opens: false, place });
                    if word == "{" && !is_quoted {
                        line.opens = true;
                        lines.extend(current.take());
                    } else {
                        line.words.push(word);
                    }
                }
            }
        }
        lines.extend(current);
        Ok(lines)
    }

    /// Whether a backslash is the last character of its line.
    fn ends_line(&self) -> bool {
        matches!(self.letters[self.at + 1..], ['\n', ..] | ['\r', '\n', ..])
    }

    fn word(&mut self) -> Result<(String, bool), SyntaxError> {
        let start = self.place();
        if let Some(quote @ ('"' | '`')) = self.peek() {
            self.bump();
            return Ok((self.quoted(quote, start)?, true));
        }
        let mut word = String::new();
        while let Some(letter) = self.peek().filter(|letter| !letter.is_whitespace()) {
            self.bump();
            word.push(letter);
        }
        match word.strip_prefix("<<") {
            Some(marker) if !marker.is_empty() && marker.chars().all(char::is_alphanumeric) => {
                Ok((self.heredoc(marker, start)?, true))
            }
            _ => Ok((word, false)),
        }
    }

    fn quoted(&mut self, quote: char, start: Place) -> Result<String, SyntaxError> {
        let mut word = String::new();
        loop {
            match self.bump() {
                None => return Err(error(start, &format!("this text has no end: expected {quote}"))),
                Some(letter) if letter == quote => return Ok(word),
                Some('\\') if quote == '"' && self.peek() == Some('"') => {
                    self.bump();
                    word.push('"');
                }
                Some(letter) => word.push(letter),
            }
        }
    }

    /// The lines up to the one with the marker alone, without its indentation.
    fn heredoc(&mut self, marker: &str, start: Place) -> Result<String, SyntaxError> {
        while self.bump().is_some_and(|letter| letter != '\n') {}
        let mut lines = Vec::new();
        while self.peek().is_some() {
            let mut line = String::new();
            let mut at = self.at;
            while let Some(letter) = self.letters.get(at).filter(|letter| **letter != '\n') {
                line.push(*letter);
                at += 1;
                if line.trim_start() == marker {
                    let indent = line.len() - marker.len();
                    self.at = at;
                    let strip = |line: String| line.get(indent..).unwrap_or_default().to_owned();
                    return Ok(lines.into_iter().map(strip).collect::<Vec<_>>().join("\n"));
                }
            }
            self.at = at;
            self.bump();
            lines.push(line);
        }
        Err(error(start, &format!("this text has no end: expected a line with {marker}")))
    }
}

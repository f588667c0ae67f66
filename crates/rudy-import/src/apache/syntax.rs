//! The syntax of Apache: a directive per line, and sections in angle brackets. No library in Rust reads it.

use std::sync::Arc;

use crate::syntax::{DEPTH_MAX, Directive, Place, SyntaxError};

/// Reads the directives of a file. A section is a directive whose name begins with `<`.
pub(super) fn parse(file: &Arc<str>, text: &str) -> Result<Vec<Directive>, SyntaxError> {
    let mut open: Vec<(Directive, Vec<Directive>)> = Vec::new();
    let mut top = Vec::new();
    for (line, text) in lines(text) {
        let place = Place { file: Arc::clone(file), line };
        let error = |problem: String| SyntaxError { place: place.clone(), problem };
        if let Some(name) = text.strip_prefix("</") {
            let name = name.trim_end_matches('>').trim();
            let Some((mut section, block)) = open.pop() else {
                return Err(error(format!("unexpected </{name}>: no section is open")));
            };
            if !section.name[1..].eq_ignore_ascii_case(name) {
                return Err(error(format!("unexpected </{name}>: expected </{}>", &section.name[1..])));
            }
            section.block = Some(block);
            open.last_mut().map_or(&mut top, |(_, block)| block).push(section);
            continue;
        }
        let is_section = text.starts_with('<');
        let inner = if is_section { text.strip_suffix('>') } else { Some(text.as_str()) };
        let inner =
            inner.ok_or_else(|| error("this section has no `>` at the end of its line".to_owned()))?;
        let mut words = words(inner).ok_or_else(|| error("a text in quotes has no end".to_owned()))?;
        if words.is_empty() {
            return Err(error("expected the name of a section".to_owned()));
        }
        let name = words.remove(0);
        let directive = Directive { name, args: words, block: None, place: place.clone() };
        if is_section {
            if open.len() == DEPTH_MAX {
                return Err(error(format!("sections are nested deeper than {DEPTH_MAX}")));
            }
            open.push((directive, Vec::new()));
        } else {
            open.last_mut().map_or(&mut top, |(_, block)| block).push(directive);
        }
    }
    match open.pop() {
        None => Ok(top),
        Some((section, _)) => {
            let problem = format!("this section has no end: expected </{}>", &section.name[1..]);
            Err(SyntaxError { place: section.place, problem })
        }
    }
}

/// The lines with directives, and their numbers. A backslash at the end continues a line.
fn lines(text: &str) -> Vec<(usize, String)> {
    let mut result = Vec::new();
    let mut current: Option<(usize, String)> = None;
    for (at, line) in text.trim_start_matches('\u{FEFF}').lines().enumerate() {
        let (number, mut whole) = current.take().unwrap_or((at + 1, String::new()));
        if let Some(start) = line.strip_suffix('\\') {
            whole.push_str(start);
            current = Some((number, whole));
        } else {
            whole.push_str(line);
            result.push((number, whole.trim().to_owned()));
        }
    }
    result.extend(current.map(|(number, text)| (number, text.trim().to_owned())));
    result.retain(|(_, text)| !text.is_empty() && !text.starts_with('#'));
    result
}

/// The words of a line; `None` if a quote has no end.
fn words(text: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut letters = text.chars().peekable();
    loop {
        while letters.next_if(|letter| letter.is_whitespace()).is_some() {}
        let Some(first) = letters.next() else { return Some(words) };
        let mut word = String::new();
        if first == '"' || first == '\'' {
            loop {
                match letters.next()? {
                    letter if letter == first => break,
                    '\\' if letters.peek() == Some(&first) => word.extend(letters.next()),
                    letter => word.push(letter),
                }
            }
        } else {
            word.push(first);
            while let Some(letter) = letters.next_if(|letter| !letter.is_whitespace()) {
                word.push(letter);
            }
        }
        words.push(word);
    }
}

//! Character references in the values of HTML attributes (HTML §13.2.5.72): `&amp;`, `&#43;`, `&#x3D;`.

use std::borrow::Cow;
use std::fmt::Write as _;

/// The references by name of ASCII characters, and of the space that editors insert. A URL has no others.
const NAMES: [(&str, char); 46] = [
    ("AMP", '&'),
    ("DiacriticalGrave", '`'),
    ("GT", '>'),
    ("Hat", '^'),
    ("LT", '<'),
    ("NewLine", '\n'),
    ("QUOT", '"'),
    ("Tab", '\t'),
    ("UnderBar", '_'),
    ("VerticalLine", '|'),
    ("amp", '&'),
    ("apos", '\''),
    ("ast", '*'),
    ("bsol", '\\'),
    ("colon", ':'),
    ("comma", ','),
    ("commat", '@'),
    ("dollar", '$'),
    ("equals", '='),
    ("excl", '!'),
    ("grave", '`'),
    ("gt", '>'),
    ("lbrace", '{'),
    ("lbrack", '['),
    ("lcub", '{'),
    ("lowbar", '_'),
    ("lpar", '('),
    ("lsqb", '['),
    ("lt", '<'),
    ("midast", '*'),
    ("num", '#'),
    ("percnt", '%'),
    ("period", '.'),
    ("plus", '+'),
    ("quest", '?'),
    ("quot", '"'),
    ("rbrace", '}'),
    ("rbrack", ']'),
    ("rcub", '}'),
    ("rpar", ')'),
    ("rsqb", ']'),
    ("semi", ';'),
    ("sol", '/'),
    ("verbar", '|'),
    ("vert", '|'),
    ("nbsp", '\u{a0}'),
];

/// Those that need no semicolon.
const WITHOUT_SEMICOLON: [&str; 8] = ["AMP", "GT", "LT", "QUOT", "amp", "gt", "lt", "quot"];

/// What browsers take the numbers from 128 to 159 for.
const WINDOWS_1252: &str = "€\u{81}‚ƒ„…†‡ˆ‰Š‹Œ\u{8d}Ž\u{8f}\u{90}‘’“”•–—˜™š›œ\u{9d}žŸ";

/// Replaces the references in a value. `None` if it has a reference with an unknown name.
pub(super) fn decode(value: &str) -> Option<Cow<'_, str>> {
    if !value.contains('&') {
        return Some(value.into());
    }
    let (mut decoded, mut rest) = (String::with_capacity(value.len()), value);
    while let Some((before, after)) = rest.split_once('&') {
        decoded.push_str(before);
        let found = if let Some(number) = after.strip_prefix('#') {
            by_number(number)
        } else {
            by_name(after).ok()?
        };
        let (character, following) = found.unwrap_or(('&', after));
        decoded.push(character);
        rest = following;
    }
    decoded.push_str(rest);
    Some(decoded.into())
}

/// Replaces what would end a value, with or without quotes, or begin a reference.
pub(super) fn encode(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => encoded.push_str("&amp;"),
            '"' | '\'' | '<' | '>' | '`' | '\t' | '\n' | '\x0c' | '\r' | ' ' => {
                let _ = write!(encoded, "&#{};", u32::from(character));
            }
            other => encoded.push(other),
        }
    }
    encoded
}

/// Returns the character of a reference after `&#`, and what follows it. `None` if it is no reference.
fn by_number(text: &str) -> Option<(char, &str)> {
    let hexadecimal = text.strip_prefix(['x', 'X']);
    let (digits, radix) = hexadecimal.map_or((text, 10), |digits| (digits, 16));
    let end = digits.find(|digit: char| !digit.is_digit(radix)).unwrap_or(digits.len());
    let (digits, following) = digits.split_at(end);
    if digits.is_empty() {
        return None;
    }
    // Too large for the type is too large for Unicode.
    let code = u32::from_str_radix(digits, radix).unwrap_or(u32::MAX);
    let character = match code {
        0x80..=0x9f => WINDOWS_1252.chars().nth(code as usize - 0x80),
        0 => None,
        _ => char::from_u32(code),
    };
    Some((character.unwrap_or('\u{fffd}'), following.strip_prefix(';').unwrap_or(following)))
}

/// The name of a reference that is not in the table.
struct UnknownName;

/// Returns the character of a reference after `&`, and what follows it. `None` if it is no reference.
fn by_name(text: &str) -> Result<Option<(char, &str)>, UnknownName> {
    let end = text.find(|character: char| !character.is_ascii_alphanumeric()).unwrap_or(text.len());
    let (name, following) = text.split_at(end);
    let found = NAMES.iter().find(|(known, _)| *known == name).map(|(_, character)| *character);
    match following.strip_prefix(';') {
        Some(following) if !name.is_empty() => Ok(Some((found.ok_or(UnknownName)?, following))),
        // In an attribute, `&copy=` and `&ampx` are parts of a query.
        _ if WITHOUT_SEMICOLON.contains(&name) && !following.starts_with('=') => {
            Ok(found.map(|character| (character, following)))
        }
        _ => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_decoded_as_browsers_do() {
        for (value, expected) in [
            ("a-1.0&#43;cpu.whl", Some("a-1.0+cpu.whl")),
            ("a#sha256&#x3D;00&#X3d;", Some("a#sha256=00=")),
            ("a&plus;b&equals;c&num;d&sol;e&period;f&percnt;2B&lowbar;", Some("a+b=c#d/e.f%2B_")),
            ("a?b&amp;c&ampd&amp=e&amp", Some("a?b&c&ampd&amp=e&")),
            ("a?b=1&c=2&copy=3", Some("a?b=1&c=2&copy=3")),
            ("&#43 &#x2b&#43", Some("+ ++")),
            ("&#0;&#xD800;&#x110000;&#99999999999;&#128;", Some("\u{fffd}\u{fffd}\u{fffd}\u{fffd}€")),
            ("&#;&#x;&#y;&;& &", Some("&#;&#x;&#y;&;& &")),
            ("&lt;&gt;&quot;&apos;&nbsp;", Some("<>\"'\u{a0}")),
            ("&amp;#43;", Some("&#43;")),
            ("&é;", Some("&é;")),
            ("a&unknown;", None),
            ("", Some("")),
        ] {
            assert_eq!(decode(value).as_deref(), expected, "{value}");
        }
    }

    #[test]
    fn an_encoded_text_ends_in_no_attribute_and_is_decoded_to_itself() {
        let text = "a&b \"c' <d>`\t\n\u{c}\r&#43;=é";
        let encoded = encode(text);
        assert!(
            !encoded.contains(|character: char| character.is_whitespace() || "\"'<>`".contains(character))
        );
        assert_eq!(decode(&encoded).as_deref(), Some(text));
    }

    #[test]
    fn names_are_known_once() {
        for (index, (name, _)) in NAMES.iter().enumerate() {
            assert!(NAMES[..index].iter().all(|(other, _)| other != name), "{name}");
        }
    }
}

//! A strict decoder for the chunked transfer coding (RFC 9112 §7.1).

use http::HeaderMap;
use rudy_message::Malformed;
use rudy_message::text::{Lines, parse_trailers};

use super::chunk_extension::Extension;
use super::length::split_up_to;
use crate::Limits;

/// The maximum number of digits in a chunk size. More would not fit 64 bits, except for useless leading zeros.
const SIZE_DIGITS_MAX: u8 = 16;

/// The part of the body that the decoder expects next.
#[derive(Debug, Clone)]
enum Expected {
    /// A digit of a chunk size, or the end of the size.
    Size {
        /// The number of digits so far.
        digits: u8,
    },
    /// The next byte of a chunk extension, or the CR after it.
    Extension(Extension),
    /// The LF after a chunk size.
    SizeLineFeed,
    /// Bytes of a chunk.
    Data,
    /// The CR after a chunk.
    DataReturn,
    /// The LF after a chunk.
    DataLineFeed,
    /// The trailer section.
    Trailers(Lines),
}

/// Decodes one chunked body.
#[derive(Debug, Clone)]
pub(super) struct Chunked {
    expected: Expected,
    /// The number of bytes left in the current chunk. While the size is parsed, the size so far.
    remaining: u64,
    /// The total size of all chunks so far, including the current one.
    total: u64,
    /// The total size of all extensions so far.
    extension_bytes: u32,
}

/// The result of one step of decoding.
#[derive(Debug)]
pub(super) enum Decoded<'a> {
    /// A piece of the body.
    Data(&'a [u8]),
    /// The end of the body, with its trailers.
    End(Option<HeaderMap>),
    /// More input is needed.
    NeedData,
}

impl Chunked {
    pub(super) fn new() -> Self {
        Self { expected: Expected::Size { digits: 0 }, remaining: 0, total: 0, extension_bytes: 0 }
    }

    /// Returns the number of decoded body bytes.
    pub(super) fn received(&self) -> u64 {
        // While a size is parsed, `remaining` grows and is not yet part of `total`.
        let is_counted = !matches!(self.expected, Expected::Size { .. });
        if is_counted { self.total - self.remaining } else { self.total }
    }

    /// Whether the chunk of the last data has not ended.
    pub(super) fn is_within_chunk(&self) -> bool {
        matches!(self.expected, Expected::Data)
    }

    /// Returns how many of the next bytes belong to the current chunk.
    pub(super) fn remaining_of_chunk(&self) -> u64 {
        if self.is_within_chunk() { self.remaining } else { 0 }
    }

    /// Decodes the next part of `bytes`. Returns the number of used bytes and the result. Pass the unused bytes again, with
    /// more input.
    pub(super) fn decode<'a>(
        &mut self,
        bytes: &'a [u8],
        limits: &Limits,
    ) -> Result<(usize, Decoded<'a>), Malformed> {
        let mut used = 0;
        while used < bytes.len() {
            match &mut self.expected {
                Expected::Data => {
                    let data = split_up_to(&mut self.remaining, &bytes[used..]);
                    if self.remaining == 0 {
                        self.expected = Expected::DataReturn;
                    }
                    return Ok((used + data.len(), Decoded::Data(data)));
                }
                Expected::Trailers(lines) => {
                    let rest = &bytes[used..];
                    let Some(section) = lines.find_trailers(rest, &limits.of_message())? else { break };
                    let trailers = match section.fields {
                        0 => None,
                        _ => Some(parse_trailers(&rest[..section.length], &section)?),
                    };
                    return Ok((used + section.length, Decoded::End(trailers)));
                }
                _ => self.framing_byte(bytes[used], limits)?,
            }
            used += 1;
        }
        Ok((used, Decoded::NeedData))
    }

    /// Parses one byte between the data of chunks.
    fn framing_byte(&mut self, byte: u8, limits: &Limits) -> Result<(), Malformed> {
        self.expected = match (&self.expected, byte) {
            (&Expected::Size { digits }, b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F') => {
                if digits == SIZE_DIGITS_MAX {
                    return Err(Malformed::BadChunk("a chunk size has more than 16 digits"));
                }
                let digit = (byte as char).to_digit(16).unwrap_or_default();
                self.remaining = self.remaining << 4 | u64::from(digit);
                Expected::Size { digits: digits + 1 }
            }
            (Expected::Size { digits: 0 }, _) => {
                return Err(Malformed::BadChunk("a chunk size is not a hexadecimal number"));
            }
            (Expected::Size { .. }, b'\r') => {
                self.begin_chunk(limits)?;
                Expected::SizeLineFeed
            }
            (Expected::Size { .. }, b';' | b' ' | b'\t') => {
                self.begin_chunk(limits)?;
                self.extend(Extension::BeforeSemicolon, byte, limits)?
            }
            (Expected::Size { .. }, _) => {
                return Err(Malformed::BadChunk("a chunk size is not a hexadecimal number"));
            }
            (Expected::Extension(extension), b'\r') if extension.may_end() => Expected::SizeLineFeed,
            (&Expected::Extension(extension), _) => self.extend(extension, byte, limits)?,
            (Expected::SizeLineFeed, b'\n') if self.remaining == 0 => Expected::Trailers(Lines::default()),
            (Expected::SizeLineFeed, b'\n') => Expected::Data,
            (Expected::SizeLineFeed, _) => {
                return Err(Malformed::BadChunk("a chunk size does not end in CRLF"));
            }
            (Expected::DataReturn, b'\r') => Expected::DataLineFeed,
            (Expected::DataLineFeed, b'\n') => Expected::Size { digits: 0 },
            (Expected::DataReturn | Expected::DataLineFeed, _) => {
                return Err(Malformed::BadChunk("a chunk is not followed by CRLF"));
            }
            (Expected::Data | Expected::Trailers(_), _) => unreachable!("decoded in bulk by the caller"),
        };
        Ok(())
    }

    fn begin_chunk(&mut self, limits: &Limits) -> Result<(), Malformed> {
        self.total = self.total.saturating_add(self.remaining);
        if self.total > limits.body_bytes { Err(Malformed::BodyTooLarge) } else { Ok(()) }
    }

    /// Parses one byte of the extensions.
    fn extend(&mut self, extension: Extension, byte: u8, limits: &Limits) -> Result<Expected, Malformed> {
        let Some(next) = extension.next(byte) else {
            return Err(Malformed::BadChunk(
                "a chunk size is followed by neither CRLF nor extensions of the form ;name or ;name=value",
            ));
        };
        self.extension_bytes = self.extension_bytes.saturating_add(1);
        if self.extension_bytes as usize > limits.chunk_extension_bytes {
            return Err(Malformed::BadChunk("chunk extensions are longer than the limit"));
        }
        Ok(Expected::Extension(next))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LIMITS: fn() -> Limits = || Limits {
        body_bytes: 40,
        chunk_extension_bytes: 12,
        head_bytes: 32,
        head_fields: 2,
        ..Limits::default()
    };

    /// A decoded body: its bytes, the number of input bytes used, and the number of trailers.
    type Whole = (Vec<u8>, usize, usize);

    /// Decodes input in pieces, as a connection does. `None` if the body is incomplete.
    fn decode<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Result<Option<Whole>, Malformed> {
        let mut decoder = Chunked::new();
        let (mut pending, mut data, mut total) = (Vec::new(), Vec::new(), 0);
        for piece in pieces {
            pending.extend_from_slice(piece);
            loop {
                let (used, decoded) = decoder.decode(&pending, &LIMITS())?;
                total += used;
                let is_more = matches!(decoded, Decoded::NeedData);
                match decoded {
                    Decoded::Data(bytes) => data.extend_from_slice(bytes),
                    Decoded::End(trailers) => {
                        return Ok(Some((data, total, trailers.map_or(0, |fields| fields.len()))));
                    }
                    Decoded::NeedData => {}
                }
                pending.drain(..used);
                if is_more {
                    break;
                }
            }
        }
        Ok(None)
    }

    /// Decodes the complete input by the grammar of RFC 9112 §7.1, in the simplest way. `None` if it is not a complete body
    /// within the limits.
    fn model(input: &str) -> Option<Whole> {
        let (mut rest, mut data, mut extension_bytes) = (input, String::new(), 0);
        loop {
            let (line, after) = rest.split_once("\r\n")?;
            let digits = line.find(|character: char| !character.is_ascii_hexdigit()).unwrap_or(line.len());
            let size = usize::from_str_radix(&line[..digits], 16).ok().filter(|_| digits <= 16)?;
            let extension = &line[digits..];
            extension_bytes += extension.len();
            if !is_extensions(extension) || extension_bytes > LIMITS().chunk_extension_bytes {
                return None;
            }
            rest = after;
            if size == 0 {
                break;
            }
            data.push_str(rest.get(..size)?);
            rest = rest.get(size..)?.strip_prefix("\r\n")?;
            if data.len() as u64 > LIMITS().body_bytes {
                return None;
            }
        }
        let start = rest;
        let mut trailers = 0;
        loop {
            let (line, after) = rest.split_once("\r\n")?;
            rest = after;
            if line.is_empty() {
                break;
            }
            trailers += 1;
            // The generator makes no other field.
            if !line.starts_with("X:") || line.contains(['\r', '\n', '\0']) {
                return None;
            }
        }
        let is_small = start.len() - rest.len() <= LIMITS().head_bytes && trailers <= LIMITS().head_fields;
        is_small.then_some((data.into_bytes(), input.len() - rest.len(), trailers))
    }

    /// Whether the text matches `*( BWS ";" BWS chunk-ext-name [ BWS "=" BWS chunk-ext-val ] )`, where a name is a token, and
    /// a value is a token or a quoted string.
    fn is_extensions(text: &str) -> bool {
        if text.is_empty() {
            return true;
        }
        let bws = |text: &'_ str| text.len() - text.trim_start_matches([' ', '\t']).len();
        let token_length = |text: &str| {
            let is_token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
            text.find(|c| !is_token(c)).unwrap_or(text.len())
        };
        let Some(rest) = text[bws(text)..].strip_prefix(';') else { return false };
        let rest = &rest[bws(rest)..];
        let name = token_length(rest);
        let rest = &rest[name..];
        let Some(value) = rest[bws(rest)..].strip_prefix('=') else {
            return name > 0 && is_extensions(rest);
        };
        let value = &value[bws(value)..];
        let length = if value.starts_with('"') { quoted_length(value) } else { Some(token_length(value)) };
        name > 0 && length.is_some_and(|length| length > 0 && is_extensions(&value[length..]))
    }

    /// Returns the length of the quoted string at the start of a text.
    fn quoted_length(text: &str) -> Option<usize> {
        let is_control = |character: char| character.is_control() && character != '\t';
        let mut characters = text.char_indices().skip(1);
        loop {
            match characters.next()? {
                (at, '"') => return Some(at + 1),
                (_, '\\') if is_control(characters.next()?.1) => return None,
                (_, character) if is_control(character) => return None,
                _ => {}
            }
        }
    }

    /// Chunked bodies, most of them well formed.
    fn body() -> impl Strategy<Value = String> {
        let chunk = "[a-z\r\n]{1,20}".prop_map(|data| format!("{:x}\r\n{data}\r\n", data.len()));
        let extended = "(;[ab]|[ \t]|=|\"[a\\\\;\u{e4}]{0,3}\"|[;=\"\\\\\\[a]){0,4}"
            .prop_map(|extensions| format!("3{extensions}\r\nabc\r\n"));
        let odd = proptest::sample::select(vec![
            "3 \r\nabc\r\n",
            "3\nabc\r\n",
            "3\r\nabcd\r\n",
            "\r\n",
            "g",
            "-1\r\n",
            "0x1\r\na\r\n",
            "0\r\n",
            "X: y\r\n",
            "0000000000000001\r\na\r\n",
            "00000000000000001\r\na\r\n",
            "ffffffffffffffff\r\n",
            ";",
            "\r",
            "\n",
            "\0",
        ])
        .prop_map(str::to_owned);
        let end = proptest::sample::select(vec![
            "0\r\n\r\n",
            "0\r\nX: y\r\n\r\n",
            "0;a\r\n\r\nrest",
            "000\r\nX: 1\r\nX: 2\r\n\r\n",
            "0\r\nX: 1\r\nX: 2\r\nX: 3\r\n\r\n",
            "0\r\nX: 0123456789012345678901234567\r\n\r\n",
            "0\r\n",
            "0\r\n\n",
            "",
        ]);
        let middle = proptest::collection::vec(prop_oneof![4 => chunk, 1 => extended, 1 => odd], 0..5);
        (middle, end).prop_map(|(middle, end)| middle.concat() + end)
    }

    #[test]
    fn extensions_are_names_with_optional_values() {
        let body = |extensions: &str| [b"3", extensions.as_bytes(), b"\r\nabc\r\n0\r\n\r\n"].concat();
        for (extensions, is_valid) in [
            (";a", true),
            (";a;b", true),
            (";a=b", true),
            (" ; a = b ;c", true),
            (";a=\"\"", true),
            (";a=\"b;\\\"\"", true),
            (";a=\"\t\u{e4}\";b", true),
            (" ", false),
            (";", false),
            (";a;", false),
            (";;a", false),
            (";a ", false),
            (";a=", false),
            (";a=b ", false),
            (";=b", false),
            (";a b", false),
            (";a==b", false),
            (";bad[=x", false),
            (";a=b[", false),
            (";a=\u{e4}", false),
            (";a=\"x", false),
            (";a=\"x\\\"", false),
            (";a=\"x\"y", false),
            (";a=\"\0\"", false),
            (";a=\"\\\0\"", false),
            (";a=\"\x7f\"", false),
        ] {
            assert_eq!(is_extensions(extensions), is_valid, "{extensions:?}");
            assert_eq!(decode([&body(extensions)[..]]).is_ok(), is_valid, "{extensions:?}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn the_decoder_agrees_with_the_grammar(body in body()) {
            prop_assert_eq!(decode([body.as_bytes()]).ok().flatten(), model(&body));
        }

        #[test]
        fn splits_do_not_change_the_result(body in body(), cuts in proptest::collection::vec(0..80_usize, 0..4)) {
            let bytes = body.as_bytes();
            let mut cuts: Vec<_> = cuts.into_iter().map(|cut| cut.min(bytes.len())).chain([0, bytes.len()]).collect();
            cuts.sort_unstable();
            let whole = decode([bytes]);
            prop_assert_eq!(&decode(cuts.windows(2).map(|cut| &bytes[cut[0]..cut[1]])), &whole);
            prop_assert_eq!(&decode(bytes.chunks(1)), &whole);
        }
    }
}

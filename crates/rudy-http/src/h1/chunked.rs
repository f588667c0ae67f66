//! The chunked transfer coding (RFC 9112 §7.1), read strictly.

use http::HeaderMap;

use super::chunk_extension::Extension;
use super::fields::parse_trailers;
use super::length::split_up_to;
use super::lines::Lines;
use super::malformed::Malformed;
use crate::Limits;

/// Digits of a chunk size: more would not fit 64 bits, and leading zeroes have no use.
const SIZE_DIGITS_MAX: u8 = 16;

/// What is awaited next.
#[derive(Debug, Clone)]
enum Await {
    /// A digit of a chunk's size, or what ends it; so many digits have come.
    Size { digits: u8 },
    /// More of the extensions after a chunk's size, or their CR.
    Extension(Extension),
    /// The LF after a chunk's size.
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
    awaits: Await,
    /// Bytes of the present chunk still to come; its size, as far as it is known, before them.
    remaining: u64,
    /// Bytes of all chunks so far, this one whole.
    total: u64,
    /// Bytes of all extensions so far.
    extension_bytes: u32,
}

/// What a step of decoding found.
#[derive(Debug)]
pub(super) enum Decoded<'a> {
    /// Bytes of the body, where they lie.
    Data(&'a [u8]),
    /// The end of the body.
    End(Option<HeaderMap>),
    /// Everything was looked at; more has to come.
    NeedData,
}

impl Chunked {
    pub(super) fn new() -> Self {
        Self { awaits: Await::Size { digits: 0 }, remaining: 0, total: 0, extension_bytes: 0 }
    }

    /// Bytes of the body that have been handed out.
    pub(super) fn received(&self) -> u64 {
        // Before the data of a chunk, `remaining` grows to its size while `total` does not know of it yet.
        let is_counted = !matches!(self.awaits, Await::Size { .. });
        if is_counted { self.total - self.remaining } else { self.total }
    }

    /// Whether more of the chunk is to come that the last data was of.
    pub(super) fn is_within_chunk(&self) -> bool {
        matches!(self.awaits, Await::Data)
    }

    /// How many of the next bytes are of the chunk that has begun.
    pub(super) fn remaining_of_chunk(&self) -> u64 {
        if self.is_within_chunk() { self.remaining } else { 0 }
    }

    /// Takes from `bytes` and says how many it took. What it leaves is to be given again, with more behind it.
    pub(super) fn decode<'a>(
        &mut self,
        bytes: &'a [u8],
        limits: &Limits,
    ) -> Result<(usize, Decoded<'a>), Malformed> {
        let mut used = 0;
        while used < bytes.len() {
            match &mut self.awaits {
                Await::Data => {
                    let data = split_up_to(&mut self.remaining, &bytes[used..]);
                    if self.remaining == 0 {
                        self.awaits = Await::DataReturn;
                    }
                    return Ok((used + data.len(), Decoded::Data(data)));
                }
                Await::Trailers(lines) => {
                    let rest = &bytes[used..];
                    let Some(section) = lines.find_trailers(rest, limits)? else { break };
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

    /// One byte between the chunks.
    fn framing_byte(&mut self, byte: u8, limits: &Limits) -> Result<(), Malformed> {
        self.awaits = match (&self.awaits, byte) {
            (&Await::Size { digits }, b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F') => {
                if digits == SIZE_DIGITS_MAX {
                    return Err(Malformed::BadChunk("a chunk size has more than 16 digits"));
                }
                let digit = (byte as char).to_digit(16).unwrap_or_default();
                self.remaining = self.remaining << 4 | u64::from(digit);
                Await::Size { digits: digits + 1 }
            }
            (Await::Size { digits: 0 }, _) => {
                return Err(Malformed::BadChunk("a chunk size is not a hexadecimal number"));
            }
            (Await::Size { .. }, b'\r') => {
                self.begin_chunk(limits)?;
                Await::SizeLineFeed
            }
            (Await::Size { .. }, b';' | b' ' | b'\t') => {
                self.begin_chunk(limits)?;
                self.extend(Extension::BeforeSemicolon, byte, limits)?
            }
            (Await::Size { .. }, _) => {
                return Err(Malformed::BadChunk("a chunk size is not a hexadecimal number"));
            }
            (Await::Extension(extension), b'\r') if extension.may_end() => Await::SizeLineFeed,
            (&Await::Extension(extension), _) => self.extend(extension, byte, limits)?,
            (Await::SizeLineFeed, b'\n') if self.remaining == 0 => Await::Trailers(Lines::default()),
            (Await::SizeLineFeed, b'\n') => Await::Data,
            (Await::SizeLineFeed, _) => return Err(Malformed::BadChunk("a chunk size does not end in CRLF")),
            (Await::DataReturn, b'\r') => Await::DataLineFeed,
            (Await::DataLineFeed, b'\n') => Await::Size { digits: 0 },
            (Await::DataReturn | Await::DataLineFeed, _) => {
                return Err(Malformed::BadChunk("a chunk is not followed by CRLF"));
            }
            (Await::Data | Await::Trailers(_), _) => unreachable!("decoded in bulk by the caller"),
        };
        Ok(())
    }

    fn begin_chunk(&mut self, limits: &Limits) -> Result<(), Malformed> {
        self.total = self.total.saturating_add(self.remaining);
        if self.total > limits.body_bytes { Err(Malformed::BodyTooLarge) } else { Ok(()) }
    }

    /// One byte of the extensions.
    fn extend(&mut self, extension: Extension, byte: u8, limits: &Limits) -> Result<Await, Malformed> {
        let Some(next) = extension.next(byte) else {
            return Err(Malformed::BadChunk(
                "a chunk size is followed by neither CRLF nor extensions of the form ;name or ;name=value",
            ));
        };
        self.extension_bytes = self.extension_bytes.saturating_add(1);
        if self.extension_bytes as usize > limits.chunk_extension_bytes {
            return Err(Malformed::BadChunk("chunk extensions are longer than the limit"));
        }
        Ok(Await::Extension(next))
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

    /// A whole body: its bytes, how many of the input it took, and the number of trailers.
    type Whole = (Vec<u8>, usize, usize);

    /// Decodes bytes that come in pieces, as the machine does. `None` where more has to come.
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

    /// The same by the grammar of RFC 9112 §7.1, with the whole input at hand and no thought of speed. `None` for what is
    /// no whole body within the limits, whatever the reason.
    fn model(input: &str) -> Option<Whole> {
        let (mut rest, mut data, mut extension_bytes) = (input, String::new(), 0);
        loop {
            let (line, behind) = rest.split_once("\r\n")?;
            let digits = line.find(|character: char| !character.is_ascii_hexdigit()).unwrap_or(line.len());
            let size = usize::from_str_radix(&line[..digits], 16).ok().filter(|_| digits <= 16)?;
            let extension = &line[digits..];
            extension_bytes += extension.len();
            if !is_extensions(extension) || extension_bytes > LIMITS().chunk_extension_bytes {
                return None;
            }
            rest = behind;
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
            let (line, behind) = rest.split_once("\r\n")?;
            rest = behind;
            if line.is_empty() {
                break;
            }
            trailers += 1;
            // The alphabet makes no other field than this one.
            if !line.starts_with("X:") || line.contains(['\r', '\n', '\0']) {
                return None;
            }
        }
        let is_small = start.len() - rest.len() <= LIMITS().head_bytes && trailers <= LIMITS().head_fields;
        is_small.then_some((data.into_bytes(), input.len() - rest.len(), trailers))
    }

    /// `*( BWS ";" BWS chunk-ext-name [ BWS "=" BWS chunk-ext-val ] )`, with a token for a name and a token or a quoted string
    /// for a value.
    fn is_extensions(text: &str) -> bool {
        if text.is_empty() {
            return true;
        }
        let bws = |text: &'_ str| text.len() - text.trim_start_matches([' ', '\t']).len();
        let behind_token = |text: &str| {
            let is_token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
            text.find(|c| !is_token(c)).unwrap_or(text.len())
        };
        let Some(rest) = text[bws(text)..].strip_prefix(';') else { return false };
        let rest = &rest[bws(rest)..];
        let name = behind_token(rest);
        let rest = &rest[name..];
        let Some(value) = rest[bws(rest)..].strip_prefix('=') else {
            return name > 0 && is_extensions(rest);
        };
        let value = &value[bws(value)..];
        let length = if value.starts_with('"') { quoted_length(value) } else { Some(behind_token(value)) };
        name > 0 && length.is_some_and(|length| length > 0 && is_extensions(&value[length..]))
    }

    /// How long the quoted string is with which a text begins.
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

    /// Chunked bodies, mostly well formed.
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
    fn extensions_are_names_and_perhaps_values() {
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
        fn a_body_is_what_the_grammar_makes_of_it(body in body()) {
            prop_assert_eq!(decode([body.as_bytes()]).ok().flatten(), model(&body));
        }

        #[test]
        fn splits_make_no_difference(body in body(), cuts in proptest::collection::vec(0..80_usize, 0..4)) {
            let bytes = body.as_bytes();
            let mut cuts: Vec<_> = cuts.into_iter().map(|cut| cut.min(bytes.len())).chain([0, bytes.len()]).collect();
            cuts.sort_unstable();
            let whole = decode([bytes]);
            prop_assert_eq!(&decode(cuts.windows(2).map(|cut| &bytes[cut[0]..cut[1]])), &whole);
            prop_assert_eq!(&decode(bytes.chunks(1)), &whole);
        }
    }
}

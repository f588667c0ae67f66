//! Any bytes, in any pieces: what the grammar makes of them, and the same at every split.

use proptest::prelude::*;

use super::Asked;
use super::tests::{converse, small_limits};

/// Pieces that make answers if they come in a lucky order, and a few that spoil them.
fn bytes() -> impl Strategy<Value = Vec<u8>> {
    let words: Vec<&[u8]> = vec![
        b"HTTP/1.1 200 OK\r\n",
        b"HTTP/1.0 404\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\n",
        b"HTTP/1.1 101 \r\n",
        b"HTTP/1.1 304 Not Modified\r\n",
        b"HTTP/2 200\r\n",
        b"Content-Length: 5\r\n",
        b"Content-Length: 70\r\n",
        b"Transfer-Encoding: chunked\r\n",
        b"Connection: close\r\n",
        b"connection: x, Keep-Alive\r\n",
        b"X: y\r\n",
        b"\r\n",
        b"\r\n",
        b"\r",
        b"\n",
        b"5\r\nhello\r\n",
        b"0\r\n",
        b"0\r\n\r\n",
        b"2;a=b\r\nhi\r\n",
        b" ",
        b"\0",
        b"\xff",
        b"hello",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n\r\n",
    ];
    let word = prop_oneof![
        20 => proptest::sample::select(words).prop_map(<[u8]>::to_vec),
        1 => proptest::collection::vec(any::<u8>(), 0..40),
    ];
    let words = |most| proptest::collection::vec(word.clone(), 0..most).prop_map(|words| words.concat());
    // Luck is rare, so every other time there are a first line and the end of a head.
    let start =
        proptest::sample::select(vec!["HTTP/1.1 200 OK\r\n", "HTTP/1.0 503 \r\n", "HTTP/1.1 304\r\n"]);
    let headed = (start, words(4), words(4))
        .prop_map(|(start, fields, rest)| [start.as_bytes(), &fields, b"\r\n", &rest].concat());
    prop_oneof![words(8), headed]
}

fn asked() -> impl Strategy<Value = Asked> {
    let flag = || proptest::bool::weighted(0.2);
    (flag(), flag(), flag(), flag()).prop_map(|(is_head, is_connect, offers_upgrade, is_last)| Asked {
        is_head,
        is_connect,
        offers_upgrade,
        is_last,
    })
}

/// A head by the grammar of RFC 9112 §4 and §5, with the whole input at hand and no thought of speed: one character for each
/// byte. `None` for what is none within the limits, whatever the reason.
struct Head {
    status: u16,
    is_http10: bool,
    /// Names in lower case.
    fields: Vec<(String, String)>,
    length: usize,
}

impl Head {
    fn parse(input: &[u8]) -> Option<Self> {
        let length = input.windows(4).position(|window| window == b"\r\n\r\n")? + 4;
        let text: String = input[..length - 4].iter().copied().map(char::from).collect();
        let mut lines = text.split("\r\n");
        // NEL and its like are controls of Unicode, and no ASCII.
        let is_text = |text: &str| !text.contains(|c: char| c.is_ascii_control() && c != '\t');
        let line = lines.next().filter(|line| is_text(line))?;
        let (minor, rest) = line.strip_prefix("HTTP/1.")?.split_once(' ')?;
        let (status, phrase) = rest.split_at_checked(3)?;
        let is_status = status.chars().all(|c| c.is_ascii_digit()) && !status.starts_with('0');
        let is_minor = minor.len() == 1 && minor.chars().all(|c| c.is_ascii_digit());
        if !is_status || !is_minor || !(phrase.is_empty() || phrase.starts_with(' ')) {
            return None;
        }
        let is_token =
            |name: &str| name.chars().all(|c| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c));
        let field = |line: &str| {
            let (name, value) = line.split_once(':')?;
            let is_field = !name.is_empty() && is_token(name) && is_text(value);
            is_field.then(|| (name.to_ascii_lowercase(), value.trim_matches([' ', '\t']).to_owned()))
        };
        let fields: Vec<_> = lines.map(field).collect::<Option<_>>()?;
        let limits = small_limits();
        let is_small = length <= limits.head_bytes && fields.len() <= limits.head_fields;
        let is_http10 = minor == "0";
        is_small.then_some(Self { status: status.parse().ok()?, is_http10, fields, length })
    }

    fn members(&self, name: &str) -> Vec<String> {
        let values = self.fields.iter().filter(|field| field.0 == name).map(|field| field.1.split(','));
        let members = values.flatten().map(|member| member.trim().to_ascii_lowercase());
        members.filter(|member| !member.is_empty()).collect()
    }

    fn has(&self, name: &str) -> bool {
        self.fields.iter().any(|field| field.0 == name)
    }
}

/// What a driver should see of the first answer in `input`, if it is whole, and how many bytes that takes. `None` if it is not.
fn model(asked: Asked, input: &[u8]) -> Option<(String, usize)> {
    let head = Head::parse(input)?;
    let (status, rest) = (head.status, &input[head.length..]);
    if matches!(status, 100 | 102..=199) {
        let (seen, used) = model(asked, rest)?;
        return Some((format!("{status}, {seen}"), head.length + used));
    }
    let options = head.members("connection");
    let has = |option: &str| options.iter().any(|candidate| candidate == option);
    let persists = !asked.is_last && !has("close") && (!head.is_http10 || has("keep-alive"));
    let end = if persists { ", reusable" } else { "" };
    if status == 101 || (asked.is_connect && (200..300).contains(&status)) {
        let may = status != 101 || asked.offers_upgrade;
        return may.then(|| (format!("{status} None, \"\", switched, 0 unread"), head.length));
    }
    if asked.is_head || [204, 304].contains(&status) {
        return Some((format!("{status} None, \"\"{end}"), head.length));
    }
    // Chunks have a model of their own.
    if head.has("transfer-encoding") {
        return None;
    }
    let mut lengths = head.fields.iter().filter(|field| field.0 == "content-length");
    let (Some((_, length)), None) = (lengths.next(), lengths.next()) else { return None };
    let length: usize = length.strip_prefix('+').is_none().then(|| length.parse().ok())??;
    let room = rest.len().min(64);
    if length > room {
        return None;
    }
    let body = rest[..length].escape_ascii().to_string();
    Some((format!("{status} Length({length}), {body:?}{end}"), head.length + length))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn an_answer_is_what_the_grammar_makes_of_it(input in bytes(), asked in asked()) {
        if let Some((expected, used)) = model(asked, &input) {
            prop_assert_eq!(converse(asked, [&input[..used]], false, &small_limits()), expected);
        } else {
            // An answer that is whole shows its body in quotes.
            let seen = converse(asked, [&input[..]], false, &small_limits());
            prop_assert!(seen.contains("Chunked") || !seen.contains('"'), "{}", seen);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn splits_make_no_difference(
        input in bytes(),
        asked in asked(),
        closes: bool,
        piece_bytes in 1..30_usize,
    ) {
        let whole = converse(asked, [&input[..]], closes, &small_limits());
        prop_assert_eq!(&converse(asked, input.chunks(1), closes, &small_limits()), &whole);
        prop_assert_eq!(&converse(asked, input.chunks(piece_bytes), closes, &small_limits()), &whole);
    }
}

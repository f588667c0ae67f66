//! Reads answers off the wire, independently of the code under test and as strictly as a wary client would.

/// One answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WireAnswer {
    /// The status.
    pub status: u16,
    /// Fields in their order, names in lower case.
    pub fields: Vec<(String, String)>,
    /// The body, chunks put together.
    pub body: Vec<u8>,
    /// Trailers in their order.
    pub trailers: Vec<(String, String)>,
    /// Whether the body came to its end; one that ends with the connection always does.
    pub complete: bool,
}

impl WireAnswer {
    /// All values of a field.
    pub fn values<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.fields.iter().filter(move |(field, _)| field == name).map(|(_, value)| value.as_str())
    }
}

/// The answers in `bytes`, to requests with these methods in this order. After a 101 the rest is its body.
pub fn read_answers(bytes: &[u8], methods: &[&str]) -> Result<Vec<WireAnswer>, String> {
    let mut rest = bytes;
    let mut methods = methods.iter();
    let mut answers = Vec::new();
    let mut method = methods.next();
    while !rest.is_empty() {
        let answer = read_answer(&mut rest, method == Some(&"HEAD"))?;
        // An interim answer is followed by another one to the same request.
        if !(100..200).contains(&answer.status) {
            method = methods.next();
        }
        answers.push(answer);
    }
    Ok(answers)
}

fn read_answer(rest: &mut &[u8], is_to_head: bool) -> Result<WireAnswer, String> {
    let status = read_status(read_line(rest)?)?;
    let fields = read_fields(rest)?;
    let mut answer = WireAnswer { status, fields, body: Vec::new(), trailers: Vec::new(), complete: true };
    check_head(&answer)?;
    let length = answer.values("content-length").next().map(str::parse::<usize>);
    let is_chunked = answer.values("transfer-encoding").next().is_some();
    if status == 101 {
        answer.body = std::mem::take(rest).to_vec();
    } else if is_to_head || (100..200).contains(&status) || status == 204 || status == 304 {
    } else if is_chunked {
        read_chunks(rest, &mut answer)?;
    } else if let Some(length) = length {
        let length = length.map_err(|error| format!("content-length: {error}"))?;
        answer.complete = rest.len() >= length;
        answer.body = take(rest, length.min(rest.len())).to_vec();
    } else {
        answer.body = std::mem::take(rest).to_vec();
    }
    Ok(answer)
}

/// What every head must obey, whatever the case is about.
fn check_head(answer: &WireAnswer) -> Result<(), String> {
    let count = |name| answer.values(name).count();
    let wrong = |what: &str| Err(format!("{what}: {answer:?}"));
    let is_interim = (100..200).contains(&answer.status);
    match () {
        () if count("content-length") > 1 => wrong("two Content-Length (RFC 9110 §8.6)"),
        () if count("content-length") + count("transfer-encoding") > 1 => {
            wrong("two framings (RFC 9112 §6.2)")
        }
        () if (is_interim || answer.status == 204) && count("content-length") > 0 => {
            wrong("Content-Length with 1xx or 204 (RFC 9110 §8.6)")
        }
        () if (is_interim || answer.status == 204) && count("transfer-encoding") > 0 => {
            wrong("Transfer-Encoding with 1xx or 204 (RFC 9112 §6.1)")
        }
        () if answer.values("transfer-encoding").any(|coding| coding != "chunked") => {
            wrong("a coding nobody asked for")
        }
        () if !is_interim && count("date") != 1 => wrong("not exactly one Date (RFC 9110 §6.6.1)"),
        () if count("connection") > 1 => wrong("two Connection fields"),
        () => Ok(()),
    }
}

fn read_chunks(rest: &mut &[u8], answer: &mut WireAnswer) -> Result<(), String> {
    loop {
        if rest.is_empty() {
            answer.complete = false;
            return Ok(());
        }
        let line = read_line(rest)?;
        let size =
            usize::from_str_radix(line, 16).map_err(|error| format!("chunk size `{line}`: {error}"))?;
        if size == 0 {
            answer.trailers = read_fields(rest)?;
            return Ok(());
        }
        if rest.len() < size + 2 {
            answer.complete = false;
            answer.body.extend_from_slice(take(rest, size.min(rest.len())));
            *rest = &[];
            return Ok(());
        }
        answer.body.extend_from_slice(take(rest, size));
        if take(rest, 2) != b"\r\n" {
            return Err("a chunk is not followed by CRLF".into());
        }
    }
}

fn read_status(line: &str) -> Result<u16, String> {
    let wrong = || format!("`{line}` is no status line");
    let code = line.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..4)).ok_or_else(wrong)?;
    code.strip_suffix(' ').and_then(|digits| digits.parse().ok()).ok_or_else(wrong)
}

fn read_fields(rest: &mut &[u8]) -> Result<Vec<(String, String)>, String> {
    let mut fields = Vec::new();
    loop {
        let line = read_line(rest)?;
        if line.is_empty() {
            return Ok(fields);
        }
        let (name, value) = line.split_once(": ").ok_or_else(|| format!("`{line}` is no field"))?;
        if name.is_empty() || name != name.to_ascii_lowercase() || name.contains(' ') {
            return Err(format!("`{name}` is no field name of ours"));
        }
        fields.push((name.to_owned(), value.to_owned()));
    }
}

/// A line that ends in CRLF and has no other control characters.
fn read_line<'a>(rest: &mut &'a [u8]) -> Result<&'a str, String> {
    let end = rest.windows(2).position(|pair| pair == b"\r\n");
    let end = end.ok_or_else(|| format!("no line ends in `{}`", rest.escape_ascii()))?;
    let line = take(rest, end);
    take(rest, 2);
    let text = std::str::from_utf8(line).map_err(|error| error.to_string())?;
    if text.contains(|character: char| character.is_control()) {
        return Err(format!("control characters in `{}`", text.escape_debug()));
    }
    Ok(text)
}

fn take<'a>(rest: &mut &'a [u8], length: usize) -> &'a [u8] {
    let (taken, left) = rest.split_at(length);
    *rest = left;
    taken
}

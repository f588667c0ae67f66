//! Parses responses strictly, independently of the code under test.

/// A parsed response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WireResponse {
    /// The status.
    pub status: u16,
    /// Fields in their order, names in lower case.
    pub fields: Vec<(String, String)>,
    /// The body, without chunk framing.
    pub body: Vec<u8>,
    /// Trailers in their order.
    pub trailers: Vec<(String, String)>,
    /// Whether the body is complete; always true for one that ends with the connection.
    pub complete: bool,
}

impl WireResponse {
    /// Returns all values of a field.
    pub fn values<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.fields.iter().filter(move |(field, _)| field == name).map(|(_, value)| value.as_str())
    }
}

/// Parses the responses in `bytes`, to requests with these methods. After a 101, the rest is its body.
pub fn read_responses(bytes: &[u8], methods: &[&str]) -> Result<Vec<WireResponse>, String> {
    let mut rest = bytes;
    let mut methods = methods.iter();
    let mut responses = Vec::new();
    let mut method = methods.next();
    while !rest.is_empty() {
        let response = read_response(&mut rest, method == Some(&"HEAD"))?;
        // Another response to the same request follows an interim one.
        if !(100..200).contains(&response.status) {
            method = methods.next();
        }
        responses.push(response);
    }
    Ok(responses)
}

fn read_response(rest: &mut &[u8], is_to_head: bool) -> Result<WireResponse, String> {
    let status = read_status(&read_line(rest)?)?;
    let fields = read_fields(rest)?;
    let mut response =
        WireResponse { status, fields, body: Vec::new(), trailers: Vec::new(), complete: true };
    check_head(&response)?;
    let length = response.values("content-length").next().map(str::parse::<usize>);
    let is_chunked = response.values("transfer-encoding").next().is_some();
    if status == 101 {
        response.body = std::mem::take(rest).to_vec();
    } else if is_to_head || (100..200).contains(&status) || status == 204 || status == 304 {
    } else if is_chunked {
        read_chunks(rest, &mut response)?;
    } else if let Some(length) = length {
        let length = length.map_err(|error| format!("content-length: {error}"))?;
        response.complete = rest.len() >= length;
        response.body = take(rest, length.min(rest.len())).to_vec();
    } else {
        response.body = std::mem::take(rest).to_vec();
    }
    Ok(response)
}

/// Checks rules that hold for every head.
fn check_head(response: &WireResponse) -> Result<(), String> {
    let count = |name| response.values(name).count();
    let wrong = |what: &str| Err(format!("{what}: {response:?}"));
    let is_interim = (100..200).contains(&response.status);
    match () {
        () if count("content-length") > 1 => wrong("two Content-Length (RFC 9110 §8.6)"),
        () if count("content-length") + count("transfer-encoding") > 1 => {
            wrong("two framings (RFC 9112 §6.2)")
        }
        () if (is_interim || response.status == 204) && count("content-length") > 0 => {
            wrong("Content-Length with 1xx or 204 (RFC 9110 §8.6)")
        }
        () if (is_interim || response.status == 204) && count("transfer-encoding") > 0 => {
            wrong("Transfer-Encoding with 1xx or 204 (RFC 9112 §6.1)")
        }
        () if response.values("transfer-encoding").any(|coding| coding != "chunked") => {
            wrong("an unexpected coding")
        }
        () if !is_interim && count("date") != 1 => wrong("not exactly one Date (RFC 9110 §6.6.1)"),
        () if count("connection") > 1 => wrong("two Connection fields"),
        () => Ok(()),
    }
}

fn read_chunks(rest: &mut &[u8], response: &mut WireResponse) -> Result<(), String> {
    loop {
        if rest.is_empty() {
            response.complete = false;
            return Ok(());
        }
        let line = read_line(rest)?;
        let size =
            usize::from_str_radix(&line, 16).map_err(|error| format!("chunk size `{line}`: {error}"))?;
        if size == 0 {
            response.trailers = read_fields(rest)?;
            return Ok(());
        }
        if rest.len() < size + 2 {
            response.complete = false;
            response.body.extend_from_slice(take(rest, size.min(rest.len())));
            *rest = &[];
            return Ok(());
        }
        response.body.extend_from_slice(take(rest, size));
        if take(rest, 2) != b"\r\n" {
            return Err("a chunk is not followed by CRLF".into());
        }
    }
}

fn read_status(line: &str) -> Result<u16, String> {
    let wrong = || format!("`{line}` is not a status line");
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
        let (name, value) = line.split_once(": ").ok_or_else(|| format!("`{line}` is not a field"))?;
        if name.is_empty() || name != name.to_ascii_lowercase() || name.contains(' ') {
            return Err(format!("`{name}` is not a field name that Rudy sends"));
        }
        fields.push((name.to_owned(), value.to_owned()));
    }
}

/// Reads a line that ends in CRLF and has no other control characters. A field value may have any other bytes (RFC 9110 §5.5).
fn read_line(rest: &mut &[u8]) -> Result<String, String> {
    let end = rest.windows(2).position(|pair| pair == b"\r\n");
    let end = end.ok_or_else(|| format!("no line ends in `{}`", rest.escape_ascii()))?;
    let line = take(rest, end);
    take(rest, 2);
    if line.iter().any(u8::is_ascii_control) {
        return Err(format!("control characters in `{}`", line.escape_ascii()));
    }
    Ok(String::from_utf8_lossy(line).into_owned())
}

fn take<'a>(rest: &mut &'a [u8], length: usize) -> &'a [u8] {
    let (taken, left) = rest.split_at(length);
    *rest = left;
    taken
}

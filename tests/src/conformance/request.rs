//! Reads the requests of a case, to send them over another protocol.

/// A name and a value.
pub(super) type Field = (Vec<u8>, Vec<u8>);

/// A request without the syntax of HTTP/1.1.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct PlainRequest {
    pub(super) method: Vec<u8>,
    pub(super) target: Vec<u8>,
    /// Fields in their order, names in lower case.
    pub(super) fields: Vec<Field>,
    /// The body, unless there is none.
    pub(super) body: Option<Vec<u8>>,
    pub(super) trailers: Vec<Field>,
    /// Whether the whole body is there.
    pub(super) is_complete: bool,
}

/// Reads the requests in `bytes`. The error is a reason why they have no equivalent in another protocol.
pub(super) fn read_requests(mut bytes: &[u8]) -> Result<Vec<PlainRequest>, String> {
    let mut requests = Vec::new();
    while !bytes.is_empty() {
        requests.push(read_request(&mut bytes)?);
    }
    Ok(requests)
}

fn read_request(rest: &mut &[u8]) -> Result<PlainRequest, String> {
    let line = take_line(rest)?;
    let [method, target, b"HTTP/1.1"] = line.split(|byte| *byte == b' ').collect::<Vec<_>>()[..] else {
        return Err(format!("`{}` is not a request line of HTTP/1.1", line.escape_ascii()));
    };
    let fields = take_fields(rest)?;
    let (method, target) = (method.to_vec(), target.to_vec());
    let mut request =
        PlainRequest { method, target, fields, body: None, trailers: Vec::new(), is_complete: true };
    read_body(rest, &mut request)?;
    Ok(request)
}

/// Reads a body and removes the field of the chunked coding. A body of unclear length is the rest of the input.
fn read_body(rest: &mut &[u8], request: &mut PlainRequest) -> Result<(), String> {
    let values = |name: &[u8]| {
        let fields = request.fields.iter().filter(|field| field.0 == name);
        fields.map(|field| String::from_utf8_lossy(&field.1).into_owned()).collect::<Vec<_>>()
    };
    match (&values(b"transfer-encoding")[..], &values(b"content-length")[..]) {
        ([], []) => {}
        ([coding], []) if coding.eq_ignore_ascii_case("chunked") => {
            request.fields.retain(|field| field.0 != b"transfer-encoding");
            request.body = Some(take_chunks(rest)?);
            request.trailers = take_fields(rest)?;
        }
        ([], [length])
            if length.bytes().all(|byte| byte.is_ascii_digit()) && length.parse::<u32>().is_ok() =>
        {
            let length = length.parse().expect("checked above");
            let body = rest.split_off(..usize::min(length, rest.len())).expect("checked above");
            request.is_complete = body.len() == length;
            request.body = (length > 0).then(|| body.to_vec());
        }
        _ => request.body = Some(std::mem::take(rest).to_vec()),
    }
    Ok(())
}

/// Reads valid chunks, up to the trailers.
fn take_chunks(rest: &mut &[u8]) -> Result<Vec<u8>, String> {
    let mut body = Vec::new();
    loop {
        let line = String::from_utf8_lossy(take_line(rest)?).into_owned();
        let size = line.split(';').next().unwrap_or_default().trim_end();
        let size = usize::from_str_radix(size, 16).map_err(|error| format!("chunk `{line}`: {error}"))?;
        if size == 0 {
            return Ok(body);
        }
        body.extend(rest.split_off(..size).ok_or("a chunk is incomplete")?);
        if rest.split_off(..2) != Some(b"\r\n") {
            return Err("a chunk is not followed by CRLF".into());
        }
    }
}

fn take_fields(rest: &mut &[u8]) -> Result<Vec<Field>, String> {
    let mut fields = Vec::new();
    loop {
        let line = take_line(rest)?;
        if line.is_empty() {
            return Ok(fields);
        }
        let colon = line.iter().position(|byte| *byte == b':');
        let colon = colon.ok_or_else(|| format!("`{}` is not a field", line.escape_ascii()))?;
        let is_space = |byte: &&u8| matches!(**byte, b' ' | b'\t');
        let value = &line[colon + 1..];
        let value = &value[value.iter().take_while(is_space).count()..];
        let value = &value[..value.len() - value.iter().rev().take_while(is_space).count()];
        fields.push((line[..colon].to_ascii_lowercase(), value.to_vec()));
    }
}

fn take_line<'a>(rest: &mut &'a [u8]) -> Result<&'a [u8], String> {
    let end = rest.windows(2).position(|pair| pair == b"\r\n");
    let end = end.ok_or_else(|| format!("no line ends in `{}`", rest.escape_ascii()))?;
    let (line, after) = rest.split_at(end);
    *rest = &after[2..];
    Ok(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_lose_the_syntax_of_http_1() {
        let text = "POST /a HTTP/1.1\r\nHost:  b \r\nTransfer-Encoding: chunked\r\n\r\n3;x\r\nabc\r\n0\r\nC: d\r\n\r\n\
                    PUT /e HTTP/1.1\r\nContent-Length: 9\r\n\r\nfgh";
        let requests = read_requests(text.as_bytes()).unwrap();
        let field = |name: &str, value: &str| (name.as_bytes().to_vec(), value.as_bytes().to_vec());
        let [first, second] = &requests[..] else { panic!("{requests:?}") };
        assert_eq!((&first.method[..], &first.target[..]), (&b"POST"[..], &b"/a"[..]));
        assert_eq!(first.fields, [field("host", "b")]);
        assert_eq!(first.body.as_deref(), Some(&b"abc"[..]));
        assert_eq!((&first.trailers[..], first.is_complete), (&[field("c", "d")][..], true));
        assert_eq!((second.body.as_deref(), second.is_complete), (Some(&b"fgh"[..]), false));
    }

    #[test]
    fn what_is_only_in_http_1_is_an_error() {
        for text in [
            "GET /a HTTP/1.0\r\n\r\n",
            "GET  /a HTTP/1.1\r\n\r\n",
            "GET /a HTTP/1.1\r\nA: b\r\n c\r\n\r\n",
            "GET /a HTTP/1.1\r\nHost: a\r\n",
            "GET /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabcX0\r\n\r\n",
        ] {
            assert!(read_requests(text.as_bytes()).is_err(), "{text}");
        }
    }
}

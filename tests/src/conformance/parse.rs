//! The format of the case files.
//!
//! ```text
//! # A comment. Empty lines are ignored.
//! case the behaviour that it shows
//! limit head_fields 3        a limit other than the default
//! http1 the version          the case is about this part of HTTP/1.1; it does not run over HTTP/2 and HTTP/3
//! http2 malformed            over HTTP/2 and HTTP/3, the last request is malformed: its stream is reset
//! > GET /hello HTTP/1.1      the client sends this line and CRLF; for escapes see `escape`
//! >> abc                     the client sends exactly this
//! wait 10s                   the client waits (`s` or `ms`)
//! eof                        the client closes its sending side
//! saw GET /hello             the service received this, and nothing else (see `site`)
//! = 200                      a response has this status; `= 400 close` also has `Connection: close`
//!   allow: GET               … with this field
//!   no content-length        … without this field
//!   body hello               … with exactly this body
//!   contains the Host        … with this text in its body
//!   to HEAD                  … to a HEAD that was rejected before the service received it
//! < HTTP/1.1 200 OK          instead of `=`: the client receives exactly this line and CRLF
//! << abc                     … or exactly this
//! open                       the last line: `open`, `closed`, `cut` or `upgraded`
//! ```
//!
//! `http1` and `http2` before the first case are for the whole file; `http2 same` in a case makes an exception.

use std::fs;
use std::path::Path;
use std::time::Duration;

use rudy_http::Limits;

use super::escape::unescape;
use super::{Case, End, Expected, ExpectedResponse, Http2, Step};

/// Loads the cases of all `.case` files in `folder`, ordered by file name.
/// Panics if a file cannot be read or is invalid; the message has its line.
pub fn load_all(folder: &Path) -> Vec<Case> {
    let mut paths: Vec<_> = fs::read_dir(folder)
        .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
        .map(|entry| entry.expect("the folder can be read to its end").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "case"))
        .collect();
    paths.sort();
    let read =
        |path: &Path| fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    paths.iter().flat_map(|path| parse(&path.display().to_string(), &read(path))).collect()
}

/// Parses all cases of one file.
fn parse(file: &str, text: &str) -> Vec<Case> {
    let mut cases = Vec::new();
    let mut draft: Option<Draft> = None;
    let mut of_file = Http2::Same;
    for (index, line) in text.lines().enumerate() {
        let place = format!("{file}:{}", index + 1);
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(name) = line.strip_prefix("case ") {
            assert!(
                draft.is_none(),
                "{place}: the previous case has no end; expected `open`, `closed`, `cut` or `upgraded`"
            );
            let http2 = of_file.clone();
            draft = Some(Draft { name: name.to_owned(), place, http2, ..Draft::default() });
            continue;
        }
        if let Some(http2) = http2(line).unwrap_or_else(|wrong| panic!("{place}: {wrong}")) {
            *draft.as_mut().map_or(&mut of_file, |draft| &mut draft.http2) = http2;
            continue;
        }
        let open = draft.as_mut().unwrap_or_else(|| panic!("{place}: a case begins with `case NAME`"));
        match end(line) {
            Some(end) => cases.extend(draft.take().map(|draft| draft.finish(end))),
            None => open.line(line).unwrap_or_else(|wrong| panic!("{place}: {wrong}")),
        }
    }
    assert!(draft.is_none(), "{file}: the last case has no end");
    cases
}

fn end(line: &str) -> Option<End> {
    Some(match line {
        "open" => End::Open,
        "closed" => End::Closed,
        "cut" => End::Cut,
        "upgraded" => End::Upgraded,
        _ => return None,
    })
}

/// Parses `http1 PART`, `http2 malformed` and `http2 same`.
fn http2(line: &str) -> Result<Option<Http2>, String> {
    match line.split_once(' ') {
        Some(("http1", part)) => Ok(Some(Http2::Without(part.to_owned()))),
        Some(("http2", "malformed")) => Ok(Some(Http2::Malformed)),
        Some(("http2", "same")) => Ok(Some(Http2::Same)),
        Some(("http2", other)) => {
            Err(format!("`{other}` after `http2`; only `malformed` and `same` are allowed"))
        }
        _ => Ok(None),
    }
}

/// A case before its end is parsed.
#[derive(Default)]
struct Draft {
    name: String,
    place: String,
    limits: Limits,
    steps: Vec<Step>,
    bytes: Option<Vec<u8>>,
    responses: Vec<ExpectedResponse>,
    saw: Option<Vec<String>>,
    http2: Http2,
}

impl Draft {
    fn finish(self, end: End) -> Case {
        let Self { name, place, limits, steps, bytes, responses, saw, http2 } = self;
        assert!(bytes.is_none() || responses.is_empty(), "{place}: `<` and `=` in one case");
        let expected = bytes.map_or(Expected::Responses(responses), Expected::Bytes);
        Case { name, place, limits, steps, expected, saw, end, http2 }
    }

    fn line(&mut self, line: &str) -> Result<(), String> {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        match word {
            ">" => self.send(&(unescape(rest)?, true)),
            ">>" => self.send(&(unescape(rest)?, false)),
            "wait" => self.steps.push(Step::Wait(duration(rest)?)),
            "eof" => self.steps.push(Step::EndOfInput),
            "limit" => set_limit(&mut self.limits, rest)?,
            "saw" => {
                let seen = self.saw.get_or_insert_default();
                // `saw` without a request means that the service received nothing.
                seen.extend((!rest.is_empty()).then(|| rest.to_owned()));
            }
            "=" => self.responses.push(response(rest)?),
            "<" | "<<" => {
                let bytes = self.bytes.get_or_insert_default();
                bytes.extend(unescape(rest)?);
                if word == "<" {
                    bytes.extend(b"\r\n");
                }
            }
            "" => self.detail(line.trim())?,
            _ => return Err(format!("unknown keyword `{word}`")),
        }
        Ok(())
    }

    /// Joins consecutive bytes to one step: the runner splits them.
    fn send(&mut self, (bytes, ends_line): &(Vec<u8>, bool)) {
        if !matches!(self.steps.last(), Some(Step::Send(_))) {
            self.steps.push(Step::Send(Vec::new()));
        }
        if let Some(Step::Send(sent)) = self.steps.last_mut() {
            sent.extend(bytes);
            sent.extend(if *ends_line { &b"\r\n"[..] } else { b"" });
        }
    }

    fn detail(&mut self, detail: &str) -> Result<(), String> {
        let response =
            self.responses.last_mut().ok_or("an indented line must follow a response (`= 200`)")?;
        let (word, rest) = detail.split_once(' ').unwrap_or((detail, ""));
        match word {
            "no" => response.absent.push(rest.to_owned()),
            "body" => response.body = Some(unescape(rest)?),
            "to" if rest == "HEAD" => response.to_head = true,
            "contains" => response.contains = Some(rest.to_owned()),
            _ => {
                let (name, value) =
                    detail.split_once(':').ok_or_else(|| format!("`{detail}` is not a field"))?;
                response.fields.push((name.to_owned(), value.trim().to_owned()));
            }
        }
        Ok(())
    }
}

/// Parses `400` or `400 close`.
fn response(text: &str) -> Result<ExpectedResponse, String> {
    let (status, option) = text.split_once(' ').unwrap_or((text, ""));
    let status = status.parse().map_err(|_| format!("`{status}` is not a status"))?;
    let fields = match option {
        "" => Vec::new(),
        "close" => vec![("connection".to_owned(), "close".to_owned())],
        _ => return Err(format!("`{option}` after a status; only `close` is allowed")),
    };
    Ok(ExpectedResponse { status, fields, ..ExpectedResponse::default() })
}

fn duration(text: &str) -> Result<Duration, String> {
    let split = text.find(|character: char| !character.is_ascii_digit()).unwrap_or(text.len());
    let count: u64 = text[..split].parse().map_err(|_| format!("`{text}` is not a time"))?;
    match &text[split..] {
        "s" => Ok(Duration::from_secs(count)),
        "ms" => Ok(Duration::from_millis(count)),
        unit => Err(format!("`{unit}` is not a unit of time; expected `s` or `ms`")),
    }
}

fn set_limit(limits: &mut Limits, text: &str) -> Result<(), String> {
    let (name, value) = text.split_once(' ').ok_or("a limit is `limit NAME VALUE`")?;
    let number = || value.parse::<u32>().map_err(|_| format!("`{value}` is not a number"));
    match name {
        "head_bytes" => limits.head_bytes = number()? as usize,
        "head_fields" => limits.head_fields = number()? as usize,
        "target_bytes" => limits.target_bytes = number()? as usize,
        "body_bytes" => limits.body_bytes = number()?.into(),
        "chunk_extension_bytes" => limits.chunk_extension_bytes = number()? as usize,
        "drain_bytes" => limits.drain_bytes = number()?.into(),
        "requests_per_connection" => limits.requests_per_connection = Some(number()?.into()),
        _ => return Err(format!("`{name}` is not a limit that a case can set")),
    }
    Ok(())
}

//! An application behind FastCGI 1.0 that may hang, lie, die and restart. It does not use the server's own records.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::{Instant, sleep, timeout};

use crate::behaviour::Behaviour;
use crate::content::content;
use crate::judge::Judge;
use crate::network::End;
use crate::request::Resource;

/// The types of records (section 8).
const BEGIN_REQUEST: u8 = 1;
const ABORT_REQUEST: u8 = 2;
const END_REQUEST: u8 = 3;
const PARAMS: u8 = 4;
const STDIN: u8 = 5;
const STDOUT: u8 = 6;
const STDERR: u8 = 7;
const GET_VALUES: u8 = 9;
const GET_VALUES_RESULT: u8 = 10;

/// The flag of `BEGIN_REQUEST` after whose response the connection stays open.
const KEEP_CONN: u8 = 1;

/// An application over FastCGI.
pub(crate) struct FastCgiOrigin {
    pub(crate) judge: Arc<Judge>,
    pub(crate) random: Mutex<fastrand::Rng>,
    /// How often it misbehaves, of 1,000 requests.
    pub(crate) faults_per_mille: u32,
    /// How long the server waits for its response.
    pub(crate) patience: Duration,
}

/// A record.
struct Record {
    kind: u8,
    request: u16,
    content: Vec<u8>,
}

/// A request as it arrives.
struct Received {
    number: u16,
    keeps_connection: bool,
    params: Vec<u8>,
    body: usize,
}

impl FastCgiOrigin {
    /// Serves a connection.
    pub(crate) async fn serve(self: Arc<Self>, mut end: End) -> io::Result<()> {
        let mut buffer = Vec::new();
        while let Some(request) = self.read_request(&mut end, &mut buffer).await? {
            let behaviour = Behaviour::random(&mut self.random.lock(), self.faults_per_mille);
            if !self.respond(&mut end, &request, behaviour).await? {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Reads the next request, and responds to queries before it. `None` at the end, also of the request.
    async fn read_request(&self, end: &mut End, buffer: &mut Vec<u8>) -> io::Result<Option<Received>> {
        let mut current: Option<Received> = None;
        while let Some(Record { kind, request, content }) = read_record(end, buffer).await? {
            match (kind, &mut current) {
                (GET_VALUES, None) => {
                    let values = [("FCGI_MAX_CONNS", "4"), ("FCGI_MPXS_CONNS", "1")];
                    let content: Vec<u8> =
                        values.iter().flat_map(|(name, value)| pair(name, value)).collect();
                    end.write_all(&record(GET_VALUES_RESULT, 0, &content)).await?;
                }
                (BEGIN_REQUEST, None) if content.len() == 8 => {
                    let keeps_connection = content[2] & KEEP_CONN != 0;
                    current =
                        Some(Received { number: request, keeps_connection, params: Vec::new(), body: 0 });
                }
                (PARAMS, Some(current)) if current.number == request => {
                    current.params.extend_from_slice(&content);
                }
                (STDIN, Some(own)) if own.number == request && content.is_empty() => return Ok(current),
                (STDIN, Some(current)) if current.number == request => current.body += content.len(),
                (ABORT_REQUEST, Some(_)) => return Ok(None),
                _ => self.judge.fault(format!("an application got a record of type {kind} out of place")),
            }
        }
        Ok(None)
    }

    /// Responds. Returns whether the connection goes on.
    async fn respond(&self, end: &mut End, request: &Received, behaviour: Behaviour) -> io::Result<bool> {
        let params = pairs(&request.params);
        let param = |name: &str| params.get(name).map_or("", String::as_str);
        let id = param("HTTP_X_REQUEST").parse().unwrap_or(0);
        self.judge.reached_origin(id);
        let length = param("CONTENT_LENGTH").parse().unwrap_or(0);
        if request.body != length {
            self.judge.fault(format!(
                "request {id} reached an application with {} of {length} bytes",
                request.body
            ));
        }
        match behaviour {
            Behaviour::Late(time) => {
                let begin = Instant::now();
                let has_ended = timeout(time, end.read_u8()).await.is_ok();
                self.judge.check_wait(id, begin, self.patience);
                if has_ended {
                    return Ok(false);
                }
            }
            Behaviour::Dies => return Ok(false),
            Behaviour::Hangs => {
                let begin = Instant::now();
                // Ends with an error if the connection breaks.
                let _ = end.read_u8().await;
                self.judge.check_wait(id, begin, self.patience);
                return Ok(false);
            }
            _ => {}
        }
        let (resource, is_head) =
            (Resource::of_path(param("REQUEST_URI")), param("REQUEST_METHOD") == "HEAD");
        let response = self.response(request.number, id, resource, is_head, behaviour);
        let cut = match behaviour {
            Behaviour::DiesInBody => response.len() * 2 / 3,
            _ => response.len(),
        };
        let pieces = 1 + self.random.lock().usize(..3);
        for piece in response[..cut].chunks(cut.div_ceil(pieces).max(1)) {
            end.write_all(piece).await?;
            if let Behaviour::Pauses(time) = behaviour {
                sleep(time).await;
            }
        }
        if behaviour == Behaviour::DiesInBody {
            end.reset_on_close();
        }
        Ok(request.keeps_connection && !matches!(behaviour, Behaviour::DiesInBody | Behaviour::Leaves))
    }

    /// Returns the records of a response, in a size of their own, with messages between them.
    fn response(
        &self,
        number: u16,
        id: u64,
        resource: Resource,
        is_head: bool,
        behaviour: Behaviour,
    ) -> Vec<u8> {
        let Resource { number: bytes, length, is_chunked } = resource;
        let mut stdout =
            format!("Content-Type: application/octet-stream\r\nX-Request: {id}\r\n").into_bytes();
        let mut random = self.random.lock();
        if behaviour == Behaviour::Lies && random.bool() {
            stdout = b"no head at all\r\n\r\n".to_vec();
        } else if is_chunked {
            stdout.extend_from_slice(b"\r\n");
        } else {
            stdout
                .extend_from_slice(format!("Status: 200 OK\r\nContent-Length: {length}\r\n\r\n").as_bytes());
        }
        let body = match behaviour {
            _ if is_head => Vec::new(),
            // Without a length, its end would be the right one.
            Behaviour::Truncates if !is_chunked => content(bytes, 0, length / 2),
            _ => content(bytes, 0, length),
        };
        stdout.extend_from_slice(&body);
        let mut response = Vec::new();
        let other = if behaviour == Behaviour::Lies { number.wrapping_add(7) } else { number };
        for part in stdout.chunks(random.usize(1..=65_535)) {
            response.extend_from_slice(&record(STDOUT, other, part));
            if random.u32(..8) == 0 {
                response.extend_from_slice(&record(STDERR, number, b"a message\n"));
            }
        }
        response.extend_from_slice(&record(STDOUT, number, b""));
        response.extend_from_slice(&record(END_REQUEST, number, &[0; 8]));
        response
    }
}

/// Encodes a record, without padding.
fn record(kind: u8, request: u16, content: &[u8]) -> Vec<u8> {
    let length = u16::try_from(content.len()).expect("a part is no longer than a record");
    let mut record = vec![1, kind];
    record.extend_from_slice(&request.to_be_bytes());
    record.extend_from_slice(&length.to_be_bytes());
    record.extend_from_slice(&[0, 0]);
    record.extend_from_slice(content);
    record
}

/// Encodes a name and a value, both shorter than 128 bytes.
fn pair(name: &str, value: &str) -> Vec<u8> {
    let lengths = [name.len(), value.len()].map(|length| u8::try_from(length).expect("it is short"));
    [&lengths[..], name.as_bytes(), value.as_bytes()].concat()
}

/// Decodes pairs of names and values; ends at a broken one.
fn pairs(mut bytes: &[u8]) -> BTreeMap<String, String> {
    let mut pairs = BTreeMap::new();
    while let Some(name) = take_length(&mut bytes)
        && let Some(value) = take_length(&mut bytes)
        && let Some((name, rest)) = bytes.split_at_checked(name)
        && let Some((value, rest)) = rest.split_at_checked(value)
    {
        bytes = rest;
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        pairs.insert(text(name), text(value));
    }
    pairs
}

/// Takes a length of one byte, or of four whose first bit is set (section 3.4).
fn take_length(bytes: &mut &[u8]) -> Option<usize> {
    let first = *bytes.first()?;
    let (length, count) = if first < 128 {
        (u32::from(first), 1)
    } else {
        (u32::from_be_bytes(*bytes.first_chunk()?) & 0x7FFF_FFFF, 4)
    };
    *bytes = &bytes[count..];
    usize::try_from(length).ok()
}

/// Reads a record; `None` at the end of the connection.
async fn read_record(end: &mut End, buffer: &mut Vec<u8>) -> io::Result<Option<Record>> {
    loop {
        if let Some(header) = buffer.first_chunk::<8>() {
            let length = usize::from(u16::from_be_bytes([header[4], header[5]]));
            let all = 8 + length + usize::from(header[6]);
            let (kind, request) = (header[1], u16::from_be_bytes([header[2], header[3]]));
            if buffer.len() >= all {
                let content = buffer[8..8 + length].to_vec();
                buffer.drain(..all);
                return Ok(Some(Record { kind, request, content }));
            }
        }
        if end.read_buf(buffer).await? == 0 {
            return Ok(None);
        }
    }
}

//! An application behind HTTP/1.1 that may hang, lie, die and restart. It does not use the server's own parsers.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::{Instant, sleep, timeout};

use crate::behaviour::Behaviour;
use crate::cached::Ledger;
use crate::content::content;
use crate::judge::Judge;
use crate::request::Resource;
use crate::tls::Socket;

/// An application.
pub(crate) struct Origin {
    pub(crate) judge: Arc<Judge>,
    pub(crate) random: parking_lot::Mutex<fastrand::Rng>,
    /// How often it misbehaves, of 1,000 requests.
    pub(crate) faults_per_mille: u32,
    /// How long the server waits for its response.
    pub(crate) patience: Duration,
    /// What decides its responses, if it is the origin of cached items.
    pub(crate) ledger: Option<Arc<Ledger>>,
}

impl Origin {
    /// Serves a connection.
    pub(crate) async fn serve(self: Arc<Self>, mut end: Socket) -> io::Result<()> {
        let mut received = Vec::new();
        while let Some(request) = read_request(&mut end, &mut received).await? {
            self.judge.reached_origin(request.id);
            let behaviour = Behaviour::random(&mut self.random.lock(), self.faults_per_mille);
            match behaviour {
                Behaviour::Late(time) => {
                    let begin = Instant::now();
                    let has_ended = timeout(time, end.read_buf(&mut received)).await.is_ok();
                    self.judge.check_wait(request.id, begin, self.patience);
                    if has_ended {
                        return Ok(());
                    }
                }
                Behaviour::Dies => return Ok(()),
                Behaviour::Hangs => {
                    let begin = Instant::now();
                    // Ends with an error if the connection breaks.
                    let _ = end.read_buf(&mut received).await;
                    self.judge.check_wait(request.id, begin, self.patience);
                    return Ok(());
                }
                _ => {}
            }
            if self.ledger.as_ref().is_some_and(|ledger| ledger.is_down(&request)) {
                // Others join the request meanwhile.
                let time = Duration::from_millis(self.random.lock().u64(..2_500));
                sleep(time).await;
            }
            let response = match &self.ledger {
                Some(ledger) if behaviour != Behaviour::Lies => ledger.respond(&request),
                _ => response(&request, behaviour),
            };
            let cut = match behaviour {
                Behaviour::DiesInBody | Behaviour::Truncates => response.len() * 2 / 3,
                _ => response.len(),
            };
            self.write_in_pieces(&mut end, &response[..cut], behaviour).await?;
            match behaviour {
                Behaviour::DiesInBody | Behaviour::Lies => {
                    end.reset_on_close();
                    return Ok(());
                }
                Behaviour::Leaves | Behaviour::Truncates => return Ok(()),
                _ => {}
            }
        }
        Ok(())
    }

    async fn write_in_pieces(&self, end: &mut Socket, bytes: &[u8], behaviour: Behaviour) -> io::Result<()> {
        let pieces = 1 + self.random.lock().usize(..3);
        for piece in bytes.chunks(bytes.len().div_ceil(pieces).max(1)) {
            end.write_all(piece).await?;
            end.flush().await?;
            if let Behaviour::Pauses(time) = behaviour {
                sleep(time).await;
            }
        }
        Ok(())
    }
}

/// A request as an origin sees it.
pub(crate) struct Received {
    pub(crate) id: u64,
    pub(crate) resource: Resource,
    pub(crate) is_head: bool,
    /// The head, in lower case.
    pub(crate) head: String,
}

/// Reads the next request with its body; `None` at the end.
async fn read_request(end: &mut Socket, received: &mut Vec<u8>) -> io::Result<Option<Received>> {
    let head_end = loop {
        if let Some(at) = received.windows(4).position(|window| window == b"\r\n\r\n") {
            break at + 4;
        }
        if end.read_buf(received).await? == 0 {
            return Ok(None);
        }
    };
    let head = String::from_utf8_lossy(&received[..head_end]).to_ascii_lowercase();
    received.drain(..head_end);
    let field = |name: &str| {
        let mut lines = head.lines().filter_map(|line| line.split_once(": "));
        lines.find_map(|(own, value)| (own == name).then(|| value.trim().to_owned()))
    };
    let mut line = head.split(' ');
    let (method, target) = (line.next().unwrap_or_default(), line.next().unwrap_or_default());
    let length = field("content-length").and_then(|length| length.parse().ok()).unwrap_or(0_usize);
    let is_complete = if field("transfer-encoding").is_some() {
        discard_chunks(end, received).await?
    } else {
        discard(end, received, length).await?
    };
    if !is_complete {
        return Ok(None);
    }
    let id = field("x-request").and_then(|id| id.parse().ok()).unwrap_or(0);
    let (resource, is_head) = (Resource::of_path(target), method == "head");
    Ok(Some(Received { id, resource, is_head, head }))
}

/// Receives this many bytes. Returns whether all have arrived.
async fn discard(end: &mut Socket, received: &mut Vec<u8>, length: usize) -> io::Result<bool> {
    while received.len() < length {
        if end.read_buf(received).await? == 0 {
            return Ok(false);
        }
    }
    received.drain(..length);
    Ok(true)
}

/// Receives a chunked body. Returns whether all of it has arrived.
async fn discard_chunks(end: &mut Socket, received: &mut Vec<u8>) -> io::Result<bool> {
    loop {
        let line_end = loop {
            if let Some(at) = received.windows(2).position(|window| window == b"\r\n") {
                break at;
            }
            if end.read_buf(received).await? == 0 {
                return Ok(false);
            }
        };
        let size = std::str::from_utf8(&received[..line_end]).ok();
        let size = size.and_then(|size| usize::from_str_radix(size, 16).ok());
        let size = size.ok_or(io::ErrorKind::InvalidData)?;
        if !discard(end, received, line_end + 2 + size + 2).await? {
            return Ok(false);
        }
        if size == 0 {
            return Ok(true);
        }
    }
}

fn response(request: &Received, behaviour: Behaviour) -> Vec<u8> {
    if behaviour == Behaviour::Lies {
        return b"HTTP/1.1 two hundred\r\nContent-Length: -1\r\n\r\n".to_vec();
    }
    let Resource { number, length, is_chunked } = request.resource;
    let head =
        format!("HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\nX-Request: {}\r\n", request.id);
    let mut response = head.into_bytes();
    let framing = if is_chunked {
        "Transfer-Encoding: chunked\r\n\r\n".to_owned()
    } else {
        format!("Content-Length: {length}\r\n\r\n")
    };
    response.extend_from_slice(framing.as_bytes());
    if request.is_head {
        return response;
    }
    let body = content(number, 0, length);
    if !is_chunked {
        response.extend_from_slice(&body);
        return response;
    }
    for chunk in body.chunks(1 + length / 3) {
        response.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
        response.extend_from_slice(chunk);
        response.extend_from_slice(b"\r\n");
    }
    response.extend_from_slice(b"0\r\n\r\n");
    response
}

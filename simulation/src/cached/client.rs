//! A client that requests items.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::AsyncWriteExt as _;
use tokio::time::{Instant, sleep, timeout};

use super::Item;
use super::ledger::{Answer, Head, Ledger, OUTAGE};
use crate::client::{Client, PATIENCE};
use crate::request::Route;
use crate::tls::Socket;

/// The field of a client that reloads.
const RELOAD: &str = "Cache-Control: no-cache\r\n";

/// A client of cached items.
pub(crate) struct CachedClient {
    pub(crate) client: Client,
    pub(crate) ledger: Arc<Ledger>,
    /// The entity tags of the last responses.
    pub(crate) tags: BTreeMap<u64, String>,
}

/// A request.
struct Request {
    id: u64,
    method: &'static str,
    item: Item,
    fields: String,
    condition: Option<String>,
    range: Option<(usize, usize)>,
    /// Whether the client leaves before it has received the response.
    leaves: bool,
}

impl CachedClient {
    /// Sends all requests.
    pub(crate) async fn run(mut self) {
        let mut connection = None;
        for number in 0..self.client.requests {
            sleep(self.pause()).await;
            let request = self.request(self.client.first_id + u64::from(number));
            self.client.trace.tell(&format!(
                "{}: request {} ({} {:?} {:?})",
                self.client.name, request.id, request.method, request.item, request.fields
            ));
            self.client.judge.begins(request.id, request.method != "POST");
            let (begin, is_reused) = (Instant::now(), connection.is_some());
            let exchange = self.exchange(connection.take(), &request);
            connection = match timeout(PATIENCE, exchange).await {
                Ok(Ok(connection)) => connection,
                Ok(Err(error)) => {
                    self.fails(&request, &error.to_string(), begin, is_reused || request.leaves);
                    self.client.judge.count(|counts| counts.broken += 1);
                    None
                }
                Err(_) => {
                    self.client.judge.fault(format!("request {} has no end", request.id));
                    None
                }
            };
        }
    }

    /// Something other than success came. The disk of the cache is no reason for it.
    fn fails(&self, request: &Request, why: &str, begin: Instant, is_expected: bool) {
        self.client.trace.tell(&format!("{}: request {}: {why}", self.client.name, request.id));
        if !is_expected && !self.client.judge.is_excused(begin, Some(Route::Cached)) {
            self.client.judge.fault(format!("request {} for {:?}: {why}", request.id, request.item));
        }
    }

    fn pause(&mut self) -> Duration {
        let most_ms = [10, 100, 1_000, 4_000][self.client.random.usize(..4)];
        Duration::from_micros(self.client.random.u64(..most_ms * 1_000))
    }

    fn request(&mut self, id: u64) -> Request {
        let random = &mut self.client.random;
        let item = self.ledger.item(random);
        let leaves = random.u32(..1000) < self.client.faults_per_mille;
        let request =
            Request { id, method: "GET", item, fields: String::new(), condition: None, range: None, leaves };
        match random.u32(..20) {
            0 | 1 => Request { method: "HEAD", ..request },
            2 | 3 => Request { method: "POST", fields: "Content-Length: 0\r\n".to_owned(), ..request },
            4 | 10 => Request { fields: RELOAD.to_owned(), ..request },
            5 | 6 => {
                let first = random.usize(..=item.length(0) * 3 / 2);
                let last = first + random.usize(..50_000);
                Request {
                    fields: format!("Range: bytes={first}-{last}\r\n"),
                    range: Some((first, last + 1)),
                    ..request
                }
            }
            7..10 => match self.tags.get(&item.0).cloned() {
                Some(tag) => {
                    Request { fields: format!("If-None-Match: {tag}\r\n"), condition: Some(tag), ..request }
                }
                None => request,
            },
            _ => request,
        }
    }

    /// Sends a request and checks its response. Returns the connection if it can have another request.
    async fn exchange(
        &mut self,
        connection: Option<Socket>,
        request: &Request,
    ) -> io::Result<Option<Socket>> {
        let client = &mut self.client;
        let mut end = match connection {
            Some(end) => end,
            None => client.dial().await?,
        };
        let sent = (Instant::now(), self.ledger.now());
        let Request { id, method, item, fields, .. } = request;
        let head = format!(
            "{method} /cached/{} HTTP/1.1\r\nHost: site.test\r\nX-Request: {id}\r\n{fields}\r\n",
            item.0
        );
        end.write_all(head.as_bytes()).await?;
        if request.leaves {
            client.judge.count(|counts| counts.disturbances += 1);
            sleep(Duration::from_micros(client.random.u64(..200_000))).await;
            end.reset_on_close();
            return Ok(None);
        }
        self.receive(&mut end, request, sent).await.map(|goes_on| goes_on.then_some(end))
    }

    /// Receives a response. Returns whether the connection stays open.
    async fn receive(
        &mut self,
        end: &mut Socket,
        request: &Request,
        (begin, sent): (Instant, Duration),
    ) -> io::Result<bool> {
        let mut bytes = Vec::new();
        let head = read_head(&mut self.client, end, &mut bytes).await?;
        let received = self.ledger.now();
        let length = head.field("content-length").and_then(|length| length.parse().ok());
        let has_body = request.method != "HEAD" && head.status() != 304;
        if !has_body {
        } else if head.field("transfer-encoding").is_some() {
            self.client.receive_chunks(end, &mut bytes).await?;
        } else {
            self.client.receive_length(end, &mut bytes, length).await?;
        }
        self.client.trace.tell(&format!(
            "{}: request {} got {} with {} bytes: {:?}, age {:?}, fetch {:?}",
            self.client.name,
            request.id,
            head.status(),
            bytes.len(),
            head.field("cache-status"),
            head.field("age"),
            head.field("x-fetch"),
        ));
        self.client.judge.count(|counts| {
            counts.responses += 1;
            counts.errors += u64::from(head.status() >= 500);
        });
        let has_succeeded = head.status() < 400
            || (head.status() == 416 && request.range.is_some())
            || (head.status() == 503 && head.field(OUTAGE).is_some());
        if !has_succeeded {
            self.fails(request, &format!("status {}", head.status()), begin, false);
        } else if request.method == "POST" {
            self.ledger.changed(request.item, sent, &head);
        } else if head.status() < 400 {
            self.check(request, (sent, received), &head, has_body.then_some(&bytes));
        }
        Ok(head.field("connection") != Some("close"))
    }

    fn check(
        &mut self,
        request: &Request,
        (sent, received): (Duration, Duration),
        head: &Head,
        body: Option<&Vec<u8>>,
    ) {
        if let Some(tag) = head.field("etag") {
            self.tags.insert(request.item.0, tag.to_owned());
        }
        self.ledger.check(&Answer {
            id: request.id,
            item: request.item,
            sent,
            received,
            head,
            body: body.map(Vec::as_slice),
            condition: request.condition.as_deref(),
            range: request.range,
            is_reload: request.fields == RELOAD,
        });
    }
}

async fn read_head(client: &mut Client, end: &mut Socket, bytes: &mut Vec<u8>) -> io::Result<Head> {
    loop {
        if let Some(at) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&bytes[..at]).to_ascii_lowercase();
            bytes.drain(..at + 4);
            return Ok(Head(head));
        }
        client.read(end, bytes).await?;
    }
}

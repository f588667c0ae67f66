//! A client that speaks HTTP/2, with several requests at a time. Another implementation than the server's, the crate `h2`, does so for it.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use h2::client::{self, SendRequest};
use h2::{Reason, SendStream};
use http::Method;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use crate::client::{Client, PATIENCE};
use crate::judge::Judge;
use crate::request::Request;
use crate::tls::{SITE, Socket, is_about_certificate};

/// A client over HTTP/2.
pub(crate) struct Http2Client(pub(crate) Client);

/// How it uses a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Use {
    Follows,
    /// It goes after this time.
    Leaves(Duration),
    /// As `Leaves`; it ends its side this long before.
    HalfCloses(Duration, Duration),
    /// After a time, it neither reads nor writes for the second one.
    Sleeps(Duration, Duration),
}

/// How it sends a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Behaviour {
    Follows,
    /// It pauses before each part of its body.
    UploadsSlowly(Duration),
    /// It opens no window for this long, after the first part of the response.
    ReadsLate(Duration),
    /// It cancels the request after this time.
    Cancels(Duration),
}

/// A request on a stream.
struct Stream {
    client: String,
    judge: Arc<Judge>,
    request: Request,
    behaviour: Behaviour,
    scheme: &'static str,
    /// Whether the client follows the protocol on the connection.
    is_carried: bool,
    /// When the connection began, if the client follows the protocol on it and on this stream.
    follows_since: Option<Instant>,
    /// The size of the parts of its body.
    part: usize,
    /// The time before it begins.
    delay: Duration,
}

impl Http2Client {
    /// Sends all requests.
    pub(crate) async fn run(mut self) {
        let mut sent = 0;
        while sent < self.0.requests {
            self.0.pause().await;
            let count = (self.0.requests - sent).min(self.0.random.u32(1..8));
            let first = self.0.first_id + u64::from(sent);
            sent += count;
            let begin = Instant::now();
            match timeout(PATIENCE, self.connection(first..first + u64::from(count))).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => {
                    self.0.trace.tell(&format!("{}: connection: {error}", self.0.name));
                    if is_about_certificate(&error) {
                        self.0.judge.check_certificate(begin, &error);
                    }
                }
                Err(_) => self
                    .0
                    .judge
                    .fault(format!("the requests from {first} on have no end within {PATIENCE:?}")),
            }
        }
    }

    /// Sends requests on a connection.
    async fn connection(&mut self, ids: std::ops::Range<u64>) -> io::Result<()> {
        let how = self.choose_use();
        self.0.trace.tell(&format!("{}: connection for requests {ids:?}, {how:?}", self.0.name));
        let mut streams: Vec<_> = ids.clone().map(|id| self.stream(id, how == Use::Follows)).collect();
        if streams.iter().any(|stream| matches!(stream.behaviour, Behaviour::ReadsLate(_))) {
            // What it does not read takes the window of the connection from the others.
            for stream in &mut streams {
                stream.follows_since = None;
            }
        }
        let end = self.0.dial().await?;
        if let Use::HalfCloses(after, pause) = how {
            let (judge, goes) = (self.0.judge.clone(), end.end().end_and_reset(pause));
            tokio::spawn(async move {
                sleep(after).await;
                goes.await;
                ids.for_each(|id| judge.cancels(id));
            });
        }
        let (sender, connection) =
            self.builder().handshake::<_, Bytes>(end).await.map_err(io::Error::other)?;
        let driver = tokio::spawn(drive(connection, how));
        let mut requests = JoinSet::new();
        for stream in streams {
            requests.spawn(stream.run(sender.clone()));
        }
        drop(sender);
        requests.join_all().await;
        driver.abort();
        Ok(())
    }

    fn builder(&mut self) -> client::Builder {
        let random = &mut self.0.random;
        let mut builder = client::Builder::new();
        if random.bool() {
            // With less, the round trips of a large response last longer than the server waits at its end.
            builder.initial_window_size(random.u32(1_000..200_000));
            builder.initial_connection_window_size(random.u32(65_535..400_000));
            builder.max_frame_size(random.u32(16_384..100_000));
            builder.header_table_size(random.u32(..8_192));
        }
        builder.enable_push(false);
        builder
    }

    fn misbehaves(&mut self) -> bool {
        let does = self.0.random.u32(..1000) < self.0.faults_per_mille;
        if does {
            self.0.judge.count(|counts| counts.disturbances += 1);
        }
        does
    }

    fn choose_use(&mut self) -> Use {
        if !self.misbehaves() {
            return Use::Follows;
        }
        let after = Duration::from_micros(self.0.random.u64(..500_000));
        match self.0.random.u32(..3) {
            0 => Use::Leaves(after),
            1 => Use::HalfCloses(after, Duration::from_millis(self.0.random.u64(..200))),
            _ => Use::Sleeps(after, Duration::from_millis(self.0.random.u64(..60_000))),
        }
    }

    fn stream(&mut self, id: u64, follows: bool) -> Stream {
        let misbehaves = self.misbehaves();
        let random = &mut self.0.random;
        let behaviour = match random.u32(..3) {
            _ if !misbehaves => Behaviour::Follows,
            0 => Behaviour::UploadsSlowly(Duration::from_millis(random.u64(1..4_000))),
            1 => Behaviour::ReadsLate(Duration::from_millis(random.u64(1..50_000))),
            _ => Behaviour::Cancels(Duration::from_micros(random.u64(..500_000))),
        };
        let request = Request::random(random, id);
        let (part, delay) = (random.usize(1..20_000), Duration::from_micros(random.u64(..100_000)));
        let (client, judge) = (self.0.name.clone(), self.0.judge.clone());
        let scheme = if self.0.tls.is_some() { "https" } else { "http" };
        self.0.trace.tell(&format!("{client}: {request}, {behaviour:?}"));
        judge.begins(id, request.is_repeatable());
        if !follows || matches!(behaviour, Behaviour::UploadsSlowly(_) | Behaviour::ReadsLate(_)) {
            judge.occupies(request.route);
        }
        let follows_since = follows.then(Instant::now).filter(|_| behaviour == Behaviour::Follows);
        let is_carried = follows;
        Stream { client, judge, request, behaviour, scheme, is_carried, follows_since, part, delay }
    }
}

/// Moves the frames of a connection, unless it misbehaves.
async fn drive(mut connection: client::Connection<Socket, Bytes>, how: Use) {
    let is_over = match how {
        Use::Follows => false,
        Use::HalfCloses(after, pause) => {
            // The other task ends it meanwhile. Dropping the connection ends the streams.
            let _ = timeout(after + pause, &mut connection).await;
            true
        }
        Use::Leaves(after) => {
            // Dropping the connection closes it.
            let _ = timeout(after, &mut connection).await;
            true
        }
        Use::Sleeps(after, time) => {
            let is_over = timeout(after, &mut connection).await.is_ok();
            sleep(time).await;
            is_over
        }
    };
    if !is_over {
        // The streams hear of an error.
        let _ = connection.await;
    }
}

impl Stream {
    async fn run(self, sender: SendRequest<Bytes>) {
        sleep(self.delay).await;
        let exchange = self.exchange(sender);
        let result = match self.behaviour {
            Behaviour::Cancels(after) => timeout(after, exchange).await.unwrap_or_else(|_| {
                // Dropping the handles resets the stream.
                if self.is_carried {
                    self.judge.cancels(self.request.id);
                }
                Err(Reason::CANCEL.into())
            }),
            _ => exchange.await,
        };
        let id = self.request.id;
        match result {
            Ok(status) => {
                self.judge.tell(&format!("{}: request {id} got {status}", self.client));
                self.judge.count(|counts| {
                    counts.responses += 1;
                    counts.errors += u64::from(status >= 500);
                });
            }
            Err(error) => self.broken(&error),
        }
    }

    /// The request has no response, or not all of it. The server may refuse it without a reason.
    fn broken(&self, error: &h2::Error) {
        let id = self.request.id;
        self.judge.tell(&format!("{}: request {id}: {error}", self.client));
        self.judge.count(|counts| counts.broken += 1);
        let is_refused = error.is_remote()
            && (error.reason() == Some(Reason::REFUSED_STREAM)
                || error.is_go_away() && error.reason() == Some(Reason::NO_ERROR));
        if is_refused {
            self.judge.refused(id);
        } else if self
            .follows_since
            .is_some_and(|begin| !self.judge.is_excused(begin, Some(self.request.route)))
        {
            self.judge.fault(format!("request {id} has no response: {error}"));
        }
    }

    /// Sends the request and checks its response. Returns the status of a complete response.
    async fn exchange(&self, sender: SendRequest<Bytes>) -> Result<u16, h2::Error> {
        let mut sender = sender.ready().await?;
        let Request { id, method, upload, .. } = self.request;
        let head = http::Request::builder()
            .method(Method::from_bytes(method.as_bytes()).expect("a method"))
            .uri(format!("{}://{SITE}{}", self.scheme, self.request.path()))
            .header("x-request", id);
        let head = if upload > 0 { head.header("content-length", upload) } else { head };
        let (response, body) = sender.send_request(head.body(()).expect("a request"), upload == 0)?;
        drop(sender);
        let (response, _) = tokio::join!(self.receive(response), self.upload(body));
        response
    }

    /// Sends the body. The server may end it early.
    async fn upload(&self, mut body: SendStream<Bytes>) -> Result<(), h2::Error> {
        let mut left = self.request.upload;
        while left > 0 {
            if let Behaviour::UploadsSlowly(pause) = self.behaviour {
                sleep(pause).await;
            }
            let part = send_part(&mut body, left.min(self.part), left, b'u').await?;
            left -= part;
        }
        Ok(())
    }

    async fn receive(&self, response: client::ResponseFuture) -> Result<u16, h2::Error> {
        let response = response.await?;
        let Request { id, resource, .. } = self.request;
        let status = response.status().as_u16();
        let of = response.headers().get("x-request").and_then(|of| of.to_str().ok());
        self.judge.check_head(self.request, status, of, self.follows_since);
        let mut body = response.into_body();
        let mut received = 0;
        while let Some(bytes) = body.data().await {
            let bytes = bytes?;
            if status == 200 {
                self.judge.check_bytes(id, resource, received, &bytes);
            }
            if let Behaviour::ReadsLate(pause) = self.behaviour
                && received == 0
            {
                sleep(pause).await;
            }
            received += bytes.len();
            body.flow_control().release_capacity(bytes.len())?;
        }
        body.trailers().await?;
        if status == 200 && received != self.request.body_length() {
            self.judge.fault(format!("request {id}: {received} bytes of {resource:?} without an error"));
        }
        Ok(status)
    }
}

/// Sends at most `most` bytes of a body of which `left` are left, as the window permits. Returns how many.
async fn send_part(
    body: &mut SendStream<Bytes>,
    most: usize,
    left: usize,
    byte: u8,
) -> Result<usize, h2::Error> {
    body.reserve_capacity(most);
    let room = std::future::poll_fn(|cx| body.poll_capacity(cx)).await.ok_or(Reason::CANCEL)??;
    let part = room.min(most);
    body.send_data(Bytes::from(vec![byte; part]), part == left)?;
    Ok(part)
}

//! The [`site`] as a service, as an engine serves it.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Instant;

use http::request;
use http_body::Body as _;
use rudy_net::engine::ServiceSource;
use rudy_net::{
    Body, BodyError, BodyPiece, BodyStream, Client, ExchangeOutcome, Head, Limits, Reply, Request,
    RequestBody, Response, Service, Upgraded,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::site::{self, Answer, AnswerBody, WholeBody};

/// Gives each new connection the site of now, so that one engine serves cases with different limits.
pub struct Sites {
    current: Mutex<Arc<Site>>,
}

impl Sites {
    /// A site with default limits.
    #[must_use]
    pub fn new() -> Arc<Self> {
        Arc::new(Self { current: Mutex::new(Site::new(&rudy_http::Limits::default())) })
    }

    /// Serves a fresh site under these limits from now on.
    pub fn open(&self, limits: &rudy_http::Limits) -> Arc<Site> {
        let site = Site::new(limits);
        *self.current.lock().unwrap_or_else(PoisonError::into_inner) = site.clone();
        site
    }
}

impl ServiceSource for Sites {
    type Service = Site;
    type Current = Arc<Site>;

    fn current(&self) -> Arc<Site> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Serves the site, and notes what it is told.
pub struct Site {
    limits: Arc<Limits>,
    saw: Arc<Mutex<Vec<String>>>,
}

impl Site {
    fn new(limits: &rudy_http::Limits) -> Arc<Self> {
        let limits = Arc::new(Limits { http: limits.clone(), ..Limits::default() });
        Arc::new(Self { limits, saw: Arc::default() })
    }

    /// What it was told so far.
    #[must_use]
    pub fn saw(&self) -> Vec<String> {
        self.saw.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Service for Site {
    fn call(&self, request: Request, _client: &Client<'_>) -> Reply {
        let (request, body) = request.into_parts();
        note(&self.saw, [site::describe(&request)]);
        if site::reads_body(&request) && !body.is_end_stream() {
            Reply::Later(Box::pin(answer_to_body(request, body, self.saw.clone())))
        } else {
            Reply::Now(respond(site::answer(&request, &WholeBody::default())))
        }
    }

    fn limits(&self) -> &Arc<Limits> {
        &self.limits
    }

    fn rejected(&self, _client: &Client<'_>, _reason: &str, _outcome: &ExchangeOutcome) {}
}

fn note(saw: &Mutex<Vec<String>>, lines: impl IntoIterator<Item = String>) {
    saw.lock().unwrap_or_else(PoisonError::into_inner).extend(lines);
}

/// Reads the body to its end, then answers. A body that breaks off is answered by the connection, if at all.
async fn answer_to_body(
    request: request::Parts,
    mut body: RequestBody,
    saw: Arc<Mutex<Vec<String>>>,
) -> Response {
    let mut whole = WholeBody::default();
    while let Some(Ok(frame)) = std::future::poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
        match frame.into_data() {
            Ok(data) => whole.bytes.extend_from_slice(&data),
            Err(frame) => whole.trailers = frame.into_trailers().unwrap_or_default(),
        }
    }
    note(&saw, site::describe_body(&whole));
    respond(site::answer(&request, &whole))
}

fn respond(answer: Answer) -> Response {
    let mut response = Response::new(answer.status);
    response.head = Head::Fields(answer.status, answer.fields);
    match answer.body {
        AnswerBody::Whole(bytes) => response.body = Body::Bytes(bytes),
        AnswerBody::Promised(length, bytes) => {
            response.body = Pieces::body(Some(length), [BodyPiece::Data(bytes)]);
        }
        AnswerBody::Pieces(pieces, trailers) => {
            let pieces = pieces.into_iter().map(BodyPiece::Data);
            response.body = Pieces::body(None, pieces.chain([BodyPiece::Trailers(trailers)]));
        }
        AnswerBody::Upgrade => response.upgrade = Some(Box::new(|upgraded| Box::pin(shout(upgraded)))),
    }
    response
}

/// Sends everything back in upper case. Whatever fails ends it: that is what a broken connection is.
async fn shout(Upgraded { unread, mut io }: Upgraded) {
    let mut bytes = unread.to_vec();
    loop {
        if io.write_all(&site::upgraded(&bytes)).await.is_err() {
            return;
        }
        bytes.resize(1024, 0);
        match io.read(&mut bytes).await {
            Ok(read @ 1..) => bytes.truncate(read),
            Ok(0) | Err(_) => return,
        }
    }
}

/// Pieces that are ready, under a length that may be a lie.
struct Pieces {
    length: Option<u64>,
    pieces: VecDeque<BodyPiece>,
}

impl Pieces {
    fn body(length: Option<u64>, pieces: impl IntoIterator<Item = BodyPiece>) -> Body {
        Body::Stream(Box::new(Self { length, pieces: pieces.into_iter().collect() }))
    }
}

impl BodyStream for Pieces {
    fn poll_piece(
        &mut self,
        _cx: &mut Context<'_>,
        _now: Instant,
        _max: u64,
    ) -> Poll<Option<Result<BodyPiece, BodyError>>> {
        Poll::Ready(self.pieces.pop_front().map(Ok))
    }

    fn length(&self) -> Option<u64> {
        self.length
    }
}

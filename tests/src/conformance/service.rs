//! The [`site`] as a service for an engine.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Instant;

use http::request;
use http_body::Body as _;
use rudy_service::listen_address::Address;
use rudy_service::{
    Body, BodyError, BodyPiece, BodyStream, Client, ExchangeOutcome, Head, Limits, LocalAddress, Reply,
    Request, RequestBody, Response, Service, ServiceSource, TlsChoice, Upgraded,
};
use rudy_tls::{ClientHello, TlsSite};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::site::{self, ResponseBody, SiteResponse, WholeBody};

/// A source of services that gives new connections the current site, so that one engine can run cases with different limits.
pub struct Sites {
    current: Mutex<Arc<Site>>,
    tls: Option<Arc<TlsSite>>,
}

impl Sites {
    /// Creates a source with a site that has default limits, and TLS if it has settings for it.
    pub fn new(tls: Option<Arc<TlsSite>>) -> Arc<Self> {
        let current = Mutex::new(Site::new(&rudy_http::Limits::default(), tls.clone()));
        Arc::new(Self { current, tls })
    }

    /// Serves a new site with these limits from now on.
    pub fn open(&self, limits: &rudy_http::Limits) -> Arc<Site> {
        let site = Site::new(limits, self.tls.clone());
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

/// A service for the site, which records its requests.
pub struct Site {
    limits: Arc<Limits>,
    tls: Option<Arc<TlsSite>>,
    saw: Arc<Mutex<Vec<String>>>,
}

impl Site {
    fn new(limits: &rudy_http::Limits, tls: Option<Arc<TlsSite>>) -> Arc<Self> {
        let limits = Arc::new(Limits { http: limits.clone(), ..Limits::default() });
        Arc::new(Self { limits, tls, saw: Arc::default() })
    }

    /// Returns the requests so far, as lines of a case.
    pub fn saw(&self) -> Vec<String> {
        self.saw.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Service for Site {
    fn tls_site(&self, _: &ClientHello, _: &Address, _: &LocalAddress<'_>) -> Option<TlsChoice> {
        self.tls.clone().map(TlsChoice::Site)
    }

    fn call(&self, request: Request<'_>, _client: &Client<'_>) -> Reply {
        let (head, body) = request.into_parts();
        let request = request::Parts::from(head);
        record(&self.saw, [site::describe(&request)]);
        if site::reads_body(&request) && !body.is_end_stream() {
            Reply::Later(Box::pin(respond_to_body(request, body, self.saw.clone())))
        } else {
            Reply::Now(convert(site::respond(&request, &WholeBody::default())))
        }
    }

    fn limits(&self) -> &Arc<Limits> {
        &self.limits
    }

    fn rejected(&self, _client: &Client<'_>, _reason: &str, _outcome: &ExchangeOutcome) {}
}

fn record(saw: &Mutex<Vec<String>>, lines: impl IntoIterator<Item = String>) {
    saw.lock().unwrap_or_else(PoisonError::into_inner).extend(lines);
}

/// Reads the complete body, then responds. Leaves the response to a body that fails to the connection.
async fn respond_to_body(
    request: request::Parts,
    mut body: RequestBody,
    saw: Arc<Mutex<Vec<String>>>,
) -> Response {
    let mut whole = WholeBody::default();
    while let Some(frame) = std::future::poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
        let Ok(frame) = frame else { return std::future::pending().await };
        match frame.into_data() {
            Ok(data) => whole.bytes.extend_from_slice(&data),
            Err(frame) => whole.trailers = frame.into_trailers().unwrap_or_default(),
        }
    }
    record(&saw, site::describe_body(&whole));
    convert(site::respond(&request, &whole))
}

fn convert(from_site: SiteResponse) -> Response {
    let mut response = Response::new(from_site.status);
    response.head = Head::Fields(from_site.status, from_site.fields);
    match from_site.body {
        ResponseBody::Whole(bytes) => response.body = Body::Bytes(bytes),
        ResponseBody::Declared(length, bytes) => {
            response.body = Pieces::body(Some(length), [BodyPiece::Data(bytes)]);
        }
        ResponseBody::Pieces(pieces, trailers) => {
            let pieces = pieces.into_iter().map(BodyPiece::Data);
            response.body = Pieces::body(None, pieces.chain([BodyPiece::Trailers(trailers)]));
        }
        ResponseBody::Upgrade => response.upgrade = Some(Box::new(|upgraded| Box::pin(shout(upgraded)))),
    }
    response
}

/// Returns everything in upper case until the connection ends or fails.
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

/// A body of given pieces, with a length that may be wrong.
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

//! Requests of Rudy itself about a request of a client, such as those to an authorizer.

use std::future::poll_fn;
use std::pin::pin;

use http::header::HOST;
use http::{HeaderMap, Method, StatusCode, Version};
use http_body::Body as _;
use rudy_client::buffer::Buffers;
use rudy_client::{RequestInfo, Selection, Upload, Wanted};
use rudy_message::client::RequestHead;
use rudy_message::{BodyLength, LazyHead};
use rudy_service::{Client, RequestBody, Response, without_interim};

use super::exchange::Exchange;
use super::failure::{Cause, Failure};
use super::received::Head;
use super::{Proxy, fields, forwarded, response, via};

/// A request about that of a client.
pub struct Subrequest {
    /// The path with its query.
    pub target: String,
    /// Its method and its fields, without those of the connection of the client.
    pub head: LazyHead<'static>,
    body: Upload,
    info: RequestInfo,
}

/// The response of the upstream: the head, and a body that was not read.
pub struct Subresponse {
    head: Head,
    exchange: Box<Exchange>,
    info: RequestInfo,
}

impl Proxy {
    /// Returns a GET request about one of a client, with the fields of the client's request: without those of its connection, and with
    /// `X-Forwarded-For`, `X-Forwarded-Proto` and `X-Forwarded-Host`. `Host` is the one of the upstream.
    pub fn subrequest(&self, target: &str, mut head: LazyHead<'static>, client: &Client<'_>) -> Subrequest {
        let info = self.info(&head, client);
        fields::remove_connection_fields(&mut head);
        via::add_via(&mut head);
        fields::set_host_of_target(&mut head);
        forwarded::set_forwarded(&mut head, client, false);
        head.set_method(Method::GET);
        self.with_host(target, head, info)
    }

    /// Returns a request for a resource of the upstream, for a request of a client: without the addresses of the client.
    pub fn own_request(&self, target: &str, mut head: LazyHead<'static>, client: &Client<'_>) -> Subrequest {
        let info = self.info(&head, client);
        fields::remove_connection_fields(&mut head);
        via::add_via(&mut head);
        self.with_host(target, head, info)
    }

    fn with_host(&self, target: &str, mut head: LazyHead<'static>, info: RequestInfo) -> Subrequest {
        head.set(HOST, self.0.default_host.clone());
        Subrequest { target: target.to_owned(), head, body: Upload::default(), info }
    }

    /// Describes a request of a client for the log.
    fn info(&self, head: &LazyHead<'_>, client: &Client<'_>) -> RequestInfo {
        RequestInfo {
            upstream: self.0.name.clone(),
            method: head.method().clone(),
            uri: head.uri().clone(),
            client: client.address(),
            log: self.0.log.get().cloned(),
        }
    }

    /// Sends a request, and waits for the head of the response.
    ///
    /// # Errors
    ///
    /// The response to the client, whose request has these fields: 502, 503 or 504 without a response, and 508 if the upstream is this
    /// server. The failure is logged.
    pub async fn ask(&self, request: Subrequest, of_client: &LazyHead<'_>) -> Result<Subresponse, Response> {
        let Subrequest { target, head, body: mut upload, info } = request;
        if via::is_loop(of_client) {
            return Err(via::loop_detected(of_client.headers()));
        }
        let head = RequestHead {
            method: head.method(),
            target: &target,
            version: Version::HTTP_11,
            fields: (&head).into(),
            body: upload.length().map_or(BodyLength::Chunked, BodyLength::Known),
        };
        let shared = &self.0;
        let mut selection = Selection::from(Wanted::Any);
        let mut sending = pin!(async {
            let pool = shared.pool().map_err(Cause::from)?;
            // Without an observer: the access log has the upstream of the handler.
            pool.send(&head, &mut upload, None, &mut selection, &shared.timeouts, None).await
        });
        // Early hints of an authorizer are about its own resources.
        match poll_fn(|cx| without_interim(|| sending.as_mut().poll(cx))).await {
            Ok((head, exchange)) => Ok(Subresponse { head, exchange, info }),
            Err(failure) => {
                info.log_failure(&failure);
                Err(failure.response(of_client.headers()))
            }
        }
    }
}

impl Subrequest {
    /// Adds a body, after all of it has arrived: a slow client occupies no connection.
    ///
    /// # Errors
    ///
    /// The response to the client, whose request has these fields: 413, or 507 without space. The failure is logged.
    pub async fn with_body(
        mut self,
        body: RequestBody,
        buffers: &Buffers,
        of_client: &HeaderMap,
    ) -> Result<Self, Response> {
        if body.is_end_stream() {
            return Ok(self);
        }
        match buffers.store(body).await {
            Ok(stored) => self.body = Upload::stored(stored),
            Err(error) => {
                let failure = Failure::from(Cause::from(error));
                self.info.log_failure(&failure);
                return Err(failure.response(of_client));
            }
        }
        Ok(self)
    }
}

impl Subresponse {
    /// Returns the status.
    pub fn status(&self) -> StatusCode {
        self.head.status()
    }

    /// Returns the fields, and discards the body.
    pub fn into_fields(mut self) -> HeaderMap {
        self.exchange.discard();
        self.head.take_fields()
    }

    /// Passes the response on to the client, whose request has this method and these fields.
    pub fn into_response(self, method: &Method, of_client: &HeaderMap, buffers: &Buffers) -> Response {
        let Self { head, exchange, info } = self;
        let of_body = || info.clone();
        response::into_response((head, exchange), method, buffers, 0, of_body).unwrap_or_else(|failure| {
            info.log_failure(&failure);
            failure.response(of_client)
        })
    }
}

//! The client of a case over HTTP/3.

use std::net::SocketAddr;

use rudy_http::h3::ErrorCode;

use super::request::PlainRequest;
use super::streams::{self, pseudo_fields};
use crate::Http2Response;
use crate::http3::{Http3Client, Http3Connection, h3_frame, h3_headers, h3_kind};
use crate::tls::LocalTls;

/// The client of a case.
pub(super) struct Client(Http3Connection);

impl Client {
    pub(super) fn open(address: SocketAddr, tls: &LocalTls) -> Self {
        Self(Http3Client::with_tls(tls.client.clone()).open(address))
    }
}

impl streams::Client for Client {
    fn body_bytes_max(&self) -> usize {
        usize::MAX
    }

    fn malformed(&self) -> u32 {
        u32::try_from(ErrorCode::MESSAGE_ERROR.0).expect("a small number")
    }

    /// A reset discards what has not been delivered (RFC 9000 §2.4).
    fn may_lose_head(&self) -> bool {
        true
    }

    /// The end of the input is that of the stream.
    fn exchange(&mut self, request: &PlainRequest, awaits: bool, ends_input: bool) -> Http2Response {
        let connection = &mut self.0;
        let stream = connection.open_stream();
        connection.queue(stream, &h3_headers(&pseudo_fields(request, b"https")));
        if awaits {
            connection.response_until(stream, |response| !response.interim.is_empty());
        }
        if let Some(body) = &request.body {
            connection.queue(stream, &h3_frame(h3_kind::DATA, body));
        }
        if !request.trailers.is_empty() {
            connection.queue(stream, &h3_headers(&request.trailers));
        }
        if request.is_complete || ends_input {
            connection.finish(stream);
        }
        connection.response(stream)
    }

    fn check_end(&mut self, is_half_closed: bool) -> Result<(), String> {
        if is_half_closed {
            return Ok(());
        }
        let stream = self.0.get("/hello");
        if self.0.response(stream).status == 0 {
            return Err("the connection has ended".into());
        }
        Ok(())
    }
}

//! Converts the response of an app to the response for the client.

use std::future::poll_fn;

use http::{Method, StatusCode};
use rudy_client::buffer::{Buffer, Buffers};
use rudy_client::{HeadOnlyBody, body, has_no_body, is_of_events};
use rudy_fastcgi::cgi::{Head, ResponseKind};
use rudy_service::{Body, Response};

use super::exchange::Exchange;
use super::failure::{AppCause, Failure};

/// The response of an app: its head, and the exchange that receives the body.
pub(super) struct AppResponse {
    pub(super) head: Head,
    exchange: Box<Exchange>,
}

impl AppResponse {
    pub(super) fn new(head: Head, exchange: Box<Exchange>) -> Self {
        Self { head, exchange }
    }

    /// Discards the body, and returns the head.
    pub(super) fn discard(self) -> Head {
        self.exchange.discard();
        self.head
    }

    /// Discards a body of at most `max` bytes, and checks that the app ends the request with application
    /// status 0.
    pub(super) async fn expect_end(mut self, max: usize) -> Result<(), Failure> {
        let mut discarded = 0;
        while discarded <= max {
            match poll_fn(|cx| self.exchange.poll_piece(cx)).await {
                Some(piece) => discarded += piece?.len(),
                None => {
                    return match self.exchange.protocol.app_status {
                        Some(0) => Ok(()),
                        Some(app_status) => Err(AppCause::AppStatus(app_status).into()),
                        None => Err(AppCause::NoEndOfRequest.into()),
                    };
                }
            }
        }
        Err(AppCause::BodyTooLong(max).into())
    }

    /// Creates the response for the client. If the client is slower than the app, `buffers` store up to
    /// `limit` bytes of the body in a file.
    ///
    /// # Errors
    ///
    /// The app failed before any byte of the body was received.
    pub(super) fn into_response(
        self,
        method: &Method,
        buffers: &Buffers,
        limit: u64,
    ) -> Result<Response, Failure> {
        let Self { head, exchange } = self;
        let status = match head.kind {
            ResponseKind::Document(status) => status,
            ResponseKind::LocalRedirect(_) => StatusCode::FOUND,
        };
        let mut response = Response::with_head(rudy_service::Head::Received(head.fields.with_status(status)));
        let is_unbuffered = head.instructions.is_some_and(|instructions| instructions.is_unbuffered);
        if has_no_body(method, status) {
            // A live stream does not end soon.
            if !is_unbuffered && !is_of_events(&response) {
                exchange.discard();
            }
            response.body = Body::Stream(Box::new(HeadOnlyBody { length: head.content_length }));
            return Ok(response);
        }
        let buffer = || {
            let is_live = is_unbuffered || is_of_events(&response);
            (Buffer::new(buffers, Some(if is_live { 0 } else { limit })), false)
        };
        response.body = body(exchange, head.content_length, buffer, || ())?;
        Ok(response)
    }
}

//! From what an app sends to the answer for the client.

use std::future::poll_fn;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use bytes::Bytes;
use http::{Method, StatusCode};
use rudy_fastcgi::cgi::{Answer, Head, HeadDecoder};
use rudy_fastcgi::{Limits, Role};
use rudy_net::{Body, BodyError, BodyPiece, BodyStream, Response};

use super::exchange::Exchange;
use super::failure::Failure;
use super::whose::Whose;

/// The head of an answer, and what has come of its body.
pub(super) struct Begun {
    pub(super) head: Head,
    rest: Bytes,
    exchange: Exchange,
}

/// Waits for the head of the answer.
pub(super) async fn begin(mut exchange: Exchange, role: Role, limits: &Limits) -> Result<Begun, Failure> {
    let mut decoder = match role {
        Role::Authorizer => HeadDecoder::of_authorizer(),
        Role::Responder | Role::Filter => HeadDecoder::new(),
    };
    loop {
        let piece = poll_fn(|cx| exchange.poll_piece(cx)).await;
        let Some(piece) = piece else { return Err(Failure::Head(decoder.end_of_input())) };
        let mut piece = piece?;
        if let Some((used, head)) = decoder.decode(&piece, limits).map_err(Failure::Head)? {
            let rest = piece.split_off(used);
            return Ok(Begun { head, rest, exchange });
        }
    }
}

impl Begun {
    /// Passes over the body, which is nobody's.
    pub(super) fn discard(self) -> Head {
        self.exchange.skip();
        self.head
    }

    /// Passes over the body, `most` bytes of it, to the end that the app itself has to set, with the application status of
    /// success.
    pub(super) async fn end(mut self, most: usize) -> Result<(), Failure> {
        let mut passed = self.rest.len();
        while passed <= most {
            match poll_fn(|cx| self.exchange.poll_piece(cx)).await {
                Some(piece) => passed += piece?.len(),
                None => {
                    return match self.exchange.app_status() {
                        Some(0) => Ok(()),
                        Some(app_status) => Err(Failure::AppStatus(app_status)),
                        None => Err(Failure::Unended),
                    };
                }
            }
        }
        Err(Failure::Verbose(most))
    }

    /// The answer for a client.
    pub(super) async fn into_response(self, method: &Method, whose: Whose) -> Result<Response, Failure> {
        let Self { head, mut rest, mut exchange } = self;
        let status = match head.kind {
            Answer::Document(status) => status,
            Answer::LocalRedirect(_) => StatusCode::FOUND,
        };
        let mut response = Response::new(status);
        let mut fields = head.fields;
        // Says how many bytes come; the connection sends it again.
        fields.remove(http::header::CONTENT_LENGTH);
        *response.headers_mut() = fields;
        // Of such an answer nothing but the head is sent (RFC 9110 §9.3.2, §15.3.5, §15.4.5).
        if *method == Method::HEAD || matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED) {
            exchange.skip();
            response.body = Body::Stream(Box::new(Unsent { length: head.content_length }));
            return Ok(response);
        }
        // What has come already may be all there is, or why there is no more of it: then nothing of it is sent.
        match poll_fn(|cx| Poll::Ready(exchange.poll_piece(cx))).await {
            Poll::Ready(Some(Err(failure))) => return Err(failure),
            Poll::Ready(Some(Ok(piece))) if rest.is_empty() => rest = piece,
            Poll::Ready(Some(Ok(piece))) => rest = [rest, piece].concat().into(),
            Poll::Ready(None) | Poll::Pending => {}
        }
        let is_whole = exchange.is_over();
        response.body = match head.content_length {
            None if is_whole && rest.is_empty() => Body::Empty,
            None if is_whole => Body::Bytes(rest),
            Some(said) if is_whole && said == rest.len() as u64 => Body::Bytes(rest),
            length => {
                Body::Stream(Box::new(Passing { first: Some(rest), left: length, length, exchange, whose }))
            }
        };
        Ok(response)
    }
}

/// A body that is not sent, and whose length may be told.
struct Unsent {
    length: Option<u64>,
}

impl BodyStream for Unsent {
    fn poll_piece(
        &mut self,
        _cx: &mut Context<'_>,
        _now: Instant,
    ) -> Poll<Option<Result<BodyPiece, BodyError>>> {
        Poll::Ready(None)
    }

    fn length(&self) -> Option<u64> {
        self.length
    }
}

/// The body of an answer, as it comes.
struct Passing {
    first: Option<Bytes>,
    /// What is still to come, where the app has said how much.
    left: Option<u64>,
    length: Option<u64>,
    exchange: Exchange,
    whose: Whose,
}

impl Passing {
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Failure>>> {
        let piece = match self.first.take().filter(|first| !first.is_empty()) {
            Some(first) => Some(Ok(first)),
            None => ready!(self.exchange.poll_piece(cx)),
        };
        Poll::Ready(match (piece, &mut self.left) {
            (Some(Ok(mut piece)), Some(left)) => {
                if piece.len() as u64 > *left {
                    let said = self.length.unwrap_or(0);
                    self.whose.say(&Failure::Length { said, came: said + piece.len() as u64 - *left });
                    // Not more than the piece is long, which is a `usize`.
                    piece.truncate(usize::try_from(*left).unwrap_or(usize::MAX));
                }
                *left -= piece.len() as u64;
                Some(Ok(piece)).filter(|piece| piece.as_ref().is_ok_and(|piece| !piece.is_empty()))
            }
            // What was said would come has come, so that nothing is cut.
            (Some(Err(failure)), Some(0)) => {
                self.whose.say(&failure);
                None
            }
            (None, Some(left)) if *left > 0 => {
                let said = self.length.unwrap_or(0);
                Some(Err(Failure::Length { said, came: said - *left }))
            }
            (piece, _) => piece,
        })
    }
}

impl BodyStream for Passing {
    fn poll_piece(
        &mut self,
        cx: &mut Context<'_>,
        _now: Instant,
    ) -> Poll<Option<Result<BodyPiece, BodyError>>> {
        let piece = ready!(self.poll_next(cx));
        if let Some(Err(failure)) = &piece {
            self.whose.say(failure);
        }
        Poll::Ready(piece.map(|piece| piece.map(BodyPiece::Data).map_err(Into::into)))
    }

    #[expect(clippy::misnamed_getters, reason = "it is what is still to come")]
    fn length(&self) -> Option<u64> {
        self.left
    }
}

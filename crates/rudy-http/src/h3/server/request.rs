//! Handles the parts of requests: heads, bodies, trailers.

use http::Version;
use rudy_message::text::read_trailers;
use rudy_message::{Rejection, RequestHead};

use super::ServerConnection;
use super::event::Event;
use super::receive::Section;
use crate::field_section::HeadFault;
use crate::h3::core::Turn;
use crate::h3::receive::WRONG_LENGTH;
use crate::h3::{ConnectionError, ErrorCode};
use crate::progress::{Progress, Receiving, WrongLength};

impl ServerConnection {
    /// Handles the head of a request.
    pub(super) fn receive_request<'e>(
        &mut self,
        stream: u64,
        section: &Section,
        ends: bool,
        text: &'e [u8],
        turn: Turn<'_>,
    ) -> Result<Event<'e>, ConnectionError> {
        let head = match section.written {
            Ok(()) => RequestHead::of_field_section(
                text,
                Version::HTTP_3,
                section.is_tunnel,
                &turn.limits.of_message(),
            ),
            Err(HeadFault::TooLarge) => Err(Rejection::HeadTooLarge),
            Err(HeadFault::Malformed(reason)) => {
                return self.fail_stream(stream, (ErrorCode::MESSAGE_ERROR, reason), turn);
            }
        };
        let methods = (section.is_head, section.is_tunnel);
        let Ok((progress, body)) = Progress::of_request(head.as_ref().ok(), methods, ends) else {
            return self.fail_stream(stream, WRONG_LENGTH, turn);
        };
        self.requests += 1;
        self.core.allowances.count_exchange();
        self.core.streams.advance(stream, |state| *state = progress);
        Ok(match head {
            Ok(head) => {
                let updated = self.core.streams.get(stream).and_then(|state| state.priority);
                let priority = updated.unwrap_or(section.priority);
                Event::Request { stream, head: head.with_body(body), priority }
            }
            Err(rejection) => Event::Rejected { stream, rejection, head: Some(text) },
        })
    }

    /// Handles a piece of a body. `ends` if the stream ends after it.
    pub(super) fn receive_data<'i>(
        &mut self,
        stream: u64,
        data: &'i [u8],
        ends: bool,
        turn: Turn<'_>,
    ) -> Result<Option<Event<'i>>, ConnectionError> {
        let Some(state) = self.core.streams.get_mut(stream) else { return Ok(None) };
        if state.progress.receive(data.len() as u64, ends).is_err() {
            return self.fail_stream(stream, WRONG_LENGTH, turn).map(Some);
        }
        if state.progress.received > turn.limits.body_bytes && !state.progress.is_tunnel {
            return Ok(Some(Event::Rejected { stream, rejection: Rejection::BodyTooLarge, head: None }));
        }
        Ok(Some(Event::Data { stream, data, ends }))
    }

    /// Handles the end of a stream that no piece of a body has.
    pub(super) fn receive_end<'e>(
        &mut self,
        stream: u64,
        turn: Turn<'_>,
    ) -> Result<Option<Event<'e>>, ConnectionError> {
        let Some(state) = self.core.streams.get_mut(stream) else { return Ok(None) };
        match state.progress.receiving {
            Receiving::Ended => Ok(None),
            Receiving::Head => {
                let fault = (ErrorCode::REQUEST_INCOMPLETE, "a stream without a request");
                self.fail_stream(stream, fault, turn).map(Some)
            }
            Receiving::Body => match state.progress.end() {
                Ok(()) => Ok(Some(Event::End { stream, trailers: None })),
                Err(WrongLength) => self.fail_stream(stream, WRONG_LENGTH, turn).map(Some),
            },
        }
    }

    /// Ends the body of a request with trailers.
    pub(super) fn receive_trailers(
        &mut self,
        stream: u64,
        section: &Section,
        text: &[u8],
        turn: Turn<'_>,
    ) -> Result<Event<'static>, ConnectionError> {
        let fault = match section.written {
            Err(HeadFault::Malformed(reason)) => (ErrorCode::MESSAGE_ERROR, reason),
            Err(HeadFault::TooLarge) => (ErrorCode::EXCESSIVE_LOAD, "trailers exceed the limit"),
            Ok(()) => match read_trailers(text, &turn.limits.of_message()) {
                Err(_) => (ErrorCode::MESSAGE_ERROR, "a field is not allowed as a trailer"),
                Ok(trailers) => match self.core.streams.get_mut(stream).map(|state| state.progress.end()) {
                    Some(Err(WrongLength)) => WRONG_LENGTH,
                    _ => return Ok(Event::End { stream, trailers }),
                },
            },
        };
        self.fail_stream(stream, fault, turn)
    }
}

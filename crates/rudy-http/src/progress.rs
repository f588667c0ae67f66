//! How far the two messages of a stream are: what HTTP/2 and HTTP/3 have in common.

use http::StatusCode;
use rudy_message::{BodyLength, Framing, LengthError, RequestHead, has_no_content};

use crate::field_section::ReceivedHead;
use crate::sent_request::Request;

/// The progress of the messages of a stream.
#[derive(Debug)]
pub(crate) struct Progress {
    pub(crate) receiving: Receiving,
    pub(crate) sending: Sending,
    /// What is left of the length that the received head states.
    pub(crate) expected: Option<u64>,
    /// The size of the received body so far.
    pub(crate) received: u64,
    /// The request has the method HEAD.
    pub(crate) is_head: bool,
    /// The stream is a tunnel, whose length has no limit.
    pub(crate) is_tunnel: bool,
    /// The client waits for `100 Continue`.
    pub(crate) expects_continue: bool,
}

/// What this side receives on a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Receiving {
    /// The head is due.
    Head,
    Body,
    Ended,
}

/// What this side sends on a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sending {
    /// The head is due.
    Head,
    /// The body, with what is left of its stated length.
    Body(Option<u64>),
    Ended,
}

/// The received body has another length than its head states.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WrongLength;

impl WrongLength {
    /// What is wrong with the message.
    pub(crate) const REASON: &'static str = "the body has another length than Content-Length";
}

impl Progress {
    /// Returns the progress of a stream whose request is due.
    pub(crate) fn before_request() -> Self {
        Self {
            receiving: Receiving::Head,
            sending: Sending::Head,
            expected: None,
            received: 0,
            is_head: false,
            is_tunnel: false,
            expects_continue: false,
        }
    }

    /// Returns the progress after the head of a request, and the length of the body. `ends` if no body follows. `head` is that of a
    /// request that is not rejected.
    pub(crate) fn of_request(
        head: Option<&RequestHead<'_>>,
        (is_head, is_tunnel): (bool, bool),
        ends: bool,
    ) -> Result<(Self, BodyLength), WrongLength> {
        let expected = head.and_then(RequestHead::stated_length);
        let (receiving, body) = match expected {
            Some(1..) if ends => return Err(WrongLength),
            _ if ends => (Receiving::Ended, BodyLength::Known(0)),
            Some(length @ 1..) => (Receiving::Body, BodyLength::Known(length)),
            // Also with a length of 0, because the end is still to come.
            _ => (Receiving::Body, BodyLength::Chunked),
        };
        let expects_continue = head.is_some_and(RequestHead::expects_continue);
        let before = Self::before_request();
        Ok((Self { receiving, expected, is_head, is_tunnel, expects_continue, ..before }, body))
    }

    /// Returns the progress of a stream whose request is sent, as far as its head.
    pub(crate) fn of_sent_request(request: &Request) -> Self {
        let sending = match request.body() {
            BodyLength::Known(0) => Sending::Ended,
            BodyLength::Known(length) => Sending::Body(Some(length)),
            BodyLength::Chunked => Sending::Body(None),
        };
        let (is_head, is_tunnel) = (request.is_head(), request.is_tunnel());
        Self { sending, is_head, is_tunnel, ..Self::before_request() }
    }

    /// Records the head of a response that is no interim one. `ends` if no body follows. Returns how the body is delimited.
    pub(crate) fn receive_response(
        &mut self,
        head: ReceivedHead,
        ends: bool,
    ) -> Result<Framing, WrongLength> {
        let ReceivedHead { status, length, .. } = head;
        // RFC 9110 §9.3.6: a tunnel has no length. Other responses to its request are ordinary ones.
        self.is_tunnel &= (200..300).contains(&status);
        let framing = match length {
            _ if self.is_tunnel && !ends => Framing::Chunked,
            // RFC 9110 §6.4.1: regardless of the fields.
            _ if self.is_head || matches!(status, 204 | 304) => Framing::None,
            Some(length) => Framing::Length(length),
            None if ends => Framing::Length(0),
            None => Framing::Chunked,
        };
        self.expected = match framing {
            Framing::None => Some(0),
            Framing::Length(length) => Some(length),
            Framing::Chunked | Framing::UntilClose => None,
        };
        self.receiving = Receiving::Body;
        if ends {
            self.end()?;
        }
        Ok(framing)
    }

    /// Records a piece of the received body. `ends` if it is the last one.
    pub(crate) fn receive(&mut self, length: u64, ends: bool) -> Result<(), WrongLength> {
        self.received += length;
        if let Some(expected) = &mut self.expected {
            *expected = expected.checked_sub(length).ok_or(WrongLength)?;
        }
        if ends { self.end() } else { Ok(()) }
    }

    /// Whether a piece of the received body is too long: for the stated length, or for the limit.
    pub(crate) fn exceeds(&self, length: u64, body_bytes_max: u64) -> bool {
        self.expected.is_some_and(|left| length > left)
            || (self.received + length > body_bytes_max && !self.is_tunnel)
    }

    /// Records the end of the received message.
    pub(crate) fn end(&mut self) -> Result<(), WrongLength> {
        if self.expected.is_some_and(|left| left > 0) {
            return Err(WrongLength);
        }
        self.receiving = Receiving::Ended;
        Ok(())
    }

    /// Whether the head of the response is due.
    pub(crate) fn is_response_due(&self) -> bool {
        self.sending == Sending::Head
    }

    /// Whether a body is sent, whose end is not encoded.
    pub(crate) fn is_in_body(&self) -> bool {
        matches!(self.sending, Sending::Body(_))
    }

    /// Whether both messages have ended.
    pub(crate) fn is_over(&self) -> bool {
        self.receiving == Receiving::Ended && self.sending == Sending::Ended
    }

    /// Whether 100 (Continue) is due now, which it is once.
    pub(crate) fn take_continue(&mut self) -> bool {
        std::mem::take(&mut self.expects_continue) && self.is_response_due()
    }

    /// Begins the response. Returns whether a body follows; `None` if the response has begun before: each request has one.
    pub(crate) fn begin(&mut self, status: StatusCode, length: Option<u64>) -> Option<bool> {
        if !self.is_response_due() {
            return None;
        }
        let has_body = !self.is_head && !has_no_content(status) && length != Some(0);
        self.sending = if has_body { Sending::Body(length) } else { Sending::Ended };
        Some(has_body)
    }

    /// Records that `framed` bytes of a body are sent, of `length` that there are. Returns whether the body ends with them.
    pub(crate) fn send(&mut self, length: u64, framed: u64) -> Result<bool, LengthError> {
        let Sending::Body(remaining) = &mut self.sending else { return Err(LengthError) };
        if let Some(remaining) = remaining {
            *remaining = remaining.checked_sub(length).ok_or(LengthError)? + (length - framed);
        }
        let ends = *remaining == Some(0);
        if ends {
            self.sending = Sending::Ended;
        }
        Ok(ends)
    }

    /// Ends the body that is sent. Returns whether it had not ended before.
    pub(crate) fn finish(&mut self) -> Result<bool, LengthError> {
        match self.sending {
            Sending::Body(Some(1..)) => Err(LengthError),
            Sending::Body(_) => {
                self.sending = Sending::Ended;
                Ok(true)
            }
            Sending::Head | Sending::Ended => Ok(false),
        }
    }
}

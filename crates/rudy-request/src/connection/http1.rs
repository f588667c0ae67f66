//! Requests and responses of HTTP/1.1 on one connection.

use std::collections::VecDeque;
use std::time::Instant;

use rudy_http::Limits;
use rudy_http::h1::client::{ClientConnection, Fault, InputEnd, ResponseEvent};
use rudy_message::client::RequestInfo;

use super::Observer;
use crate::Failure;

/// The state of HTTP/1.1.
#[derive(Debug, Default)]
pub(super) struct Http1 {
    machine: ClientConnection,
    /// The responses that are expected after the current one.
    expected_responses: VecDeque<RequestInfo>,
    /// The received data that is not parsed yet. Has no capacity while it is empty.
    read_buffer: Vec<u8>,
}

impl Http1 {
    pub(super) fn is_idle(&self) -> bool {
        self.machine.is_idle()
    }

    pub(super) fn can_be_reused(&self) -> bool {
        self.machine.can_be_reused()
    }

    pub(super) fn expect_responses(&mut self, infos: impl IntoIterator<Item = RequestInfo>) {
        for info in infos {
            if self.machine.is_idle() && self.expected_responses.is_empty() {
                self.machine.expect_response(info);
            } else {
                self.expected_responses.push_back(info);
            }
        }
    }

    pub(super) fn end_of_input(&mut self) -> Result<InputEnd, Fault> {
        self.machine.end_of_input()
    }

    /// Parses the buffered data and the received data, and buffers the incomplete rest.
    pub(super) fn receive(
        &mut self,
        bytes: &[u8],
        limits: &Limits,
        now: Instant,
        observer: &mut impl Observer,
    ) -> Result<(), Failure> {
        if self.read_buffer.is_empty() {
            let used = self.parse(bytes, limits, now, observer)?;
            self.read_buffer.extend_from_slice(&bytes[used..]);
            return Ok(());
        }
        let mut whole = std::mem::take(&mut self.read_buffer);
        whole.extend_from_slice(bytes);
        let used = self.parse(&whole, limits, now, observer)?;
        if used < whole.len() {
            whole.drain(..used);
            self.read_buffer = whole;
        }
        Ok(())
    }

    /// Parses the data and returns the number of bytes used.
    fn parse(
        &mut self,
        bytes: &[u8],
        limits: &Limits,
        now: Instant,
        observer: &mut impl Observer,
    ) -> Result<usize, Failure> {
        let mut used = 0;
        loop {
            // The state machine rejects data without a request.
            if used == bytes.len() && self.machine.is_idle() {
                return Ok(used);
            }
            let (taken, event) = self.machine.decode(&bytes[used..], limits).map_err(Failure::Malformed)?;
            used += taken;
            match event {
                ResponseEvent::Informational(head) => observer.informational(&head),
                ResponseEvent::Head(head) => observer.head(&head),
                ResponseEvent::Data(data) => {
                    observer.data(data);
                    if !self.machine.is_within_chunk() {
                        observer.chunk();
                    }
                }
                ResponseEvent::End(trailers) => {
                    observer.end(trailers.as_ref(), now);
                    if let Some(info) = self.expected_responses.pop_front() {
                        self.machine.expect_response(info);
                    }
                }
                ResponseEvent::NeedData => return Ok(used),
            }
        }
    }
}

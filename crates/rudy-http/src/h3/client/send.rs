//! Encodes requests. What is appended is for the stream of the request only.

use bytes::BytesMut;
use http::HeaderMap;
use rudy_message::LengthError;

use super::{ClientConnection, Request};
use crate::h3::ErrorCode;
use crate::h3::core::{STREAM_STEP, StreamEnd, initiator};
use crate::h3::frame::put_section;
use crate::h3::stream::Stream;
use crate::hpack::Indexing;
use crate::progress::Progress;
use crate::qpack::{encode_secret, encode_stateless};

impl ClientConnection {
    /// Encodes the head of a request for a stream that the caller has opened, each after those before it. Returns whether the connection
    /// [accepts it](Self::is_going_away); if not, nothing is sent. Unless the body of the request is `Known(0)`, encode it with
    /// [`Self::encode_piece`] and [`Self::finish`].
    #[must_use]
    pub fn request(&mut self, stream: u64, request: &Request, out: &mut BytesMut) -> bool {
        let is_new = stream >= self.next_stream && stream & initiator::BITS == initiator::REQUEST;
        if self.is_going_away() || !is_new {
            return false;
        }
        self.next_stream = stream + STREAM_STEP;
        put_section(out, |out| {
            for (name, value, indexing) in request.fields() {
                match indexing {
                    Indexing::Never => encode_secret(name, value, out),
                    Indexing::Incremental | Indexing::Without => encode_stateless(name, value, out),
                }
            }
        });
        self.core.streams.push(Stream::new(stream, Progress::of_sent_request(request), None));
        self.end_if_encoded(stream);
        true
    }

    /// Whether the request of a stream has a body whose end is not encoded.
    #[must_use]
    pub fn is_in_body(&self, stream: u64) -> bool {
        self.core.is_in_body(stream)
    }

    /// Encodes the frame before bytes of a body that the caller sends itself, if they are not in the frame of those before. Returns how
    /// many of the `length` bytes follow: all. A body of known length has one frame, and the stream ends with its last byte.
    ///
    /// # Errors
    ///
    /// The body is longer than its Content-Length, or the server does not want more of it.
    pub fn begin_data(&mut self, stream: u64, length: u64, out: &mut BytesMut) -> Result<u64, LengthError> {
        let framed = self.core.begin_data(stream, length, out)?;
        self.end_if_encoded(stream);
        Ok(framed)
    }

    /// Encodes a piece of a body.
    ///
    /// # Errors
    ///
    /// Those of [`Self::begin_data`].
    pub fn encode_piece(&mut self, stream: u64, data: &[u8], out: &mut BytesMut) -> Result<(), LengthError> {
        if !data.is_empty() {
            self.begin_data(stream, data.len() as u64, out)?;
            out.extend_from_slice(data);
        }
        Ok(())
    }

    /// Ends a body, if it has not ended with its last byte.
    ///
    /// # Errors
    ///
    /// The body is shorter than its Content-Length.
    pub fn finish(
        &mut self,
        stream: u64,
        trailers: Option<&HeaderMap>,
        out: &mut BytesMut,
    ) -> Result<(), LengthError> {
        if self.core.finish(stream, trailers, out)? {
            self.end_if_encoded(stream);
        }
        Ok(())
    }

    /// Cancels a request. No events for the stream follow.
    pub fn cancel(&mut self, stream: u64) {
        self.core.reset(stream, ErrorCode::REQUEST_CANCELLED);
    }

    /// Ends the direction of the request if that is encoded, after which no call for its body succeeds.
    fn end_if_encoded(&mut self, stream: u64) {
        if !self.is_in_body(stream) {
            self.core.ends.push_back((stream, StreamEnd::Finish));
            self.core.close_if_ended(stream);
        }
    }
}

//! Encodes requests.

use bytes::BytesMut;
use http::HeaderMap;
use rudy_message::LengthError;

use super::{ClientConnection, Request};
use crate::h2::ErrorCode;
use crate::h2::frame::{begin_block, end_block, put_ping};
use crate::h2::stream::Stream;
use crate::h2::window::SendWindow;
use crate::hpack::Indexing;
use crate::progress::{Progress, Sending};
use crate::sent_request::indexing;

/// The payload of [`ClientConnection::ping`].
const PING: [u8; 8] = *b"rudyping";

impl ClientConnection {
    /// Encodes the head of a request, and returns its stream. `None` if no [stream is available](Self::available_streams). Unless
    /// the body of the request is `Known(0)`, encode it with [`Self::encode_piece`] and [`Self::finish`].
    pub fn request(&mut self, request: &Request, out: &mut BytesMut) -> Option<u32> {
        if self.available_streams() == 0 {
            return None;
        }
        let stream = self.next_stream;
        self.next_stream += 2;
        let progress = Progress::of_sent_request(request);
        let start = begin_block(out);
        self.encoder.begin_block(out);
        for (name, value, indexing) in request.fields() {
            self.encoder.encode(name, value, indexing, out);
        }
        end_block(start, stream, progress.sending == Sending::Ended, out);
        self.core.streams.push(Stream {
            id: stream,
            send_window: SendWindow::new(self.core.peer.initial_window),
            receive_window: self.core.new_receive_window(),
            progress,
            draining: None,
        });
        Some(stream)
    }

    /// Whether the request of a stream has a body whose end is not encoded.
    #[must_use]
    pub fn is_in_body(&self, stream: u32) -> bool {
        self.core.streams.get(stream).is_some_and(|stream| stream.progress.is_in_body())
    }

    /// Returns how many bytes of a body the server accepts now. The window opens when [`Self::receive`] handles input.
    #[must_use]
    pub fn window(&self, stream: u32) -> u64 {
        self.core.window(stream)
    }

    /// Whether the server accepts more of any body now.
    #[must_use]
    pub fn has_window(&self) -> bool {
        self.core.send_window.available() > 0
    }

    /// Encodes the frame before bytes of a body that the caller sends itself. Returns how many of the `length` bytes follow: at
    /// least 1 if there is a [window](Self::window). With the last byte of a known length, the stream ends.
    ///
    /// # Errors
    ///
    /// The body is longer than its Content-Length, or the stream is closed.
    pub fn begin_data(&mut self, stream: u32, length: u64, out: &mut BytesMut) -> Result<u64, LengthError> {
        self.core.begin_data(stream, length, out)
    }

    /// Encodes a piece of a body, of at most [`Self::window`] bytes.
    ///
    /// # Errors
    ///
    /// The body is longer than its Content-Length or the window, or the stream is closed.
    pub fn encode_piece(&mut self, stream: u32, data: &[u8], out: &mut BytesMut) -> Result<(), LengthError> {
        self.core.encode_piece(stream, data, out)
    }

    /// Ends a body, if it has not ended with its last byte.
    ///
    /// # Errors
    ///
    /// The body is shorter than its Content-Length.
    pub fn finish(
        &mut self,
        stream: u32,
        trailers: Option<&HeaderMap>,
        out: &mut BytesMut,
    ) -> Result<(), LengthError> {
        if let Some(trailers) = self.core.finish(stream, trailers, out)? {
            let start = begin_block(out);
            self.encoder.begin_block(out);
            for (name, value) in trailers {
                let indexing =
                    if value.is_sensitive() { Indexing::Never } else { indexing(name, value.len()) };
                self.encoder.encode(name.as_str().as_bytes(), value.as_bytes(), indexing, out);
            }
            end_block(start, stream, true, out);
        }
        self.core.close_if_ended(stream);
        Ok(())
    }

    /// Records that bytes of a response body are no longer stored, which opens the windows.
    pub fn pass_on(&mut self, stream: u32, bytes: usize, out: &mut BytesMut) {
        self.core.pass_on(stream, u32::try_from(bytes).unwrap_or(u32::MAX), out);
    }

    /// Opens the window of the connection for the bytes of an event [`Data`](super::Event::Data), before they are passed on. Then a stream
    /// whose data waits does not slow the others: it stores at most its own window, which [`Self::open_stream_window`] opens. Use both
    /// instead of [`Self::pass_on`].
    pub fn open_connection_window(&mut self, bytes: usize, out: &mut BytesMut) {
        self.core.open_connection_window(u32::try_from(bytes).unwrap_or(u32::MAX), out);
    }

    /// Records that bytes of a response body are no longer stored, which opens the window of their stream.
    pub fn open_stream_window(&mut self, stream: u32, bytes: usize, out: &mut BytesMut) {
        self.core.open_stream_window(stream, u32::try_from(bytes).unwrap_or(u32::MAX), out);
    }

    /// Encodes a PING, to find out whether the server still responds. Its acknowledgement is no event.
    pub fn ping(&mut self, out: &mut BytesMut) {
        put_ping(0, PING, out);
    }

    /// Cancels a request. No events for the stream follow.
    pub fn cancel(&mut self, stream: u32, out: &mut BytesMut) {
        if self.core.streams.get(stream).is_some() {
            self.core.reset(stream, ErrorCode::CANCEL, out);
        }
    }
}

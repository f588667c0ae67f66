//! Sends a request to an upstream: its encoded head, then its body as it comes in.

use std::cell::RefCell;
use std::io;
use std::task::{Context, Poll, Waker, ready};

use bytes::{Buf, Bytes, BytesMut};
use http::HeaderMap;
use rudy_fastcgi::RequestId;
use rudy_fastcgi::record::{Kind, encode_stream, encode_stream_end};
use rudy_http::h1::client::{encode_chunk, encode_last_chunk};

use super::Connection;
use super::upload::{Upload, UploadError};

/// How much of a body is encoded at once: two pieces as they come from a socket.
const OUTPUT_BYTES: usize = 64 * 1024;

thread_local! {
    /// The output buffer of the request that this thread works on.
    static OUTPUT: RefCell<BytesMut> = RefCell::new(BytesMut::with_capacity(4096));
}

/// How a request body is encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyCoding {
    /// As it is: the head has its length.
    Plain,
    /// In chunks of HTTP/1.1.
    Chunked,
    /// As the standard input of a FastCGI request.
    Stdin(RequestId),
    /// The connection makes frames of it.
    Frames,
}

/// A request that is being sent.
#[derive(Debug)]
pub struct Sending {
    coding: BodyCoding,
    /// The rest of the body.
    upload: Upload,
    /// Encoded bytes that were not sent yet.
    output: Bytes,
    /// The number of bytes that the connection has accepted.
    sent: u64,
    /// Whether the rest of the request is not sent, because its body was taken.
    is_cut: bool,
}

/// Why a request cannot be sent.
#[derive(Debug)]
pub enum SendError {
    /// The connection was lost before any byte was sent.
    NothingSent(io::Error),
    /// The connection was lost.
    ConnectionLost(io::Error),
    /// The body cannot be read.
    Upload(UploadError),
}

impl BodyCoding {
    /// Appends a piece to `out`.
    fn encode_piece(self, piece: &[u8], out: &mut BytesMut) {
        match self {
            Self::Plain | Self::Frames => out.extend_from_slice(piece),
            Self::Chunked => encode_chunk(piece, out),
            Self::Stdin(id) => encode_stream(Kind::Stdin, id, piece, out),
        }
    }

    /// Appends the end of the body to `out`. CGI has no trailers.
    fn encode_end(self, trailers: Option<&HeaderMap>, out: &mut BytesMut) {
        match self {
            Self::Plain | Self::Frames => {}
            Self::Chunked => encode_last_chunk(trailers, out),
            Self::Stdin(id) => encode_stream_end(Kind::Stdin, id, out),
        }
    }
}

impl Sending {
    /// Starts a request whose head was sent as a frame.
    #[must_use]
    pub fn in_frames(upload: Upload) -> Self {
        Self { coding: BodyCoding::Frames, upload, output: Bytes::new(), sent: 0, is_cut: false }
    }

    /// Starts a request: `encode_head` appends its head, and returns the coding of its body. What the connection does not accept at once
    /// is sent by later polls, which also report errors.
    ///
    /// # Errors
    ///
    /// Those of `encode_head`. Nothing was sent: the upstream would read a body without a head as another request.
    pub fn begin<C: Connection, Error>(
        upload: Upload,
        connection: &mut C,
        encode_head: impl FnOnce(&mut C, &mut BytesMut) -> Result<BodyCoding, Error>,
    ) -> Result<Self, Error> {
        OUTPUT.with_borrow_mut(|out| {
            out.clear();
            let coding = encode_head(connection, out)?;
            let mut sending = Self { coding, upload, output: Bytes::new(), sent: 0, is_cut: false };
            let cx = &mut Context::from_waker(Waker::noop());
            // A body in memory is sent together with the head.
            if sending.upload.is_in_memory() {
                let _ = sending.encode_upload(cx, out);
            }
            let sent = match connection.poll_write(cx, out) {
                Poll::Ready(Ok(sent)) => sent,
                Poll::Ready(Err(_)) | Poll::Pending => 0,
            };
            sending.sent = sent as u64;
            sending.output = Bytes::copy_from_slice(&out[sent..]);
            Ok(sending)
        })
    }

    /// Sends pending bytes, and encodes more of the body when there is room. Ready when all was sent.
    pub fn poll<C: Connection>(
        &mut self,
        cx: &mut Context<'_>,
        connection: &mut C,
    ) -> Poll<Result<(), SendError>> {
        // The body stays complete for another attempt.
        if self.is_cut || !connection.is_open() {
            return Poll::Pending;
        }
        loop {
            if self.output.is_empty() {
                if !self.upload.is_ended() {
                    self.output = ready!(self.poll_output(cx, connection))?;
                }
                if self.output.is_empty() {
                    return connection.poll_flush(cx).map_err(SendError::ConnectionLost);
                }
            }
            match ready!(connection.poll_write(cx, &self.output)) {
                Ok(sent) => {
                    self.output.advance(sent);
                    self.sent += sent as u64;
                }
                Err(error) if self.sent > 0 || self.coding == BodyCoding::Frames => {
                    return Poll::Ready(Err(SendError::ConnectionLost(error)));
                }
                Err(error) => return Poll::Ready(Err(SendError::NothingSent(error))),
            }
        }
    }

    /// Returns what is sent next; nothing at the end.
    fn poll_output(
        &mut self,
        cx: &mut Context<'_>,
        connection: &mut impl Connection,
    ) -> Poll<Result<Bytes, SendError>> {
        if self.coding != BodyCoding::Frames {
            // A new buffer: that of a large body would waste memory for a small rest.
            let mut out = BytesMut::new();
            ready!(self.encode_upload(cx, &mut out)).map_err(SendError::Upload)?;
            return Poll::Ready(Ok(out.freeze()));
        }
        // The connection copies a piece into its frames.
        while !self.upload.is_ended() {
            match ready!(self.upload.poll_piece(cx)).transpose().map_err(SendError::Upload)? {
                Some(piece) if piece.is_empty() => {}
                Some(piece) => return Poll::Ready(Ok(piece)),
                None => {
                    connection.finish(self.upload.trailers()).map_err(SendError::ConnectionLost)?;
                    self.upload.end();
                }
            }
        }
        Poll::Ready(Ok(Bytes::new()))
    }

    /// Returns the number of bytes that the connection has accepted.
    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// Returns whether the whole request was sent.
    pub fn is_done(&self) -> bool {
        !self.is_cut && self.output.is_empty() && self.upload.is_ended()
    }

    /// Returns whether the upstream waits for a part of the body that the client has not sent. The client's connection limits that
    /// time.
    pub fn waits_for_client(&self) -> bool {
        self.output.is_empty() && self.upload.waits_for_client()
    }

    /// Returns whether the body can be sent again.
    pub fn can_repeat(&self) -> bool {
        self.upload.can_rewind()
    }

    /// Returns the body for another attempt, if it can be read again. Of this one, nothing more is sent.
    pub fn take_upload(&mut self) -> Option<Upload> {
        if !self.can_repeat() {
            return None;
        }
        // An upstream would take the next request on the connection for the rest of the body.
        self.is_cut = !self.is_done();
        let upload = std::mem::take(&mut self.upload);
        if !self.is_cut {
            self.upload.end();
        }
        upload.rewind()
    }

    /// Encodes available parts of the body. Ready when there is something to send, or all of it was encoded.
    fn encode_upload(&mut self, cx: &mut Context<'_>, out: &mut BytesMut) -> Poll<Result<(), UploadError>> {
        while !self.upload.is_ended() && out.len() < OUTPUT_BYTES {
            match self.upload.poll_piece(cx) {
                Poll::Pending if out.is_empty() => return Poll::Pending,
                Poll::Pending => break,
                Poll::Ready(Some(piece)) => self.coding.encode_piece(&piece?, out),
                Poll::Ready(None) => {
                    self.coding.encode_end(self.upload.trailers(), out);
                    self.upload.end();
                }
            }
        }
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use rudy_service::RequestBody;
    use tokio::io::AsyncReadExt as _;
    use tokio::net::TcpListener;

    use super::*;
    use crate::buffer::{Buffer, Buffers};
    use crate::plain::Plain;
    use crate::{Socket, SocketConnection as _};

    #[tokio::test]
    async fn after_its_body_was_taken_a_request_is_done_only_if_it_was_sent() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut connection = Plain::new(Socket::connect(listener.local_addr().unwrap()).await.unwrap());
        let body = |pieces: &'static [u8]| Upload::of_client(RequestBody::whole(Bytes::from_static(pieces)));
        let mut begin = |upload, coding| {
            let begun = Sending::begin(upload, &mut connection, |_, out| {
                out.extend_from_slice(b"head ");
                Ok::<_, &str>(coding)
            });
            begun.unwrap()
        };
        let mut sent = begin(Upload::default(), BodyCoding::Plain);
        assert!(sent.is_done() && sent.take_upload().is_some() && sent.is_done());
        let mut unsent = begin(body(b"body"), BodyCoding::Plain);
        assert!(!unsent.is_done() && unsent.take_upload().is_some_and(|upload| upload.length() == Some(4)));
        let mut passed_on = begin(body(b"body"), BodyCoding::Plain);
        let cx = &mut Context::from_waker(Waker::noop());
        let _ = unsent.poll(cx, &mut connection);
        assert!(!unsent.is_done(), "the rest is never sent");
        assert!(matches!(passed_on.poll(cx, &mut connection), Poll::Ready(Ok(()))));
        assert!(passed_on.take_upload().is_none() && passed_on.is_done());
    }

    #[tokio::test]
    async fn without_a_head_nothing_of_a_request_is_sent() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut connection = Plain::new(Socket::connect(listener.local_addr().unwrap()).await.unwrap());
        let (mut peer, _) = listener.accept().await.unwrap();
        let body = Bytes::from_static(b"GET /hidden");
        let mut buffer = Buffer::new(&Buffers::default(), Some(0));
        buffer.push(body.clone());
        for upload in
            [Upload::stored(buffer.finish()), Upload::of_client(RequestBody::whole(body)), Upload::default()]
        {
            let begun = Sending::begin(upload, &mut connection, |_, out| {
                out.extend_from_slice(b"half a head");
                Err("invalid")
            });
            assert_eq!(begun.err(), Some("invalid"));
        }
        // The next request on the connection is the first one that the upstream receives.
        let begun = Sending::begin(Upload::default(), &mut connection, |_, out| {
            out.extend_from_slice(b"head ");
            Ok::<_, &str>(BodyCoding::Chunked)
        });
        assert!(begun.is_ok_and(|sending| sending.is_done()));
        drop(connection);
        let mut received = String::new();
        peer.read_to_string(&mut received).await.unwrap();
        assert_eq!(received, "head 0\r\n\r\n");
    }
}

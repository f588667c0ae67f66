//! Sends a request to an upstream: its encoded head, then its body as it comes in.

use std::cell::RefCell;
use std::io;
use std::task::{Context, Poll, Waker, ready};

use bytes::{Buf, BytesMut};
use http::HeaderMap;

use super::upload::{Upload, UploadError};
use super::{Socket, SocketConnection};

/// How much of a body is encoded at once: two pieces as they come from a socket.
const OUTPUT_BYTES: usize = 64 * 1024;

thread_local! {
    /// The output buffer of the request that this thread works on.
    static OUTPUT: RefCell<BytesMut> = RefCell::new(BytesMut::with_capacity(4096));
}

/// How a protocol encodes a request body.
pub(crate) trait EncodeBody {
    /// Appends a piece to `out`.
    fn encode_piece(&self, piece: &[u8], out: &mut BytesMut);

    /// Appends the end of the body to `out`.
    fn encode_end(&self, trailers: Option<&HeaderMap>, out: &mut BytesMut);
}

/// A request that is being sent.
#[derive(Debug)]
pub(crate) struct Sending<E> {
    encoder: E,
    /// The rest of the body.
    upload: Upload,
    /// Encoded bytes that were not sent yet.
    output: BytesMut,
    /// The number of bytes that the socket has accepted.
    sent: u64,
}

/// Why a request cannot be sent.
#[derive(Debug)]
pub(crate) enum SendError {
    /// The connection was lost before any byte was sent.
    NothingSent(io::Error),
    /// The connection was lost.
    ConnectionLost(io::Error),
    /// The body cannot be read.
    Upload(UploadError),
}

impl<E: EncodeBody> Sending<E> {
    /// Starts a request: `encode_head` appends its head, and returns the encoder of its body. What the socket does not accept at once is
    /// sent by later polls, which also report errors.
    ///
    /// # Errors
    ///
    /// Those of `encode_head`. Nothing was sent: the upstream would read a body without a head as another request.
    pub(crate) fn begin<C: SocketConnection, Error>(
        upload: Upload,
        connection: &mut C,
        encode_head: impl FnOnce(&mut C, &mut BytesMut) -> Result<E, Error>,
    ) -> Result<Self, Error> {
        OUTPUT.with_borrow_mut(|out| {
            out.clear();
            let encoder = encode_head(connection, out)?;
            let mut sending = Self { encoder, upload, output: BytesMut::new(), sent: 0 };
            let cx = &mut Context::from_waker(Waker::noop());
            // A body in memory is sent together with the head.
            if sending.upload.is_in_memory() {
                let _ = sending.encode_upload(cx, out);
            }
            let sent = match connection.socket().poll_write(cx, out) {
                Poll::Ready(Ok(sent)) => sent,
                Poll::Ready(Err(_)) | Poll::Pending => 0,
            };
            sending.sent = sent as u64;
            sending.output.extend_from_slice(&out[sent..]);
            Ok(sending)
        })
    }

    /// Sends pending bytes, and encodes more of the body when there is room. Ready when all was sent.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>, socket: &mut Socket) -> Poll<Result<(), SendError>> {
        loop {
            if self.output.is_empty() {
                // A new buffer: that of a large body would waste memory for a small rest.
                let mut out = BytesMut::new();
                ready!(self.encode_upload(cx, &mut out)).map_err(SendError::Upload)?;
                if out.is_empty() {
                    return socket.poll_flush(cx).map_err(SendError::ConnectionLost);
                }
                self.output = out;
            }
            match ready!(socket.poll_write(cx, &self.output)) {
                Ok(sent) => {
                    self.output.advance(sent);
                    self.sent += sent as u64;
                }
                Err(error) if self.sent > 0 => return Poll::Ready(Err(SendError::ConnectionLost(error))),
                Err(error) => return Poll::Ready(Err(SendError::NothingSent(error))),
            }
        }
    }

    /// Returns the number of bytes that the socket has accepted.
    pub(crate) fn sent(&self) -> u64 {
        self.sent
    }

    /// Returns whether the whole request was sent.
    pub(crate) fn is_done(&self) -> bool {
        self.output.is_empty() && self.upload.is_ended()
    }

    /// Returns whether the upstream waits for a part of the body that the client has not sent. The client's connection limits that
    /// time.
    pub(crate) fn waits_for_client(&self) -> bool {
        self.output.is_empty() && self.upload.waits_for_client()
    }

    /// Returns the body for another attempt, if it can be read again.
    pub(crate) fn take_upload(&mut self) -> Option<Upload> {
        std::mem::take(&mut self.upload).rewind()
    }

    /// Encodes available parts of the body. Ready when there is something to send, or all of it was encoded.
    fn encode_upload(&mut self, cx: &mut Context<'_>, out: &mut BytesMut) -> Poll<Result<(), UploadError>> {
        while !self.upload.is_ended() && out.len() < OUTPUT_BYTES {
            match self.upload.poll_piece(cx) {
                Poll::Pending if out.is_empty() => return Poll::Pending,
                Poll::Pending => break,
                Poll::Ready(Some(piece)) => self.encoder.encode_piece(&piece?, out),
                Poll::Ready(None) => {
                    self.encoder.encode_end(self.upload.trailers(), out);
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
    use rudy_net::RequestBody;
    use tokio::io::AsyncReadExt as _;
    use tokio::net::TcpListener;

    use super::*;
    use crate::buffer::{Buffer, Buffers};
    use crate::upstream::plain::Plain;

    #[derive(Debug)]
    struct Encoder;

    impl EncodeBody for Encoder {
        fn encode_piece(&self, piece: &[u8], out: &mut BytesMut) {
            out.extend_from_slice(piece);
        }

        fn encode_end(&self, _trailers: Option<&HeaderMap>, out: &mut BytesMut) {
            out.extend_from_slice(b"end");
        }
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
                Err::<Encoder, _>("invalid")
            });
            assert_eq!(begun.err(), Some("invalid"));
        }
        // The next request on the connection is the first one that the upstream receives.
        let begun = Sending::begin(Upload::default(), &mut connection, |_, out| {
            out.extend_from_slice(b"head ");
            Ok::<_, &str>(Encoder)
        });
        assert!(begun.is_ok_and(|sending| sending.is_done()));
        drop(connection);
        let mut received = String::new();
        peer.read_to_string(&mut received).await.unwrap();
        assert_eq!(received, "head end");
    }
}

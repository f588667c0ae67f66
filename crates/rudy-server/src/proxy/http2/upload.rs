//! The body of a request on a stream.

use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};

use super::Http2Stream;
use crate::upstream::{SendError, Upload};

/// A body that is being sent.
#[derive(Debug)]
pub(in crate::proxy) struct Http2Upload {
    upload: Upload,
    /// The rest of the last piece.
    piece: Bytes,
    /// The number of bytes that the connection has accepted.
    sent: u64,
}

impl Http2Upload {
    pub(in crate::proxy) fn new(upload: Upload) -> Self {
        Self { upload, piece: Bytes::new(), sent: 0 }
    }

    /// Creates the upload of a tunnel, which sends its bytes itself.
    pub(in crate::proxy) fn of_tunnel() -> Self {
        let mut upload = Upload::default();
        upload.end();
        Self::new(upload)
    }

    /// Sends the body. Ready when all was sent.
    pub(in crate::proxy) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        stream: &mut Http2Stream,
    ) -> Poll<Result<(), SendError>> {
        // The body stays complete for another attempt.
        if !stream.is_open() {
            return Poll::Pending;
        }
        loop {
            while !self.piece.is_empty() {
                let sent = ready!(stream.poll_send(cx, &self.piece)).map_err(SendError::ConnectionLost)?;
                self.piece.advance(sent);
                self.sent += sent as u64;
            }
            if self.upload.is_ended() {
                return Poll::Ready(Ok(()));
            }
            if let Some(piece) = ready!(self.upload.poll_piece(cx)) {
                self.piece = piece.map_err(SendError::Upload)?;
            } else {
                stream.finish(self.upload.trailers()).map_err(SendError::ConnectionLost)?;
                self.upload.end();
            }
        }
    }

    pub(in crate::proxy) fn sent(&self) -> u64 {
        self.sent
    }

    pub(in crate::proxy) fn is_done(&self) -> bool {
        self.piece.is_empty() && self.upload.is_ended()
    }

    pub(in crate::proxy) fn waits_for_client(&self) -> bool {
        self.piece.is_empty() && self.upload.waits_for_client()
    }

    /// Returns the body for another attempt, if it can be read again.
    pub(in crate::proxy) fn take_upload(&mut self) -> Option<Upload> {
        std::mem::take(&mut self.upload).rewind()
    }
}

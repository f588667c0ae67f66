//! Stores a request body, or its start, before the upstream receives it.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http::HeaderMap;
use http_body::Body;
use rudy_service::RequestBodyError;

use super::{Buffer, BufferError, Buffers, MEMORY_BYTES_MAX, StoreError, StoredBody};

impl Buffers {
    /// Stores a whole body. Trailers are dropped, because CGI has none.
    ///
    /// # Errors
    ///
    /// The client does not send the whole body, or there is no space for it. A body whose `Content-Length`
    /// exceeds the free space is not read at all.
    pub async fn store<B>(&self, body: B) -> Result<StoredBody, StoreError>
    where
        B: Body<Data = Bytes, Error = RequestBodyError> + Unpin,
    {
        self.store_with_trailers(body).await.map(|(stored, _)| stored)
    }

    /// Stores a whole body as [`Self::store`] does, and returns its trailers too.
    ///
    /// # Errors
    ///
    /// As [`Self::store`].
    pub async fn store_with_trailers<B>(
        &self,
        mut body: B,
    ) -> Result<(StoredBody, Option<HeaderMap>), StoreError>
    where
        B: Body<Data = Bytes, Error = RequestBodyError> + Unpin,
    {
        if let Some(length) = body.size_hint().exact().filter(|length| *length > MEMORY_BYTES_MAX) {
            self.check_space_for(length).await?;
        }
        let (mut buffer, mut trailers) = (Buffer::new(self, None), None);
        while let Some(frame) = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
            match frame?.into_data() {
                Ok(piece) => {
                    buffer.push(piece);
                    poll_fn(|cx| buffer.poll_room(cx)).await?;
                }
                Err(frame) => trailers = frame.into_trailers().ok(),
            }
        }
        Ok((buffer.finish(), trailers))
    }

    /// Stores the start of a body in memory: up to its end or about [`MEMORY_BYTES_MAX`], or less if the memory for all bodies is used
    /// up. Returns the trailers if it has read them.
    ///
    /// # Errors
    ///
    /// The client does not send it.
    pub async fn store_start<B>(
        &self,
        body: &mut B,
    ) -> Result<(StoredBody, Option<HeaderMap>), RequestBodyError>
    where
        B: Body<Data = Bytes, Error = RequestBodyError> + Unpin,
    {
        let (mut buffer, mut trailers) = (Buffer::new(self, Some(0)), None);
        while let Some(frame) = poll_fn(|cx| Pin::new(&mut *body).poll_frame(cx)).await {
            match frame?.into_data() {
                Ok(piece) => buffer.push(piece),
                Err(frame) => trailers = frame.into_trailers().ok(),
            }
            // Only a write to a file would wake the task.
            if !matches!(buffer.poll_room(&mut Context::from_waker(Waker::noop())), Poll::Ready(Ok(()))) {
                break;
            }
        }
        Ok((buffer.finish(), trailers))
    }

    async fn check_space_for(&self, bytes: u64) -> Result<(), BufferError> {
        let buffers = self.clone();
        let checked = rudy_runtime::blocking(move || buffers.check_space(bytes)).await;
        checked.unwrap_or_else(|error| {
            Err(BufferError::Disk { dir: self.dir(), error: io::Error::other(error) })
        })
    }
}

//! Stores a whole request body before the app receives it.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;

use bytes::Bytes;
use http_body::Body;
use rudy_net::RequestBodyError;

use super::{Buffer, BufferError, Buffers, MEMORY_BYTES_MAX, StoreError, StoredBody};

impl Buffers {
    /// Stores a whole body. Trailers are dropped, because CGI has none.
    ///
    /// # Errors
    ///
    /// The client does not send the whole body, or there is no space for it. A body whose `Content-Length`
    /// exceeds the free space is not read at all.
    pub async fn store<B>(&self, mut body: B) -> Result<StoredBody, StoreError>
    where
        B: Body<Data = Bytes, Error = RequestBodyError> + Unpin,
    {
        if let Some(length) = body.size_hint().exact().filter(|length| *length > MEMORY_BYTES_MAX) {
            self.check_space_for(length).await?;
        }
        let mut buffer = Buffer::new(self, None);
        while let Some(frame) = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
            let Ok(piece) = frame?.into_data() else { continue };
            buffer.push(piece);
            poll_fn(|cx| buffer.poll_room(cx)).await?;
        }
        Ok(buffer.finish())
    }

    async fn check_space_for(&self, bytes: u64) -> Result<(), BufferError> {
        let buffers = self.clone();
        let checked = tokio::task::spawn_blocking(move || buffers.check_space(bytes)).await;
        checked.unwrap_or_else(|error| {
            Err(BufferError::Disk { dir: self.dir(), error: io::Error::other(error) })
        })
    }
}

//! A request's body, all of it before the application is asked.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;

use bytes::Bytes;
use http_body::Body;
use rudy_net::RequestBodyError;

use super::{Buffer, BufferError, Buffers, GatherError, MESSAGE_BYTES, Stored};

impl Buffers {
    /// Stores all of a body. Trailers are passed over: CGI has no place for them.
    ///
    /// # Errors
    ///
    /// The client does not send all of it, or there is no room for it. A body whose `Content-Length` is larger than the room
    /// for files is not read at all.
    pub async fn gather<B>(&self, mut body: B) -> Result<Stored, GatherError>
    where
        B: Body<Data = Bytes, Error = RequestBodyError> + Unpin,
    {
        if let Some(length) = body.size_hint().exact().filter(|length| *length > MESSAGE_BYTES) {
            self.check_room_for(length).await?;
        }
        let mut buffer = Buffer::new(self, None);
        while let Some(frame) = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
            let Ok(piece) = frame?.into_data() else { continue };
            buffer.push(piece);
            poll_fn(|cx| buffer.poll_room(cx)).await?;
        }
        Ok(buffer.finish())
    }

    async fn check_room_for(&self, bytes: u64) -> Result<(), BufferError> {
        let buffers = self.clone();
        let checked = tokio::task::spawn_blocking(move || buffers.check_room(bytes)).await;
        checked.unwrap_or_else(|error| {
            Err(BufferError::Disk { dir: self.dir(), error: io::Error::other(error) })
        })
    }
}

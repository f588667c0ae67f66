//! The request body for an upstream.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, Method, header};
use http_body::Body as _;
use rudy_message::LazyHead;
use rudy_service::{RequestBody, RequestBodyError};

use crate::buffer::{MEMORY_BYTES_MAX, StoredBody};

/// A request body that is read piece by piece: first what was stored of it, then the rest from the client.
#[derive(Debug, Default)]
pub struct Upload {
    stored: Option<Box<StoredBody>>,
    /// `None` if it is empty. In boxes, because a request that waits for a connection stores this, and most have no body.
    client: Option<Box<ClientBody>>,
    /// The trailers, which only a body from the client has.
    trailers: Option<Box<HeaderMap>>,
    /// Whether the end of the body was sent to the upstream.
    is_ended: bool,
}

/// The part of a body that comes from the client.
#[derive(Debug)]
struct ClientBody {
    body: RequestBody,
    /// Whether any of it was read.
    has_read: bool,
    /// What was read, to send it again. `None` if the body cannot be sent again once any of it was read.
    copy: Option<Vec<u8>>,
    /// Whether the copy is read next.
    is_rewound: bool,
}

/// Why a request body cannot be read.
#[derive(Debug)]
pub enum UploadError {
    /// The client did not send it.
    Client(RequestBodyError),
    /// The stored body cannot be read.
    Disk(io::Error),
}

impl Upload {
    /// Creates an upload of a body that is passed on as it comes in.
    pub fn of_client(client: RequestBody) -> Self {
        let client = (!client.is_end_stream()).then(|| Box::new(ClientBody::new(client)));
        Self { client, ..Self::default() }
    }

    /// As [`Self::of_client`]. The body can be sent again as long as at most [`MEMORY_BYTES_MAX`] were passed on, which are copied.
    pub fn repeatable(client: RequestBody) -> Self {
        let mut upload = Self::of_client(client);
        if let Some(client) = &mut upload.client {
            client.copy = Some(Vec::new());
        }
        upload
    }

    /// Creates an upload of a stored body.
    #[must_use]
    pub fn stored(stored: StoredBody) -> Self {
        Self { stored: Some(Box::new(stored)), ..Self::default() }
    }

    /// Creates an upload of a body whose start was stored, maybe all of it with its trailers.
    pub fn begun(start: StoredBody, trailers: Option<HeaderMap>, rest: RequestBody) -> Self {
        Self { stored: Some(Box::new(start)), trailers: trailers.map(Box::new), ..Self::of_client(rest) }
    }

    /// Returns the length in bytes, if known.
    #[must_use]
    pub fn length(&self) -> Option<u64> {
        let stored = self.stored.as_ref().map_or(0, |stored| stored.length());
        let rest = self.client.as_ref().map_or(Some(0), |client| client.length())?;
        Some(stored + rest)
    }

    /// Returns the next piece; `None` at the end.
    pub fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, UploadError>>> {
        if let Some(stored) = &mut self.stored
            && let Some(piece) = ready!(stored.poll_piece(cx))
        {
            return Poll::Ready(Some(piece.map_err(UploadError::Disk)));
        }
        let Some(client) = &mut self.client else { return Poll::Ready(None) };
        if let Some(piece) = client.next_again() {
            return Poll::Ready(Some(Ok(piece)));
        }
        loop {
            let frame = ready!(Pin::new(&mut client.body).poll_frame(cx));
            client.has_read |= frame.is_some();
            return Poll::Ready(match frame {
                None => None,
                Some(Err(error)) => {
                    client.copy = None;
                    Some(Err(UploadError::Client(error)))
                }
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => {
                        client.add_to_copy(&data);
                        Some(Ok(data))
                    }
                    Err(frame) => {
                        self.trailers = frame.into_trailers().ok().map(Box::new);
                        continue;
                    }
                },
            });
        }
    }

    /// Returns the trailers, after the last piece.
    #[must_use]
    pub fn trailers(&self) -> Option<&HeaderMap> {
        self.trailers.as_deref()
    }

    /// Returns whether the whole body is in memory.
    #[must_use]
    pub fn is_in_memory(&self) -> bool {
        self.client.is_none() && self.stored.as_ref().is_none_or(|stored| stored.length() <= MEMORY_BYTES_MAX)
    }

    /// Marks the body as sent completely.
    pub fn end(&mut self) {
        self.is_ended = true;
    }

    /// Returns whether nothing more is sent to the upstream.
    #[must_use]
    pub fn is_ended(&self) -> bool {
        self.is_ended
    }

    /// Returns whether the next piece depends on the client.
    #[must_use]
    pub fn waits_for_client(&self) -> bool {
        !self.is_ended && self.client.is_some()
    }

    /// Returns whether the body can be read again from its start: not if a part from the client was passed on without a copy.
    #[must_use]
    pub fn can_rewind(&self) -> bool {
        self.client.as_ref().is_none_or(|client| !client.has_read || client.copy.is_some())
    }

    /// Returns the same body from its start for another attempt, if it can be read again.
    #[must_use]
    pub fn rewind(mut self) -> Option<Self> {
        if !self.can_rewind() {
            return None;
        }
        if let Some(client) = &mut self.client {
            client.is_rewound = client.copy.is_some();
        }
        if let Some(stored) = &mut self.stored {
            stored.rewind();
        }
        self.is_ended = false;
        Some(self)
    }
}

impl ClientBody {
    fn new(body: RequestBody) -> Self {
        Self { body, has_read: false, copy: None, is_rewound: false }
    }

    /// Returns the length of what was copied and what was not read yet, if known.
    fn length(&self) -> Option<u64> {
        let copied = self.copy.as_ref().map_or(0, Vec::len);
        Some(copied as u64 + self.body.size_hint().exact()?)
    }

    /// Returns the copy after a rewind.
    fn next_again(&mut self) -> Option<Bytes> {
        let is_rewound = std::mem::take(&mut self.is_rewound);
        let copy = self.copy.as_ref().filter(|copy| is_rewound && !copy.is_empty())?;
        Some(Bytes::copy_from_slice(copy))
    }

    fn add_to_copy(&mut self, piece: &[u8]) {
        if let Some(copy) = &mut self.copy {
            copy.extend_from_slice(piece);
            if copy.len() as u64 > MEMORY_BYTES_MAX {
                self.copy = None;
            }
        }
    }
}

/// The field of a client that wants its message to be passed on as it arrives (RFC 10036).
static INCREMENTAL: HeaderName = HeaderName::from_static("incremental");

/// The media type of gRPC, to which a suffix such as `+proto` is added.
const GRPC: &[u8] = b"application/grpc";

/// Returns whether a client wants the body of its request to be passed on as it arrives: a Boolean (RFC 9651 §3.3.6), maybe with
/// parameters. Several lines are no Boolean.
pub fn is_incremental(head: &LazyHead<'_>) -> bool {
    let mut lines = head.get_all(&INCREMENTAL);
    let (Some(line), None) = (lines.next(), lines.next()) else { return false };
    let rest = line.trim_ascii().strip_prefix(b"?1");
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(b";"))
}

/// Returns whether the body of a request may be endless, and wait for the response.
pub fn may_be_endless(head: &LazyHead<'_>) -> bool {
    // RFC 9110 §8.3.1: types are compared without regard to case.
    let is_grpc = |media_type: &[u8]| {
        media_type.get(..GRPC.len()).is_some_and(|start| start.eq_ignore_ascii_case(GRPC))
    };
    *head.method() == Method::CONNECT
        || head.contains(&header::UPGRADE)
        || head.get(&header::CONTENT_TYPE).is_some_and(is_grpc)
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use http::HeaderValue;

    use super::*;

    /// Reads all that is available, as text.
    fn read(upload: &mut Upload) -> String {
        let cx = &mut Context::from_waker(Waker::noop());
        let mut bytes = Vec::new();
        while let Poll::Ready(Some(piece)) = upload.poll_piece(cx) {
            bytes.extend_from_slice(&piece.unwrap());
        }
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn a_body_is_passed_on_at_once_if_its_client_or_its_type_requires_it() {
        for (lines, expected) in [
            (&["?1"][..], true),
            (&[" ?1 "], true),
            (&["?1;a=2"], true),
            (&["?0"], false),
            (&["1"], false),
            (&["?10"], false),
            (&["?1, ?1"], false),
            (&["?1", "?1"], false),
            (&[], false),
        ] {
            let fields = lines.iter().map(|line| (INCREMENTAL.clone(), HeaderValue::from_static(line)));
            assert_eq!(is_incremental(&fields.collect::<HeaderMap>().into()), expected, "{lines:?}");
        }
        for (name, value, expected) in [
            (header::CONTENT_TYPE, "application/grpc", true),
            (header::CONTENT_TYPE, "Application/gRPC+proto", true),
            (header::CONTENT_TYPE, "application/json", false),
            (header::UPGRADE, "websocket", true),
        ] {
            let fields = HeaderMap::from_iter([(name, HeaderValue::from_static(value))]);
            assert_eq!(may_be_endless(&fields.into()), expected, "{value}");
        }
    }

    #[test]
    fn a_body_of_a_client_is_sent_again_if_it_was_copied() {
        let body = || RequestBody::whole(Bytes::from_static(b"body"));
        let mut upload = Upload::repeatable(body());
        for _ in 0..3 {
            assert_eq!(upload.length(), Some(4));
            assert_eq!(read(&mut upload), "body");
            upload.end();
            upload = upload.rewind().unwrap();
        }
        let mut upload = Upload::of_client(body()).rewind().unwrap();
        assert_eq!(read(&mut upload), "body");
        assert!(upload.rewind().is_none());
        let large = vec![b'x'; usize::try_from(MEMORY_BYTES_MAX).unwrap() + 1];
        let mut upload = Upload::repeatable(RequestBody::whole(large.into()));
        read(&mut upload);
        assert!(upload.rewind().is_none());
    }
}

//! A request of the client, and the response so far.

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Version, header};
use rudy_message::BodyLength;
use rudy_message::client::RequestHead;

use super::service::{Log, trailers};
use super::task::{Kind, Task};

/// How a response has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Complete,
    /// The stream was reset, or the connection has ended.
    Aborted,
    /// The server has not processed the request, and says so.
    Refused,
}

/// A request and its response.
#[derive(Debug)]
pub(super) struct Exchange {
    pub(super) task: Task,
    pub(super) method: Method,
    pub(super) length: BodyLength,
    /// The size of the body.
    pub(super) upload_bytes: usize,
    pub(super) has_trailers: bool,
    pub(super) urgency: u8,
    /// How much of the body is sent, and whether its end is.
    pub(super) sent: usize,
    pub(super) has_ended: bool,
    pub(super) is_cancelled: bool,
    interim: usize,
    status: Option<u16>,
    received: usize,
    trailers: Option<HeaderMap>,
    pub(super) end: Option<End>,
}

impl Exchange {
    /// Creates a request with a body of this size; without a body if there is none.
    pub(super) fn new(task: Task, upload: Option<usize>, options: u8) -> Self {
        let is_chunked = upload.is_some() && options & 1 != 0;
        let upload_bytes = upload.unwrap_or(0);
        let length = if is_chunked { BodyLength::Chunked } else { BodyLength::Known(upload_bytes as u64) };
        let method = match upload {
            Some(_) => Method::POST,
            None if options & 2 != 0 => Method::HEAD,
            None => Method::GET,
        };
        Self {
            task,
            method,
            length,
            upload_bytes,
            has_trailers: is_chunked && options & 2 != 0,
            urgency: options >> 2 & 7,
            sent: 0,
            has_ended: length == BodyLength::Known(0),
            is_cancelled: false,
            interim: 0,
            status: None,
            received: 0,
            trailers: None,
            end: None,
        }
    }

    /// Calls `encode` with the head.
    pub(super) fn with_head<R>(&self, encode: impl FnOnce(&RequestHead<'_>) -> R) -> R {
        let mut fields = HeaderMap::new();
        fields.insert(header::HOST, HeaderValue::from_static("a"));
        let priority = format!("u={}{}", self.urgency, if self.urgency % 2 == 1 { ", i" } else { "" });
        fields.insert("priority", HeaderValue::try_from(priority).expect("a value"));
        let (target, version) = (self.task.path(), Version::HTTP_11);
        let Self { method, length: body, .. } = self;
        encode(&RequestHead { method, target: &target, version, fields: (&fields).into(), body: *body })
    }

    /// Whether more of the body must be sent.
    pub(super) fn uploads(&self) -> bool {
        !self.has_ended && !self.is_cancelled
    }

    /// Returns the next piece of the body, of at most `bytes`.
    pub(super) fn next_piece(&mut self, bytes: usize) -> Bytes {
        let start = self.sent;
        self.sent = self.upload_bytes.min(start.saturating_add(bytes));
        self.task.upload(start..self.sent)
    }

    pub(super) fn trailers(&self) -> Option<HeaderMap> {
        self.has_trailers.then(trailers)
    }

    pub(super) fn receive_interim(&mut self, status: u16) {
        assert!(self.status.is_none(), "{self:?}: an interim response after the response");
        assert!(self.task.kind == Kind::Interim && status == 103, "{self:?}: {status}");
        self.interim += 1;
        assert!(self.interim <= 2, "{self:?}");
    }

    pub(super) fn receive_head(&mut self, status: u16) {
        assert!(self.status.is_none(), "{self:?}: a second response");
        assert_eq!(status, 200, "{self:?}");
        assert_ne!(self.task.kind, Kind::Silence, "{self:?}");
        self.status = Some(status);
    }

    pub(super) fn receive(&mut self, data: &[u8]) {
        let end = self.received + data.len();
        assert!(end <= self.body_bytes(), "{self:?}: more than the body");
        let expected = match self.task.kind {
            Kind::Echo => self.task.upload(self.received..end),
            _ => self.task.body(self.received..end),
        };
        assert!(data == expected, "{self:?}: wrong bytes in {} from {}", data.len(), self.received);
        self.received = end;
    }

    /// The size of the body of a complete response.
    fn body_bytes(&self) -> usize {
        match self.task.kind {
            _ if self.method == Method::HEAD => 0,
            Kind::Echo => self.upload_bytes,
            _ => self.task.bytes,
        }
    }

    pub(super) fn receive_end(&mut self, trailers: Option<HeaderMap>) {
        assert!(self.end.is_none() && self.status.is_some(), "{self:?}");
        (self.end, self.trailers) = (Some(End::Complete), trailers);
    }

    /// The response ends without its end. Nothing changes after a complete one.
    pub(super) fn abort(&mut self, end: End) {
        self.end.get_or_insert(end);
    }

    /// Whether the response has begun.
    pub(super) fn has_begun(&self) -> bool {
        self.status.is_some()
    }

    /// Checks a response that has had all the time that it needs, unless the client has cancelled it. `may_be_refused` is whether the connection may have ended before it.
    pub(super) fn check(&self, may_be_refused: bool, log: &Log) {
        if self.is_cancelled {
            return;
        }
        match (self.end, self.task.kind) {
            (Some(End::Complete), kind) => {
                assert!(kind != Kind::Failing || self.method == Method::HEAD, "{self:?}: the body fails");
                assert_eq!(self.received, self.body_bytes(), "{self:?}");
                assert_eq!(self.trailers, self.expected_trailers(), "{self:?}");
            }
            (Some(End::Aborted), Kind::Silence) => assert_eq!(self.status, None, "{self:?}"),
            (Some(End::Aborted), Kind::Failing) => {
                assert_eq!((self.status, self.received), (Some(200), self.task.bytes), "{self:?}");
            }
            (Some(End::Refused), _) if may_be_refused => {}
            _ => panic!("{self:?}"),
        }
        log.read(self.task.number, |seen| {
            let is_unseen = match self.end {
                Some(End::Refused) => true,
                Some(End::Aborted) if self.task.kind == Kind::Silence => seen.calls == 0 && may_be_refused,
                _ => false,
            };
            assert_eq!(seen.calls, usize::from(!is_unseen), "{self:?}: calls of the service");
            if self.task.kind.reads() && !is_unseen && self.method != Method::HEAD {
                assert_eq!(
                    (seen.body.len(), &seen.end),
                    (self.upload_bytes, &Some(Ok(self.trailers()))),
                    "{self:?}"
                );
            }
        });
    }

    fn expected_trailers(&self) -> Option<HeaderMap> {
        match self.task.kind {
            Kind::Stream if self.method != Method::HEAD => Some(trailers()),
            Kind::Echo => self.trailers(),
            _ => None,
        }
    }

    /// Checks what the service has read of the body, whatever became of the request.
    pub(super) fn check_upload(&self, log: &Log) {
        log.read(self.task.number, |seen| {
            assert!(seen.calls <= 1 && seen.body.len() <= self.sent, "{self:?}: {} bytes", seen.body.len());
            assert!(seen.body == self.task.upload(0..seen.body.len()), "{self:?}: wrong bytes in the body");
            assert!(
                !matches!(seen.end, Some(Ok(_))) || self.has_ended && seen.body.len() == self.upload_bytes
            );
        });
    }
}

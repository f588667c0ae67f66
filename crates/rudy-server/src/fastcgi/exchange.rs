//! One request to an app and its answer: the body goes up while it comes in, the answer is passed on as it comes.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use rudy_fastcgi::gateway::Event;
use rudy_fastcgi::record::{Kind, encode_stream, encode_stream_end};
use rudy_fastcgi::{Fault, Limits, ProtocolStatus, RequestId, Role};
use tokio::time::Sleep;

use super::failure::Failure;
use super::params::Params;
use super::pool::Lease;
use super::spill::Upload;
use super::stderr::Stderr;

/// What is taken from the client and not sent to the app yet: two pieces as they come from a socket.
const UPLOAD_BYTES: usize = 64 * 1024;

/// What is read of a body that nobody wants, so that the connection can go on: less than a new one costs.
const SKIPPED_BYTES_MAX: usize = 256 * 1024;

/// A request under way. Dropped before its end, the app is told to give it up.
pub(super) struct Exchange {
    /// `None` once the answer is complete and the connection given back.
    lease: Option<Lease>,
    id: RequestId,
    /// What is still to come of the request's body.
    upload: Option<Upload>,
    limits: Limits,
    answer_time: Duration,
    /// When the app is too slow. The timer is made when something is waited for first.
    timer: Option<Pin<Box<Sleep>>>,
    stderr: Stderr,
}

impl Exchange {
    /// Begins a request on a connection.
    pub(super) fn begin(
        mut lease: Lease,
        role: Role,
        params: &Params<'_>,
        upload: Upload,
        limits: Limits,
        answer_time: Duration,
        stderr: Stderr,
    ) -> Result<Self, Failure> {
        let id = lease.link().begin(role, &limits).ok_or(Failure::Fault(Fault::Closed { open: 1 }))?;
        let output = lease.link().output();
        params.encode(id, output);
        let has_body = !upload.is_empty();
        if !has_body {
            encode_stream_end(Kind::Stdin, id, output);
        }
        let upload = has_body.then_some(upload);
        Ok(Self { lease: Some(lease), id, upload, limits, answer_time, timer: None, stderr })
    }

    /// The next piece of the answer, its head included; `None` at its end.
    pub(super) fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Failure>>> {
        if self.lease.is_none() {
            return Poll::Ready(None);
        }
        let piece = self.poll_answer(cx);
        match piece {
            Poll::Ready(_) => self.timer = None,
            // For its body; how long that may take is the connection's to say.
            Poll::Pending if self.waits_for_client() => self.timer = None,
            Poll::Pending => {
                let timer = self.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep(self.answer_time)));
                if timer.as_mut().poll(cx).is_ready() {
                    self.fail();
                    return Poll::Ready(Some(Err(Failure::Slow(self.answer_time))));
                }
            }
        }
        piece
    }

    /// Whether all of the answer has come.
    pub(super) fn is_over(&self) -> bool {
        self.lease.is_none()
    }

    /// Passes over the rest of the answer, if it is short; else the app is told to give it up.
    pub(super) async fn skip(&mut self) -> Result<(), Failure> {
        let mut skipped = 0;
        while let Some(piece) = std::future::poll_fn(|cx| self.poll_piece(cx)).await {
            skipped += piece?.len();
            if skipped > SKIPPED_BYTES_MAX {
                self.fail();
            }
        }
        Ok(())
    }

    fn waits_for_client(&mut self) -> bool {
        let is_sent = self.lease.as_mut().is_some_and(|lease| lease.link().output().is_empty());
        self.upload.is_some() && is_sent
    }

    fn poll_answer(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Failure>>> {
        // An app may answer, and even end, before it has read everything: whether it takes more does not hold up its answer.
        let sent = self.poll_upload(cx);
        if let Poll::Ready(Err(failure @ (Failure::Client(_) | Failure::Spill(_)))) = sent {
            self.fail();
            return Poll::Ready(Some(Err(failure)));
        }
        match ready!(self.poll_read(cx)) {
            Ok(Some(piece)) => Poll::Ready(Some(Ok(piece))),
            Ok(None) => Poll::Ready(None),
            Err(failure) => {
                self.fail();
                Poll::Ready(Some(Err(failure)))
            }
        }
    }

    /// Sends what there is of the request, and takes more of its body as there is room.
    fn poll_upload(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        let Some(lease) = &mut self.lease else { return Poll::Ready(Ok(())) };
        let link = lease.link();
        loop {
            while link.output().len() < UPLOAD_BYTES
                && let Some(body) = &mut self.upload
            {
                match body.poll_piece(cx) {
                    Poll::Pending => break,
                    Poll::Ready(None) => {
                        self.upload = None;
                        encode_stream_end(Kind::Stdin, self.id, link.output());
                    }
                    Poll::Ready(Some(piece)) => encode_stream(Kind::Stdin, self.id, &piece?, link.output()),
                }
            }
            if link.output().is_empty() {
                return Poll::Ready(Ok(()));
            }
            ready!(link.poll_flush(cx)).map_err(Failure::Lost)?;
            if self.upload.is_none() {
                return Poll::Ready(Ok(()));
            }
        }
    }

    /// What the app sends next of its answer.
    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, Failure>> {
        while let Some(lease) = &mut self.lease {
            let mut came = BytesMut::new();
            let mut end = None;
            let stderr = &mut self.stderr;
            let is_open = ready!(lease.link().poll_events(cx, &self.limits, |event| match event {
                Event::Stdout { data, .. } => came.extend_from_slice(data),
                Event::Stderr { data, .. } => stderr.take(data),
                Event::End { protocol_status, .. } => end = Some(protocol_status),
                _ => {}
            }))?;
            lease.prove();
            match end {
                Some(ProtocolStatus::RequestComplete) => self.finish(),
                Some(refused) => return Poll::Ready(Err(Failure::Refused(refused))),
                None if !is_open => return Poll::Ready(Err(Failure::Fault(Fault::Closed { open: 1 }))),
                None => {}
            }
            if !came.is_empty() {
                return Poll::Ready(Ok(Some(came.freeze())));
            }
        }
        Poll::Ready(Ok(None))
    }

    /// The answer is complete. The connection serves others, unless the app may still wait for what it did not read.
    fn finish(&mut self) {
        self.stderr.finish();
        if let Some(lease) = self.lease.take()
            && self.upload.is_none()
        {
            lease.give_back();
        }
    }

    /// Nothing more comes of it.
    fn fail(&mut self) {
        self.stderr.finish();
        if let Some(mut lease) = self.lease.take() {
            lease.link().give_up(self.id);
        }
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        self.fail();
    }
}

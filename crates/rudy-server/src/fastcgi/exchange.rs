//! One request to an app and its answer: the body goes up while it comes in, the answer is passed on as it comes.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use bytes::Bytes;
use rudy_fastcgi::record::{Kind, encode_stream, encode_stream_end};
use rudy_fastcgi::{Fault, Limits, ProtocolStatus, Role};
use tokio::time::Sleep;

use super::failure::Failure;
use super::link::Ticket;
use super::params::Params;
use super::pool::Lease;
use super::spill::Upload;
use super::stderr::Stderr;

/// What is read of a body that nobody wants, so that the connection can go on: less than a new one costs.
const SKIPPED_BYTES_MAX: usize = 256 * 1024;

/// How long an app may take to say it. Most have said it already, and one that streams has no end.
const SKIPPED_TIME: Duration = Duration::from_secs(2);

/// A request under way. Dropped before its end, the app is told to give it up.
pub(super) struct Exchange {
    /// `None` once the answer is complete and the connection given back.
    lease: Option<Lease>,
    ticket: Ticket,
    /// What is still to come of the request's body.
    upload: Option<Upload>,
    /// Everything that there was of the request has been sent.
    is_sent: bool,
    /// All of the answer has come, and only the end of the request is missing.
    is_said: bool,
    /// With which the app has ended the request, so that nothing is missing.
    app_status: Option<u32>,
    limits: Limits,
    answer_time: Duration,
    /// When the app is too slow. The timer is made when something is waited for first.
    timer: Option<Pin<Box<Sleep>>>,
    stderr: Stderr,
}

impl Exchange {
    /// Begins a request on a connection.
    pub(super) fn begin(
        lease: Lease,
        role: Role,
        params: &Params<'_>,
        upload: Upload,
        limits: Limits,
        answer_time: Duration,
        stderr: Stderr,
    ) -> Result<Self, Failure> {
        let has_body = !upload.is_empty();
        let ticket = lease.link().begin(role, &limits, |id, output| {
            params.encode(id, output);
            // An authorizer is sent no body, and not even the end of one (FastCGI 1.0 §6.3).
            if !has_body && role != Role::Authorizer {
                encode_stream_end(Kind::Stdin, id, output);
            }
        });
        let ticket = ticket.ok_or(Failure::Fault(Fault::Closed { open: limits.open_requests.into() }))?;
        let upload = has_body.then_some(upload);
        Ok(Self {
            lease: Some(lease),
            ticket,
            upload,
            is_sent: false,
            is_said: false,
            app_status: None,
            limits,
            answer_time,
            timer: None,
            stderr,
        })
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
                    return Poll::Ready(self.fail_with(Failure::Slow(self.answer_time)));
                }
            }
        }
        piece
    }

    /// Whether all of the answer has come.
    pub(super) fn is_over(&self) -> bool {
        self.lease.is_none()
    }

    /// The application status with which the app itself has ended the request. It may not have, and its answer be whole
    /// nevertheless.
    pub(super) fn app_status(&self) -> Option<u32> {
        self.app_status
    }

    /// Passes over the rest of the answer, if it is short and comes soon; else the app is told to give it up. Nobody waits for
    /// that.
    pub(super) fn skip(mut self) {
        let mut skipped = 0;
        // Most often all of it has come.
        if self.poll_skip(&mut Context::from_waker(Waker::noop()), &mut skipped).is_pending() {
            let rest = async move { poll_fn(|cx| self.poll_skip(cx, &mut skipped)).await };
            tokio::spawn(tokio::time::timeout(SKIPPED_TIME, rest));
        }
    }

    fn poll_skip(&mut self, cx: &mut Context<'_>, skipped: &mut usize) -> Poll<()> {
        while let Some(piece) = ready!(self.poll_piece(cx)) {
            match piece {
                Ok(piece) => *skipped += piece.len(),
                Err(failure) => self.stderr.note(&failure),
            }
            if *skipped > SKIPPED_BYTES_MAX {
                self.fail();
            }
        }
        Poll::Ready(())
    }

    fn waits_for_client(&self) -> bool {
        self.upload.is_some() && self.is_sent
    }

    fn poll_answer(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Failure>>> {
        // An app may answer, and even end, before it has read everything: whether it takes more does not hold up its answer.
        let sent = self.poll_upload(cx);
        if let Poll::Ready(Err(failure @ (Failure::Client(_) | Failure::Spill(_) | Failure::Unsent(_)))) =
            sent
        {
            self.fail();
            return Poll::Ready(Some(Err(failure)));
        }
        match ready!(self.poll_read(cx)) {
            Ok(Some(piece)) => Poll::Ready(Some(Ok(piece))),
            Ok(None) => Poll::Ready(None),
            Err(failure) => Poll::Ready(self.fail_with(failure)),
        }
    }

    /// Sends what there is of the request, and takes more of its body as there is room.
    fn poll_upload(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        let Some(lease) = &self.lease else { return Poll::Ready(Ok(())) };
        let (ticket, upload, timer) = (self.ticket, &mut self.upload, &mut self.timer);
        let sent = lease.link().poll_send(cx, ticket, |cx, output| {
            let Some(body) = upload else { return Ok(false) };
            match body.poll_piece(cx) {
                Poll::Pending => return Ok(false),
                Poll::Ready(Some(piece)) => encode_stream(Kind::Stdin, ticket.id, &piece?, output),
                Poll::Ready(None) => {
                    *upload = None;
                    encode_stream_end(Kind::Stdin, ticket.id, output);
                }
            }
            // The app has taken what came before, so it is at work.
            *timer = None;
            Ok(true)
        });
        self.is_sent = sent.is_ready();
        sent
    }

    /// What the app sends next of its answer.
    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, Failure>> {
        while let Some(lease) = &mut self.lease {
            let mut news = ready!(lease.link().poll_news(cx, self.ticket, &self.limits))?;
            lease.prove();
            self.stderr.take(&news.stderr);
            self.is_said |= news.is_said;
            match news.end {
                Some((app_status, ProtocolStatus::RequestComplete)) => self.finish(app_status),
                Some((_, refused)) => return Poll::Ready(Err(Failure::Refused(refused))),
                None => {}
            }
            if let Some(piece) = news.piece() {
                return Poll::Ready(Ok(Some(piece)));
            }
        }
        Poll::Ready(Ok(None))
    }

    /// The answer is complete. The connection serves others, unless the app may still wait for what it did not read.
    fn finish(&mut self, app_status: u32) {
        self.app_status = Some(app_status);
        let is_whole = self.upload.is_none();
        self.leave(is_whole, !is_whole);
    }

    /// What becomes of the answer: one that has come as a whole stays so, whatever its app does behind it.
    fn fail_with(&mut self, failure: Failure) -> Option<Result<Bytes, Failure>> {
        if self.is_said && failure.is_of_app() {
            self.stderr.note(&failure);
            self.fail();
            return None;
        }
        self.fail();
        Some(Err(failure))
    }

    /// Nothing more comes of it.
    fn fail(&mut self) {
        self.leave(false, false);
    }

    fn leave(&mut self, is_whole: bool, is_spoilt: bool) {
        self.stderr.finish();
        if let Some(lease) = self.lease.take() {
            let is_in_order = lease.link().leave(self.ticket);
            lease.end(is_in_order && is_whole, is_spoilt);
        }
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        self.fail();
    }
}

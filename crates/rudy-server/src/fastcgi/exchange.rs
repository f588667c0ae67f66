//! One request to an app and its response: the body is sent while it comes in, the response is read as it comes.

use std::cell::RefCell;
use std::future::poll_fn;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use rudy_fastcgi::cgi::{Head, HeadDecoder};
use rudy_fastcgi::gateway::Event;
use rudy_fastcgi::record::{Kind, encode_stream, encode_stream_end};
use rudy_fastcgi::{Limits, ProtocolStatus, RequestId, Role};
use rudy_net::{Deadline, poll_time};

use super::connection::Connection;
use super::failure::Failure;
use super::params::Params;
use super::request_info::RequestInfo;
use super::stderr::Stderr;
use super::upload::Upload;
use crate::upstream::Checkout;

/// What is encoded of a body before it is sent: two pieces as they come from a socket.
const OUTPUT_BYTES: usize = 64 * 1024;

/// What is read of a body that is not passed on, so that the connection can be kept: less than a new one costs.
const SKIPPED_BYTES_MAX: usize = 256 * 1024;

/// How long an app may take to send it. Most have sent it already, and one that streams has no end.
const SKIPPED_TIME: Duration = Duration::from_secs(2);

thread_local! {
    /// What is sent next, of whichever request this thread is at.
    static OUTPUT: RefCell<BytesMut> = RefCell::new(BytesMut::with_capacity(4096));
}

/// A request in progress. Dropped before its end, its connection is closed, which cancels it: php-fpm ignores
/// `FCGI_ABORT_REQUEST`.
pub(super) struct Exchange {
    /// `None` once the response is complete and the connection released.
    checkout: Option<Checkout<Connection>>,
    id: RequestId,
    limits: &'static Limits,
    /// What is still to come of the request's body.
    upload: Upload,
    /// What is encoded and not sent yet.
    output: BytesMut,
    /// The app has received a part of the request.
    is_begun: bool,
    /// Until the head of the response is whole.
    head: Option<HeadDecoder>,
    received: Received,
    /// With which the app has ended the request.
    app_status: Option<u32>,
    timeout: Duration,
    /// When the app is too slow; set when something is waited for.
    deadline: Option<Deadline>,
    stderr: Stderr,
}

/// What has come of a response and was not handed out.
#[derive(Default)]
struct Received {
    head: Option<Head>,
    body: BytesMut,
    /// All of the response has come, and only the end of the request is missing.
    is_whole: bool,
}

impl Exchange {
    /// Sends a request on a connection. What the socket does not take is sent by the polls.
    pub(super) fn begin(
        mut checkout: Checkout<Connection>,
        role: Role,
        params: &Params<'_>,
        upload: Upload,
        limits: &'static Limits,
        timeout: Duration,
        stderr: Stderr,
    ) -> Box<Self> {
        let head = if role == Role::Authorizer { HeadDecoder::for_authorizer() } else { HeadDecoder::new() };
        OUTPUT.with_borrow_mut(|out| {
            out.clear();
            let id = checkout.connection().begin(role, out);
            params.encode(id, out);
            let mut exchange = Box::new(Self {
                checkout: Some(checkout),
                id,
                limits,
                upload,
                output: BytesMut::new(),
                is_begun: false,
                head: Some(head),
                received: Received::default(),
                app_status: None,
                timeout,
                deadline: None,
                stderr,
            });
            if role == Role::Authorizer {
                // An authorizer is sent no body, and not even the end of one (FastCGI 1.0 §6.3).
                exchange.upload.end();
            }
            let cx = &mut Context::from_waker(Waker::noop());
            // A body that is in memory leaves with the parameters. What reads may fail is the polls' to find.
            if exchange.upload.is_in_memory() {
                let _ = exchange.encode_upload(cx, out);
            }
            exchange.send_at_once(cx, out);
            exchange
        })
    }

    /// Sends what is encoded, as far as there is room.
    fn send_at_once(&mut self, cx: &mut Context<'_>, out: &BytesMut) {
        let Some(checkout) = &mut self.checkout else { return };
        let sent = match checkout.connection().poll_send(cx, out) {
            Poll::Ready(Ok(sent)) => sent,
            Poll::Ready(Err(_)) | Poll::Pending => 0,
        };
        self.is_begun = sent > 0;
        self.output.extend_from_slice(&out[sent..]);
    }

    /// The head of the response.
    pub(super) async fn head(&mut self) -> Result<Head, Failure> {
        poll_fn(|cx| {
            loop {
                if let Some(head) = self.received.head.take() {
                    return Poll::Ready(Ok(head));
                }
                if self.checkout.is_none() {
                    let head = self.head.take().unwrap_or_default();
                    return Poll::Ready(Err(Failure::Head(head.end_of_input())));
                }
                ready!(self.poll_progress(cx))?;
            }
        })
        .await
    }

    /// The next piece of the response's body; `None` at its end.
    pub(super) fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Failure>>> {
        loop {
            if !self.received.body.is_empty() {
                return Poll::Ready(Some(Ok(self.received.body.split().freeze())));
            }
            if self.checkout.is_none() {
                return Poll::Ready(None);
            }
            if let Err(failure) = ready!(self.poll_progress(cx)) {
                return Poll::Ready(Some(Err(failure)));
            }
        }
    }

    /// Whether all of the response has come and was handed out.
    pub(super) fn is_over(&self) -> bool {
        self.checkout.is_none() && self.received.body.is_empty()
    }

    /// The application status with which the app itself has ended the request. It may not have, and the response be whole
    /// nevertheless.
    pub(super) fn app_status(&self) -> Option<u32> {
        self.app_status
    }

    /// The request, for the log.
    pub(super) fn info(&self) -> &RequestInfo {
        self.stderr.info()
    }

    /// The request's body for another attempt, if nothing of it is lost.
    pub(super) fn take_upload(&mut self) -> Option<Upload> {
        std::mem::take(&mut self.upload).rewind()
    }

    /// Passes over the rest of the response, if it is short and comes soon; else the connection is closed. Its end is not waited
    /// for.
    pub(super) fn skip(mut self: Box<Self>) {
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
                self.close();
            }
        }
        Poll::Ready(())
    }

    /// Sends and receives. Ready when something has come, or the response is over.
    fn poll_progress(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        let progress = self.poll_both_ways(cx);
        if let (Poll::Pending, Some(checkout)) = (&progress, &mut self.checkout) {
            // Also while a large body fills the socket: an app that has not accepted the connection reads none of it.
            checkout.poll_unaccepted(cx);
        }
        if progress.is_ready() || self.waits_for_client() {
            self.deadline = None;
            return progress;
        }
        let deadline = self.deadline.get_or_insert_with(|| Deadline::at(poll_time() + self.timeout));
        ready!(deadline.poll_passed(cx));
        Poll::Ready(self.fail(Failure::Slow(self.timeout)))
    }

    /// Whether the app waits for a part of the body that the client has not sent; for how long is the connection's to decide.
    fn waits_for_client(&self) -> bool {
        self.output.is_empty() && self.upload.waits_for_client()
    }

    fn poll_both_ways(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        // An app may respond, and even end, before it has read everything: what it does not take does not hold up its response.
        if let Poll::Ready(Err(failure)) = self.poll_send(cx)
            && (!failure.is_of_connection() || matches!(failure, Failure::Unsent(_)))
        {
            self.close();
            return Poll::Ready(Err(failure));
        }
        match ready!(self.poll_receive(cx)) {
            Ok(()) => Poll::Ready(Ok(())),
            Err(failure) => Poll::Ready(self.fail(failure)),
        }
    }

    /// Sends what there is of the request, and encodes more of its body as there is room.
    fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        loop {
            if self.output.is_empty() {
                // What a large body took is not kept for a small rest.
                let mut out = BytesMut::new();
                ready!(self.encode_upload(cx, &mut out))?;
                if out.is_empty() {
                    return Poll::Ready(Ok(()));
                }
                self.output = out;
            }
            let Some(checkout) = &mut self.checkout else { return Poll::Ready(Ok(())) };
            match ready!(checkout.connection().poll_send(cx, &self.output)) {
                Ok(sent) => {
                    self.output.advance(sent);
                    self.is_begun = true;
                    // The app takes what it is sent, so it is at work.
                    self.deadline = None;
                }
                Err(error) if self.is_begun => return Poll::Ready(Err(Failure::Lost(error))),
                Err(error) => return Poll::Ready(Err(Failure::Unsent(error))),
            }
        }
    }

    /// Encodes what has come of the body. Ready when there is something to send, or all of it was.
    fn encode_upload(&mut self, cx: &mut Context<'_>, out: &mut BytesMut) -> Poll<Result<(), Failure>> {
        while !self.upload.is_ended() && out.len() < OUTPUT_BYTES {
            match self.upload.poll_piece(cx) {
                Poll::Pending if out.is_empty() => return Poll::Pending,
                Poll::Pending => break,
                Poll::Ready(Some(piece)) => encode_stream(Kind::Stdin, self.id, &piece?, out),
                Poll::Ready(None) => {
                    encode_stream_end(Kind::Stdin, self.id, out);
                    self.upload.end();
                }
            }
        }
        Poll::Ready(Ok(()))
    }

    fn poll_receive(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        let Self { checkout: Some(checkout), head, received, stderr, app_status, limits, .. } = self else {
            return Poll::Ready(Ok(()));
        };
        let mut is_over = false;
        ready!(checkout.connection().poll_receive(cx, limits, |event| {
            match event {
                Event::Stdout(data) => received.take(data, head, limits)?,
                Event::StdoutEnd => received.is_whole = true,
                Event::Stderr(data) => stderr.take(data),
                Event::End { app_status: status, protocol_status: ProtocolStatus::RequestComplete } => {
                    (*app_status, is_over) = (Some(status), true);
                }
                Event::End { protocol_status, .. } => return Err(Failure::Refused(protocol_status)),
                _ => {}
            }
            Ok(())
        }))?;
        checkout.mark_accepted();
        if is_over {
            self.finish();
        }
        Poll::Ready(Ok(()))
    }

    /// The response is complete. The connection takes the next request, unless the app may still wait for what it did not read.
    fn finish(&mut self) {
        self.stderr.finish();
        let is_sent = self.output.is_empty() && self.upload.is_ended();
        if let Some(mut checkout) = self.checkout.take()
            && is_sent
            && checkout.connection().is_idle()
        {
            checkout.release();
        }
    }

    /// A response that has come as a whole stays so, whatever its app does behind it.
    fn fail(&mut self, failure: Failure) -> Result<(), Failure> {
        self.close();
        if self.received.is_whole && failure.is_of_app() {
            self.stderr.note(&failure);
            return Ok(());
        }
        Err(failure)
    }

    /// Nothing more comes of it.
    fn close(&mut self) {
        if self.checkout.take().is_some() {
            self.stderr.finish();
        }
    }
}

impl Received {
    fn take(
        &mut self,
        data: &[u8],
        decoder: &mut Option<HeadDecoder>,
        limits: &Limits,
    ) -> Result<(), Failure> {
        let mut body = data;
        if let Some(head) = decoder {
            let Some((used, whole)) = head.decode(data, limits).map_err(Failure::Head)? else {
                return Ok(());
            };
            (self.head, *decoder) = (Some(whole), None);
            body = &data[used..];
        }
        self.body.extend_from_slice(body);
        Ok(())
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        self.close();
    }
}

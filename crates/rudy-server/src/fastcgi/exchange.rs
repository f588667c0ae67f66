//! One request to an app and its response. The body is sent while it comes in; the response is read as it
//! arrives.

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

/// How much of a body is encoded at once: two pieces as they come from a socket.
const OUTPUT_BYTES: usize = 64 * 1024;

/// How much of an unwanted response body is read so that the connection can be reused: reading more would
/// cost more than a new connection.
const DISCARD_BYTES_MAX: usize = 256 * 1024;

/// How long to wait for the rest of an unwanted body. Most apps have sent it already, and a stream has no
/// end.
const DISCARD_TIMEOUT: Duration = Duration::from_secs(2);

thread_local! {
    /// The output buffer of the request that this thread works on.
    static OUTPUT: RefCell<BytesMut> = RefCell::new(BytesMut::with_capacity(4096));
}

/// A request in progress. Dropping it early closes its connection, which cancels the request: php-fpm ignores
/// `FCGI_ABORT_REQUEST`.
pub(super) struct Exchange {
    /// `None` once the response is complete and the connection released.
    checkout: Option<Checkout<Connection>>,
    id: RequestId,
    limits: &'static Limits,
    /// The rest of the request's body.
    upload: Upload,
    /// Encoded bytes that were not sent yet.
    output: BytesMut,
    /// Whether the socket has accepted any byte of the request.
    has_sent: bool,
    /// The decoder of the head, until the head is complete.
    head: Option<HeadDecoder>,
    received: Received,
    /// The application status, once the app has ended the request.
    app_status: Option<u32>,
    timeout: Duration,
    /// When the app times out; set while the exchange waits for it.
    deadline: Option<Deadline>,
    stderr: Stderr,
}

/// Parts of the response that were received and not passed on yet.
#[derive(Default)]
struct Received {
    head: Option<Head>,
    body: BytesMut,
    /// The whole response was received; only the end of the request is missing.
    is_complete: bool,
}

impl Exchange {
    /// Starts a request on a connection. What the socket does not accept at once is sent by later polls.
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
                has_sent: false,
                head: Some(head),
                received: Received::default(),
                app_status: None,
                timeout,
                deadline: None,
                stderr,
            });
            if role == Role::Authorizer {
                // An authorizer receives no body, not even an empty one (FastCGI 1.0 §6.3).
                exchange.upload.end();
            }
            let cx = &mut Context::from_waker(Waker::noop());
            // A body in memory is sent together with the parameters. A later poll reports read errors.
            if exchange.upload.is_in_memory() {
                let _ = exchange.encode_upload(cx, out);
            }
            exchange.send_at_once(cx, out);
            exchange
        })
    }

    /// Sends as much of `out` as the socket accepts, and stores the rest.
    fn send_at_once(&mut self, cx: &mut Context<'_>, out: &BytesMut) {
        let Some(checkout) = &mut self.checkout else { return };
        let sent = match checkout.connection().poll_send(cx, out) {
            Poll::Ready(Ok(sent)) => sent,
            Poll::Ready(Err(_)) | Poll::Pending => 0,
        };
        self.has_sent = sent > 0;
        self.output.extend_from_slice(&out[sent..]);
    }

    /// Waits for the head of the response.
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

    /// Returns the next piece of the response's body; `None` at its end.
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

    /// Returns whether the whole response was received and passed on.
    pub(super) fn is_done(&self) -> bool {
        self.checkout.is_none() && self.received.body.is_empty()
    }

    /// Returns the application status if the app has ended the request. A response can be complete without
    /// it.
    pub(super) fn app_status(&self) -> Option<u32> {
        self.app_status
    }

    /// Describes the request for the log.
    pub(super) fn info(&self) -> &RequestInfo {
        self.stderr.info()
    }

    /// Returns the request's body for another attempt, if it can be read again.
    pub(super) fn take_upload(&mut self) -> Option<Upload> {
        std::mem::take(&mut self.upload).rewind()
    }

    /// Discards the rest of the response if it is short and comes soon; otherwise closes the connection. Does
    /// not wait.
    pub(super) fn discard(mut self: Box<Self>) {
        let mut discarded = 0;
        // Usually all of it has been received.
        if self.poll_discard(&mut Context::from_waker(Waker::noop()), &mut discarded).is_pending() {
            let rest = async move { poll_fn(|cx| self.poll_discard(cx, &mut discarded)).await };
            tokio::spawn(tokio::time::timeout(DISCARD_TIMEOUT, rest));
        }
    }

    fn poll_discard(&mut self, cx: &mut Context<'_>, discarded: &mut usize) -> Poll<()> {
        while let Some(piece) = ready!(self.poll_piece(cx)) {
            match piece {
                Ok(piece) => *discarded += piece.len(),
                Err(failure) => self.stderr.log_late_failure(&failure),
            }
            if *discarded > DISCARD_BYTES_MAX {
                self.close();
            }
        }
        Poll::Ready(())
    }

    /// Sends and receives. Ready when something was received or the response is complete.
    fn poll_progress(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        let progress = self.poll_send_and_receive(cx);
        if let (Poll::Pending, Some(checkout)) = (&progress, &mut self.checkout) {
            // Also while a large body fills the socket buffer: an app that has not accepted the connection
            // reads nothing.
            checkout.poll_unaccepted(cx);
        }
        if progress.is_ready() || self.waits_for_client() {
            self.deadline = None;
            return progress;
        }
        let deadline = self.deadline.get_or_insert_with(|| Deadline::at(poll_time() + self.timeout));
        ready!(deadline.poll_passed(cx));
        Poll::Ready(self.fail(Failure::Timeout(self.timeout)))
    }

    /// Returns whether the app waits for a part of the body that the client has not sent. The client's
    /// connection limits that time.
    fn waits_for_client(&self) -> bool {
        self.output.is_empty() && self.upload.waits_for_client()
    }

    fn poll_send_and_receive(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        // An app may respond, and even end the request, before it has read the body. An unread body must not
        // delay the response.
        if let Poll::Ready(Err(failure)) = self.poll_send(cx)
            && (!failure.is_connection_failure() || matches!(failure, Failure::NothingSent(_)))
        {
            self.close();
            return Poll::Ready(Err(failure));
        }
        match ready!(self.poll_receive(cx)) {
            Ok(()) => Poll::Ready(Ok(())),
            Err(failure) => Poll::Ready(self.fail(failure)),
        }
    }

    /// Sends pending bytes of the request, and encodes more of its body when there is room.
    fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        loop {
            if self.output.is_empty() {
                // A new buffer: that of a large body would waste memory for a small rest.
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
                    self.has_sent = true;
                    // The app reads the request, so it is not stuck.
                    self.deadline = None;
                }
                Err(error) if self.has_sent => return Poll::Ready(Err(Failure::ConnectionLost(error))),
                Err(error) => return Poll::Ready(Err(Failure::NothingSent(error))),
            }
        }
    }

    /// Encodes available parts of the body. Ready when there is something to send, or all of it was encoded.
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
        let mut is_done = false;
        ready!(checkout.connection().poll_receive(cx, limits, |event| {
            match event {
                Event::Stdout(data) => received.push(data, head, limits)?,
                Event::StdoutEnd => received.is_complete = true,
                Event::Stderr(data) => stderr.push(data),
                Event::End { app_status: status, protocol_status: ProtocolStatus::RequestComplete } => {
                    (*app_status, is_done) = (Some(status), true);
                }
                Event::End { protocol_status, .. } => return Err(Failure::Rejected(protocol_status)),
                _ => {}
            }
            Ok(())
        }))?;
        checkout.mark_accepted();
        if is_done {
            self.finish();
        }
        Poll::Ready(Ok(()))
    }

    /// Handles the end of the response. The connection is reused unless the app may still wait for unread
    /// input.
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

    /// Handles a failure. A complete response stays valid, regardless of what the app does next.
    fn fail(&mut self, failure: Failure) -> Result<(), Failure> {
        self.close();
        if self.received.is_complete && failure.is_app_failure() {
            self.stderr.log_late_failure(&failure);
            return Ok(());
        }
        Err(failure)
    }

    /// Closes the connection.
    fn close(&mut self) {
        if self.checkout.take().is_some() {
            self.stderr.finish();
        }
    }
}

impl Received {
    fn push(
        &mut self,
        data: &[u8],
        decoder: &mut Option<HeadDecoder>,
        limits: &Limits,
    ) -> Result<(), Failure> {
        let mut body = data;
        if let Some(head) = decoder {
            let Some((used, decoded)) = head.decode(data, limits).map_err(Failure::Head)? else {
                return Ok(());
            };
            (self.head, *decoder) = (Some(decoded), None);
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

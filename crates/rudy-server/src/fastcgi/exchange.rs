//! One request to an app and its response. The body is sent while it comes in; the response is read as it
//! arrives.

use std::convert::Infallible;
use std::future::poll_fn;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use rudy_fastcgi::cgi::{Head, HeadDecoder};
use rudy_fastcgi::gateway::Event;
use rudy_fastcgi::record::{Kind, encode_stream, encode_stream_end};
use rudy_fastcgi::{Limits, ProtocolStatus, RequestId, Role};
use rudy_net::{Deadline, poll_time};

use super::connection::Connection;
use super::failure::{AppCause, Cause};
use super::params::Params;
use super::stderr::Stderr;
use crate::upstream::{Checkout, EncodeBody, RequestInfo, Sending, SocketConnection as _, Upload};

/// How much of an unwanted response body is read so that the connection can be reused: reading more would
/// cost more than a new connection.
const DISCARD_BYTES_MAX: usize = 256 * 1024;

/// How long to wait for the rest of an unwanted body. Most apps have sent it already, and a stream has no
/// end.
const DISCARD_TIMEOUT: Duration = Duration::from_secs(2);

/// A request in progress. Dropping it early closes its connection, which cancels the request: php-fpm ignores
/// `FCGI_ABORT_REQUEST`.
pub(super) struct Exchange {
    /// `None` once the response is complete and the connection released.
    checkout: Option<Checkout<Connection>>,
    limits: &'static Limits,
    sending: Sending<Stdin>,
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

/// Encodes the body of a request as its standard input.
struct Stdin(RequestId);

impl EncodeBody for Stdin {
    fn encode_piece(&self, piece: &[u8], out: &mut BytesMut) {
        encode_stream(Kind::Stdin, self.0, piece, out);
    }

    /// CGI has no trailers.
    fn encode_end(&self, _trailers: Option<&HeaderMap>, out: &mut BytesMut) {
        encode_stream_end(Kind::Stdin, self.0, out);
    }
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
        mut upload: Upload,
        limits: &'static Limits,
        timeout: Duration,
        stderr: Stderr,
    ) -> Box<Self> {
        let head = if role == Role::Authorizer {
            // An authorizer receives no body, not even an empty one (FastCGI 1.0 §6.3).
            upload.end();
            HeadDecoder::for_authorizer()
        } else {
            HeadDecoder::new()
        };
        let Ok(sending) = Sending::begin(upload, checkout.connection(), |connection, out| {
            let id = connection.begin(role, out);
            params.encode(id, out);
            Ok::<_, Infallible>(Stdin(id))
        });
        Box::new(Self {
            checkout: Some(checkout),
            limits,
            sending,
            head: Some(head),
            received: Received::default(),
            app_status: None,
            timeout,
            deadline: None,
            stderr,
        })
    }

    /// Waits for the head of the response.
    pub(super) async fn head(&mut self) -> Result<Head, Cause> {
        poll_fn(|cx| {
            loop {
                if let Some(head) = self.received.head.take() {
                    return Poll::Ready(Ok(head));
                }
                if self.checkout.is_none() {
                    let head = self.head.take().unwrap_or_default();
                    return Poll::Ready(Err(AppCause::Head(head.end_of_input()).into()));
                }
                ready!(self.poll_progress(cx))?;
            }
        })
        .await
    }

    /// Returns the next piece of the response's body; `None` at its end.
    pub(super) fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Cause>>> {
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
        self.sending.take_upload()
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
                Err(cause) => self.stderr.log_late_failure(cause),
            }
            if *discarded > DISCARD_BYTES_MAX {
                self.close();
            }
        }
        Poll::Ready(())
    }

    /// Sends and receives. Ready when something was received or the response is complete.
    fn poll_progress(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Cause>> {
        let progress = self.poll_send_and_receive(cx);
        if let (Poll::Pending, Some(checkout)) = (&progress, &mut self.checkout) {
            // Also while a large body fills the socket buffer: an app that has not accepted the connection
            // reads nothing.
            checkout.poll_unaccepted(cx);
        }
        if progress.is_ready() || self.sending.waits_for_client() {
            self.deadline = None;
            return progress;
        }
        let deadline = self.deadline.get_or_insert_with(|| Deadline::at(poll_time() + self.timeout));
        ready!(deadline.poll_passed(cx));
        Poll::Ready(self.fail(Cause::ResponseTimeout(self.timeout)))
    }

    fn poll_send_and_receive(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Cause>> {
        // An app may respond, and even end the request, before it has read the body. An unread body must not
        // delay the response.
        if let Poll::Ready(Err(failure)) = self.poll_send(cx)
            && (!failure.is_connection_failure() || matches!(failure, Cause::NothingSent(_)))
        {
            self.close();
            return Poll::Ready(Err(failure));
        }
        match ready!(self.poll_receive(cx)) {
            Ok(()) => Poll::Ready(Ok(())),
            Err(failure) => Poll::Ready(self.fail(failure)),
        }
    }

    fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Cause>> {
        let Some(checkout) = &mut self.checkout else { return Poll::Ready(Ok(())) };
        let sent = self.sending.sent();
        let polled = self.sending.poll(cx, checkout.connection().socket());
        if self.sending.sent() > sent {
            // The app reads the request, so it is not stuck.
            self.deadline = None;
        }
        polled.map_err(Into::into)
    }

    fn poll_receive(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Cause>> {
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
                Event::End { protocol_status, .. } => return Err(AppCause::Rejected(protocol_status).into()),
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
        if let Some(mut checkout) = self.checkout.take()
            && self.sending.is_done()
            && checkout.connection().is_idle()
        {
            checkout.release();
        }
    }

    /// Handles a failure. A complete response stays valid, regardless of what the app does next.
    fn fail(&mut self, cause: Cause) -> Result<(), Cause> {
        self.close();
        if self.received.is_complete && (cause.is_connection_failure() || cause.is_late()) {
            self.stderr.log_late_failure(cause);
            return Ok(());
        }
        Err(cause)
    }

    /// Closes the connection.
    fn close(&mut self) {
        if self.checkout.take().is_some() {
            self.stderr.finish();
        }
    }
}

impl Received {
    fn push(&mut self, data: &[u8], decoder: &mut Option<HeadDecoder>, limits: &Limits) -> Result<(), Cause> {
        let mut body = data;
        if let Some(head) = decoder {
            let Some((used, decoded)) = head.decode(data, limits).map_err(AppCause::Head)? else {
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

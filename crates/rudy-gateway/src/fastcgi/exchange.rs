//! Requests to an app, and their responses.

use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::BytesMut;
use http::{HeaderName, StatusCode};
use rudy_client::{self, BodyCoding, Checkout, Protocol, Received, Sending, Timeouts, Upload};
use rudy_fastcgi::cgi::{Head, HeadDecoder, ResponseKind};
use rudy_fastcgi::gateway::Event;
use rudy_fastcgi::{Limits, ProtocolStatus, Role};
use rudy_runtime::is_planted;

use super::connection::Connection;
use super::failure::{AppCause, Cause, Failure};
use super::framing::{AppProtocol, Unframed, Variables};
use super::params::Params;
use super::stderr::Stderr;

/// A request in progress: see [`rudy_client::Exchange`]. Dropping it closes its connection, because php-fpm ignores `FCGI_ABORT_REQUEST`.
pub(super) type Exchange = rudy_client::Exchange<Records>;

/// The state of an exchange with an app.
pub(super) struct Records {
    limits: &'static Limits,
    /// The decoder of the head, until the head is complete.
    head: Option<HeadDecoder>,
    /// The application status, once the app has ended the request. A response can be complete without it.
    pub(super) app_status: Option<u32>,
    stderr: Stderr,
}

impl Records {
    /// Starts a request on a connection. What the socket does not accept at once is sent by later polls.
    pub(super) fn begin(
        mut checkout: Checkout<Connection>,
        (protocol, role): (AppProtocol, Role),
        params: &Params<'_>,
        mut upload: Upload,
        limits: &'static Limits,
        timeout: Duration,
        stderr: Stderr,
    ) -> Result<Box<Exchange>, AppCause> {
        let head = match (protocol, role) {
            (_, Role::Authorizer) => {
                // An authorizer receives no body, not even an empty one (FastCGI 1.0 §6.3).
                upload.end();
                HeadDecoder::for_authorizer()
            }
            (AppProtocol::Uwsgi, _) => HeadDecoder::with_status_line(),
            _ => HeadDecoder::new(),
        };
        let sending = Sending::begin(upload, checkout.connection(), |connection, out| {
            encode_head(protocol, role, params, connection, out)
        });
        let protocol = Self { limits, head: Some(head), app_status: None, stderr };
        let timeouts = Timeouts { response: timeout, stall: None };
        Ok(Exchange::new(checkout, sending?, protocol, timeouts))
    }
}

/// Appends what comes before the body.
fn encode_head(
    protocol: AppProtocol,
    role: Role,
    params: &Params<'_>,
    connection: &mut Connection,
    out: &mut BytesMut,
) -> Result<BodyCoding, AppCause> {
    let (variables, coding) = match protocol {
        AppProtocol::Fastcgi => {
            let id = connection.begin(role, out);
            (Variables::in_records(id, out), BodyCoding::Stdin(id))
        }
        AppProtocol::Uwsgi => (Variables::of_uwsgi(out), BodyCoding::Plain),
        AppProtocol::Scgi => {
            (Variables::of_scgi(out, params.content_length.unwrap_or_default()), BodyCoding::Plain)
        }
    };
    if !protocol.keeps_connections() {
        connection.begin_stream();
    }
    params.encode(variables, protocol).map_err(|why| match why {
        Unframed::TooLarge(bytes) => AppCause::VariablesTooLarge(bytes),
        Unframed::Zero => AppCause::ZeroInVariable,
    })?;
    Ok(coding)
}

impl Protocol for Records {
    type Connection = Connection;
    type Head = Head;
    type Cause = AppCause;
    type Info = ();

    const MAY_DIFFER_IN_LENGTH: bool = true;

    fn status(head: &Head) -> Option<StatusCode> {
        match head.kind {
            ResponseKind::Document(status) => Some(status),
            ResponseKind::LocalRedirect(_) => None,
        }
    }

    fn field<'a>(head: &'a Head, name: &HeaderName) -> Option<&'a [u8]> {
        head.fields.get(name)
    }

    fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        checkout: &mut Checkout<Connection>,
        received: &mut Received<Head>,
    ) -> Poll<Result<(), Cause>> {
        let limits = self.limits;
        ready!(checkout.connection().poll_receive(cx, limits, |event| {
            match event {
                Event::Stdout(_)
                    if received.has_begun && is_planted("a record of an application that is lost") => {}
                Event::Stdout(data) => self.push(data, received)?,
                Event::StdoutEnd => received.is_complete = true,
                Event::Stderr(data) => self.stderr.push(data),
                Event::End { app_status, protocol_status: ProtocolStatus::RequestComplete } => {
                    (self.app_status, received.has_ended) = (Some(app_status), true);
                }
                Event::End { protocol_status, .. } => return Err(AppCause::Rejected(protocol_status).into()),
                _ => {}
            }
            Ok(())
        }))?;
        checkout.mark_accepted();
        Poll::Ready(Ok(()))
    }

    fn missing_head(&mut self) -> AppCause {
        AppCause::Head(self.head.take().unwrap_or_default().end_of_input())
    }

    fn can_be_reused(&mut self, connection: &mut Connection, is_sent: bool) -> bool {
        is_sent && connection.is_idle()
    }

    fn end(&mut self) {
        self.stderr.finish();
    }

    fn log_late_failure(&self, cause: Cause) {
        self.stderr.log_late_failure(cause);
    }

    fn log_failure(&self, (): &(), failure: &Failure) {
        self.stderr.info().log_failure(failure);
    }
}

impl Records {
    fn push(&mut self, data: &[u8], received: &mut Received<Head>) -> Result<(), Cause> {
        let mut body = data;
        if let Some(decoder) = &mut self.head {
            let Some((used, head)) = decoder.decode(data, self.limits).map_err(AppCause::Head)? else {
                return Ok(());
            };
            self.head = None;
            received.begin(head);
            body = &data[used..];
        }
        received.push(body);
        Ok(())
    }
}

//! One request on one connection, from connecting to the end of the response.

use std::os::fd::AsFd;
use std::time::Instant;

use rudy_http::Limits;
use rudy_http::h1::client::Fault;
use rustix::event::PollFlags;

use crate::connection::Observer;
use crate::waiter::{WaitResult, Waiter};
use crate::{Connection, DriveStatus, Encoded, Error, Failure, Security};

/// A request, and what is needed to send it.
pub struct Sending<'a, D> {
    /// The request.
    pub request: &'a Encoded,
    /// TLS, if it is used.
    pub security: Option<&'a Security>,
    /// The limits of the response.
    pub limits: &'a Limits,
    /// Waits for the socket.
    pub waiter: &'a Waiter,
    /// The deadline in the present state of the connection, and the error when it has passed.
    pub deadline: D,
}

/// Sends a request over a connection, and reads until the response is complete, as `has_ended` reports. It is called with the observer after
/// all events that were available.
///
/// # Errors
///
/// The connection or the request failed, a deadline has passed, or `has_ended` has returned an error.
pub fn exchange<O: Observer, D: Fn(&Connection) -> (Option<Instant>, Error)>(
    connection: &mut Connection,
    sending: &Sending<'_, D>,
    scratch: &mut [u8],
    observer: &mut O,
    mut has_ended: impl FnMut(&mut O, &Connection) -> Result<bool, Error>,
) -> Result<DriveStatus, Error> {
    let mut is_sent = send(connection, sending.request);
    loop {
        let result = connection.drive(sending.security, sending.limits, true, scratch, observer);
        let has_ended = has_ended(observer, connection);
        // A failure to write the body is reported rather than that of the connection.
        if let Err(Error::Output(_)) = has_ended {
            return has_ended.map(|_| DriveStatus::Closed);
        }
        let status = result?;
        if has_ended? {
            return Ok(status);
        }
        if status == DriveStatus::Closed {
            return Err(Failure::Short(Fault::ClosedBeforeResponse).into());
        }
        if !is_sent && send(connection, sending.request) {
            is_sent = true;
            continue;
        }
        let (until, error) = (sending.deadline)(connection);
        wait(sending.waiter, connection, status, until, error)?;
    }
}

/// Waits until a connection can continue. Fails with `timeout_error` at the deadline `until`.
fn wait(
    waiter: &Waiter,
    connection: &mut Connection,
    status: DriveStatus,
    until: Option<Instant>,
    timeout_error: Error,
) -> Result<(), Error> {
    let now = Instant::now();
    if until.is_some_and(|until| until <= now) {
        return Err(timeout_error);
    }
    // A connection that has something to do by then can continue, as one that has yielded.
    let due = if status == DriveStatus::Yielded { Some(now) } else { connection.due() };
    let is_due = due.is_some_and(|due| until.is_none_or(|until| due <= until));
    let write_flags = if connection.wants_to_write() { PollFlags::OUT } else { PollFlags::empty() };
    let sockets = [(connection.transport().as_fd(), PollFlags::IN | write_flags)];
    match waiter.wait(&sockets, if is_due { due } else { until }).map_err(Error::Wait)? {
        WaitResult::Interrupted(signal) => Err(Error::Interrupted(signal)),
        WaitResult::TimedOut if !is_due => Err(timeout_error),
        WaitResult::TimedOut | WaitResult::Ready => Ok(()),
    }
}

/// Sends a request, if the protocol of the connection is known. Returns whether it was sent.
fn send(connection: &mut Connection, request: &Encoded) -> bool {
    match &request.http2 {
        _ if !connection.knows_protocol() => false,
        Some(http2) if connection.has_streams() => {
            let is_sent = connection.request(http2).is_some();
            connection.flush();
            is_sent
        }
        _ => {
            connection.send(&request.bytes, [request.info]);
            true
        }
    }
}

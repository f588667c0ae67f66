//! A connection to an app. It carries one request at a time.

use std::io;
use std::task::{Context, Poll};

use bytes::BytesMut;
use rudy_client::{Socket, SocketConnection, poll_decode};
use rudy_fastcgi::gateway::{Event, GatewayConnection};
use rudy_fastcgi::{Fault, Limits, ProtocolStatus, RequestId, Role};

use super::failure::{AppCause, Cause};

/// How much is read at a time: four records of php-fpm, which writes responses in pieces of 8 KiB.
const READ_BYTES: usize = 32 * 1024;

/// A connection, in a box that lives as long: each request moves it a dozen times.
#[derive(Debug)]
pub(super) struct Connection(Box<Inner>);

/// A socket with its protocol state. It has no buffer between requests.
#[derive(Debug)]
struct Inner {
    socket: Socket,
    protocol: GatewayConnection,
    /// Whether a response without records has begun, which ends with the connection.
    stream: Option<bool>,
    /// The beginning of an incomplete record.
    incomplete: Vec<u8>,
}

impl SocketConnection for Connection {
    fn new(socket: Socket) -> Self {
        Self(Box::new(Inner {
            socket,
            protocol: GatewayConnection::new(),
            stream: None,
            incomplete: Vec::new(),
        }))
    }

    fn socket(&mut self) -> &mut Socket {
        &mut self.0.socket
    }
}

impl Connection {
    /// Begins a request and appends its first record to `out`.
    pub(super) fn begin(&mut self, role: Role, out: &mut BytesMut) -> RequestId {
        self.0.protocol.begin(role, true, out)
    }

    /// Begins the only request of a connection without records.
    pub(super) fn begin_stream(&mut self) {
        self.0.stream = Some(false);
    }

    /// Appends a query for the app's limits (`FCGI_GET_VALUES`) to `out`.
    pub(super) fn query_values(&mut self, out: &mut BytesMut) {
        self.0.protocol.query_values(out);
    }

    /// Sends as many bytes as the socket accepts.
    pub(super) fn poll_send(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.0.socket.poll_write(cx, bytes)
    }

    /// Reads once, and passes the decoded events to `on_event`.
    pub(super) fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        limits: &Limits,
        mut on_event: impl FnMut(Event<'_>) -> Result<(), Cause>,
    ) -> Poll<Result<(), Cause>> {
        let Inner { socket, protocol, stream, incomplete } = &mut *self.0;
        poll_decode(cx, socket, incomplete, READ_BYTES, |bytes| {
            if let Some(has_begun) = stream {
                return read_stream(bytes, has_begun, on_event);
            }
            let mut bytes = bytes.ok_or(AppCause::Fault(Fault::Closed))?;
            loop {
                let (used, event) = protocol.decode(bytes, limits).map_err(AppCause::Fault)?;
                bytes = &bytes[used..];
                match event {
                    Event::More => return Ok(bytes),
                    event => on_event(event)?,
                }
            }
        })
    }

    /// Returns whether the app has ended the request and sent nothing after it, and reads another one.
    pub(super) fn is_idle(&self) -> bool {
        self.0.stream.is_none() && self.0.protocol.is_idle() && self.0.incomplete.is_empty()
    }
}

/// Passes on what an app sends without records: all of it is the response, until the app closes the connection.
fn read_stream<'a>(
    bytes: Option<&'a [u8]>,
    has_begun: &mut bool,
    mut on_event: impl FnMut(Event<'_>) -> Result<(), Cause>,
) -> Result<&'a [u8], Cause> {
    match bytes {
        Some(bytes) => {
            *has_begun = true;
            on_event(Event::Stdout(bytes))?;
        }
        None if !*has_begun => return Err(AppCause::Fault(Fault::Closed).into()),
        None => {
            on_event(Event::StdoutEnd)?;
            on_event(Event::End { app_status: 0, protocol_status: ProtocolStatus::RequestComplete })?;
        }
    }
    Ok(&[])
}

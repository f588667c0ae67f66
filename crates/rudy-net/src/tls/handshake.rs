//! The handshake of a TLS connection.

use std::io;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::StatusCode;
use rudy_runtime::clock;
use rudy_service::TlsChoice;
use rudy_tls::{ClientHello, Session, TlsSite, UNRECOGNIZED_NAME, explain_rejection};

use super::{INPUT_BYTES_MIN, State, TlsStream};
use crate::scratch::Scratch;
use crate::transport::{ChooseSite, PassedHandshake};

/// The content type of a record with a handshake message.
const HANDSHAKE_RECORD: u8 = 22;

/// The maximum size of a first message. Post-quantum key exchange makes it about 1.7 KiB.
const CLIENT_HELLO_BYTES_MAX: usize = 16 * 1024;

/// RFC 9110 §15.5.1. Browsers show it to a person who has typed the port without `https://`.
const PLAIN_HTTP: &[u8] = b"HTTP/1.1 400 Bad Request\r\n\
    Connection: close\r\n\
    Content-Type: text/plain; charset=utf-8\r\n\
    Content-Length: 87\r\n\
    \r\n\
    400 Bad Request\nThis port expects HTTPS, and the request was plain HTTP. Use https://.\n";

/// The client speaks plain HTTP.
#[derive(Debug, thiserror::Error)]
#[error("plain HTTP on a port for HTTPS")]
pub(crate) struct PlainHttp;

impl PlainHttp {
    /// The status of the response.
    pub(crate) const STATUS: StatusCode = StatusCode::BAD_REQUEST;
}

/// A handshake in progress.
#[derive(Default)]
pub(super) struct Handshake {
    /// The session, once the site is known.
    session: Option<(Session, Arc<TlsSite>)>,
    server_name: Option<String>,
}

impl TlsStream {
    /// Continues the handshake until it is complete. After an error, the unsent bytes are an alert.
    pub(super) fn poll_established(
        &mut self,
        cx: &mut Context<'_>,
        choose: &mut ChooseSite<'_>,
    ) -> Poll<io::Result<()>> {
        let mut scratch = Scratch::borrow();
        let input = scratch.input_at_least(INPUT_BYTES_MIN);
        while let State::Handshake(_) = self.state {
            let Poll::Ready(length) = self.poll_input(cx, input, 0)? else {
                let _ = self.poll_unsent(cx, false)?;
                return Poll::Pending;
            };
            if length == 0 {
                return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into()));
            }
            self.handshake(&mut input[..length], choose)?;
        }
        Poll::Ready(Ok(()))
    }

    /// Processes received bytes.
    fn handshake(&mut self, input: &mut [u8], choose: &mut ChooseSite<'_>) -> io::Result<()> {
        let State::Handshake(handshake) = &mut self.state else { return Ok(()) };
        if handshake.session.is_none() {
            let choose = |hello: &ClientHello| choose(hello, &self.io);
            if let Some(passed) = handshake.start(input, &mut self.unsent, choose)? {
                self.state = State::Passed(passed);
            }
        }
        let State::Handshake(Handshake { session: Some((session, _)), .. }) = &mut self.state else {
            self.received = input.to_vec();
            return Ok(());
        };
        let plaintext = &mut self.plaintext;
        let received = session.receive(input, &mut self.unsent, |record| plaintext.extend_from_slice(record));
        let consumed = received
            .map_err(|error| invalid(explain_rejection(&error).unwrap_or_else(|| error.to_string())))?;
        let State::Handshake(handshake) = &mut self.state else { return Ok(()) };
        if let Some((session, site)) = handshake.session.take_if(|(session, _)| session.is_usable()) {
            let tls = session.result(&site, handshake.server_name.take());
            let tls = tls.map_err(|error| invalid(error.to_string()))?;
            if tls.client_certificate.as_ref().is_some_and(|client| !client.is_valid_at(clock::utc())) {
                return Err(invalid("the client certificate of the resumed session has expired"));
            }
            self.state = State::Established(session, Arc::new(tls));
        }
        self.received = input[consumed..].to_vec();
        Ok(())
    }
}

impl Handshake {
    /// Begins the session of the site that the client's first message chooses, if it is complete. Returns the handshake if it is that of
    /// another server.
    fn start(
        &mut self,
        input: &[u8],
        output: &mut Vec<u8>,
        choose: impl FnOnce(&ClientHello) -> Option<TlsChoice>,
    ) -> io::Result<Option<PassedHandshake>> {
        match input.first() {
            Some(&HANDSHAKE_RECORD) => {}
            Some(b'A'..=b'Z') => {
                output.extend_from_slice(PLAIN_HTTP);
                return Err(invalid(PlainHttp));
            }
            _ => return Err(invalid("not TLS")),
        }
        let hello = match ClientHello::read(input) {
            Ok(Some(hello)) => hello,
            Ok(None) if input.len() < CLIENT_HELLO_BYTES_MAX => return Ok(None),
            Ok(None) => return Err(invalid("the ClientHello is too long")),
            Err(rejected) => {
                output.extend_from_slice(&rejected.alert);
                return Err(invalid(rejected.reason));
            }
        };
        let site = match choose(&hello) {
            Some(TlsChoice::Site(site)) => site,
            Some(TlsChoice::Pass) => {
                return Ok(Some(PassedHandshake { server_name: hello.server_name }));
            }
            None => {
                output.extend_from_slice(&UNRECOGNIZED_NAME);
                return Err(invalid(hello.no_site()));
            }
        };
        let session = Session::new(&site, &hello).map_err(|error| invalid(error.to_string()))?;
        self.server_name = hello.server_name;
        self.session = Some((session, site));
        Ok(None)
    }
}

fn invalid(reason: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_content_length_matches_the_body() {
        let text = std::str::from_utf8(PLAIN_HTTP).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(
            head.contains(&format!("Content-Length: {}\r\n", body.len()))
                || head.ends_with(&format!("Content-Length: {}", body.len())),
            "{}",
            body.len()
        );
    }
}

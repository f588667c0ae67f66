//! TLS on a connection to an upstream.

use std::future::poll_fn;
use std::io;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use rudy_tls::{ClientSession, ClientTls};
use tokio::time::timeout;

use super::Socket;

/// How much is received at once: a record of TLS, which is at most this long without its header.
const RECEIVE_BYTES: usize = 16 * 1024;

impl Socket {
    /// Performs a handshake within `time`, and encrypts everything from then on.
    ///
    /// # Errors
    ///
    /// The upstream does not speak TLS, its certificate is not trusted, or it takes too long.
    pub(super) async fn start_tls(mut self, tls: &ClientTls, time: Duration) -> io::Result<Self> {
        self.tls = Some(Box::new(tls.session()?));
        let handshake = poll_fn(|cx| self.poll_handshake(cx));
        let done = timeout(time, handshake).await.unwrap_or_else(|_| {
            let why = format!("no TLS handshake within {time:?} (`connect_timeout`)");
            Err(io::Error::new(io::ErrorKind::TimedOut, why))
        });
        done.map(|()| self)
    }

    fn poll_handshake(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            let sent = self.poll_send_encrypted(cx)?;
            if !self.tls.as_ref().is_some_and(|session| session.is_handshaking()) {
                return sent.map(Ok);
            }
            if ready!(self.poll_receive_encrypted(cx))? == 0 {
                return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into()));
            }
        }
    }

    /// Reads decrypted bytes; returns 0 at the end of the session.
    pub(super) fn poll_decrypt(
        &mut self,
        cx: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        loop {
            if let Some(read) = self.session()?.read(buffer)? {
                return Poll::Ready(Ok(read));
            }
            // The session may have a response of its own, and the rest of a request.
            let _ = self.poll_send_encrypted(cx)?;
            ready!(self.poll_receive_encrypted(cx))?;
        }
    }

    /// Encrypts and sends bytes. Returns how many were encrypted: they may wait in the session.
    pub(super) fn poll_encrypt(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        ready!(self.poll_send_encrypted(cx))?;
        let written = self.session()?.write(bytes)?;
        let _ = self.poll_send_encrypted(cx)?;
        Poll::Ready(Ok(written))
    }

    /// Ready when all encrypted bytes were sent.
    pub(super) fn poll_send_encrypted(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Some(mut session) = self.tls.take() else { return Poll::Ready(Ok(())) };
        let sent = self.poll_send_output(cx, &mut session);
        self.tls = Some(session);
        sent
    }

    fn poll_send_output(
        &mut self,
        cx: &mut Context<'_>,
        session: &mut ClientSession,
    ) -> Poll<io::Result<()>> {
        loop {
            let output = session.output()?;
            if output.is_empty() {
                return Poll::Ready(Ok(()));
            }
            let sent = ready!(self.poll_send(cx, output))?;
            session.sent(sent);
        }
    }

    /// Receives once. Returns the number of encrypted bytes; 0 at the end.
    fn poll_receive_encrypted(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let mut buffer = [0; RECEIVE_BYTES];
        let received = ready!(self.poll_receive(cx, &mut buffer))?;
        let processed = self.session()?.receive(&buffer[..received]);
        if processed.is_err() {
            // The alert tells the upstream why.
            let _ = self.poll_send_encrypted(cx);
        }
        Poll::Ready(processed.map(|()| received))
    }

    /// Returns whether an idle connection is open and has no decrypted bytes. It may have tickets for later sessions.
    pub(super) fn has_no_plaintext(&mut self) -> bool {
        matches!(self.decrypt_now(&mut [0]), Ok(None))
    }

    /// As [`Socket::read_now`], decrypted.
    pub(super) fn decrypt_now(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        let mut encrypted = [0; RECEIVE_BYTES];
        loop {
            if let Some(read) = self.session()?.read(buffer)? {
                return Ok(Some(read));
            }
            let Some(received) = self.receive_now(&mut encrypted)? else { return Ok(None) };
            self.session()?.receive(&encrypted[..received])?;
        }
    }

    fn session(&mut self) -> io::Result<&mut ClientSession> {
        self.tls.as_deref_mut().ok_or_else(|| io::ErrorKind::NotConnected.into())
    }
}

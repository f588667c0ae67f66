//! A connection of a client or an application, with TLS or without.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ServerConfig};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::{TlsAcceptor, TlsConnector, TlsStream};

use super::SITE;
use crate::network::End;

/// A connection.
pub(crate) enum Socket {
    Plain(End),
    Secure(Box<TlsStream<End>>),
}

impl Socket {
    /// Makes the handshake, with these settings if there are any.
    pub(crate) async fn new(end: End, config: Option<&Arc<ClientConfig>>) -> io::Result<Self> {
        let Some(config) = config else { return Ok(Self::Plain(end)) };
        let name = ServerName::try_from(SITE).expect("a name");
        let stream = TlsConnector::from(config.clone()).connect(name, end).await?;
        Ok(Self::Secure(Box::new(stream.into())))
    }

    /// Makes the handshake of a server.
    pub(crate) async fn accept(end: End, config: Arc<ServerConfig>) -> io::Result<Self> {
        let stream = TlsAcceptor::from(config).accept(end).await?;
        Ok(Self::Secure(Box::new(stream.into())))
    }

    /// Makes the drop send a reset.
    pub(crate) fn reset_on_close(&self) {
        self.end().reset_on_close();
    }

    /// Returns the end of the connection below TLS.
    pub(crate) fn end(&self) -> &End {
        match self {
            Self::Plain(end) => end,
            Self::Secure(stream) => stream.get_ref().0,
        }
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(end) => Pin::new(end).poll_read(cx, buffer),
            Self::Secure(stream) => Pin::new(stream).poll_read(cx, buffer),
        }
    }
}

impl AsyncWrite for Socket {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(end) => Pin::new(end).poll_write(cx, bytes),
            Self::Secure(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(end) => Pin::new(end).poll_flush(cx),
            Self::Secure(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(end) => Pin::new(end).poll_shutdown(cx),
            Self::Secure(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}

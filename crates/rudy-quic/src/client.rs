//! The settings of clients.

use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::error::Unspecified;
use quinn_proto::crypto::rustls::{NoInitialCipherSuite, QuicClientConfig};
use quinn_proto::{
    ClientConfig, Endpoint, EndpointConfig, IdleTimeout, RandomConnectionIdGenerator, TransportConfig, VarInt,
};

use crate::Keys;
use crate::transport::UNIDIRECTIONAL_STREAMS;

/// The protocol of HTTP/3 (RFC 9114 §3.1).
const HTTP3: &[u8] = b"h3";

/// How long nothing may arrive from a server: it is gone.
const IDLE_TIMEOUT: Duration = Duration::from_mins(1);

/// A server closes a connection on which nothing arrives, also while it works on a response: clients keep it open (RFC 9114 §5.1).
const KEEP_ALIVE: Duration = Duration::from_secs(10);

/// Returns the settings for connections to a server, which may send `stream_window_bytes` on a stream before they are read.
///
/// # Errors
///
/// The settings of TLS permit no TLS 1.3.
pub fn client_config(
    tls: Arc<rustls::ClientConfig>,
    stream_window_bytes: u32,
) -> Result<ClientConfig, NoInitialCipherSuite> {
    let mut tls = Arc::unwrap_or_clone(tls);
    tls.alpn_protocols = vec![HTTP3.to_vec()];
    let mut config = ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls)?));
    let mut transport = TransportConfig::default();
    transport
        .max_idle_timeout(IdleTimeout::try_from(IDLE_TIMEOUT).ok())
        .keep_alive_interval(Some(KEEP_ALIVE))
        .stream_receive_window(VarInt::from_u32(stream_window_bytes))
        .max_concurrent_bidi_streams(VarInt::from_u32(0))
        .max_concurrent_uni_streams(VarInt::from_u32(UNIDIRECTIONAL_STREAMS));
    config.transport_config(Arc::new(transport));
    Ok(config)
}

/// Returns an endpoint for one connection, whose socket has no other.
///
/// # Errors
///
/// The system has no randomness.
pub fn client_endpoint() -> Result<Endpoint, Unspecified> {
    let mut config = EndpointConfig::new(Arc::new(Keys::new()?.reset()));
    config.cid_generator(|| Box::new(RandomConnectionIdGenerator::new(0)));
    Ok(Endpoint::new(Arc::new(config), None, true, None))
}

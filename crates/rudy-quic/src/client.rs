//! The settings of clients.

use std::sync::Arc;

use aws_lc_rs::error::Unspecified;
use quinn_proto::crypto::rustls::{NoInitialCipherSuite, QuicClientConfig};
use quinn_proto::{
    ClientConfig, Endpoint, EndpointConfig, RandomConnectionIdGenerator, TransportConfig, VarInt,
};

use crate::Keys;
use crate::transport::UNIDIRECTIONAL_STREAMS;

/// The protocol of HTTP/3 (RFC 9114 §3.1).
const HTTP3: &[u8] = b"h3";

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

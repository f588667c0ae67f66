//! What the tests against the crate `h2` share: the transport in memory, and the bodies of the crate.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use h2::{RecvStream, SendStream};
use http::{HeaderMap, HeaderValue};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

/// What a test waits for at most.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);

/// The bytes in transit in each direction. Less than a window, so that both sides wait for the transport, too.
pub(crate) const TRANSIT_BYTES: usize = 20_000;

/// A state machine of this project, and its caller.
pub(crate) trait Endpoint {
    /// The bytes that wait for the transport.
    fn out(&mut self) -> &mut BytesMut;

    /// Returns whether the connection goes on.
    fn receive(&mut self, input: &[u8]) -> bool;

    /// Sends what the windows permit. Returns whether the connection goes on.
    fn advance(&mut self) -> bool;
}

/// Runs a connection until one side closes it.
pub(crate) async fn pump(mut io: DuplexStream, endpoint: &mut impl Endpoint) {
    let (mut reader, mut writer) = tokio::io::split(&mut io);
    let (mut buffer, mut is_open) = (vec![0; 5000], true);
    while is_open || !endpoint.out().is_empty() {
        let has_output = !endpoint.out().is_empty();
        tokio::select! {
            read = reader.read(&mut buffer), if is_open => match read {
                Ok(0) | Err(_) => is_open = false,
                Ok(length) => is_open = endpoint.receive(&buffer[..length]),
            },
            written = writer.write_buf(endpoint.out()), if has_output => {
                if written.is_err() {
                    break;
                }
            }
        }
        is_open &= endpoint.advance();
    }
    drop(writer.shutdown().await);
}

/// Sends a body as its window opens. An early end of the stream is no error.
pub(crate) async fn send_body(
    stream: &mut SendStream<Bytes>,
    body: &[u8],
    trailers: Option<HeaderMap>,
) -> Result<(), h2::Error> {
    let mut rest = body;
    while !rest.is_empty() {
        stream.reserve_capacity(rest.len());
        let Some(capacity) = std::future::poll_fn(|context| stream.poll_capacity(context)).await else {
            return Ok(());
        };
        let (piece, after) = rest.split_at(capacity?.min(rest.len()));
        stream.send_data(Bytes::copy_from_slice(piece), after.is_empty() && trailers.is_none())?;
        rest = after;
    }
    match trailers {
        Some(trailers) => stream.send_trailers(trailers),
        None if body.is_empty() => stream.send_data(Bytes::new(), true),
        None => Ok(()),
    }
}

pub(crate) async fn collect(body: &mut RecvStream) -> Result<(BytesMut, Option<HeaderMap>), h2::Error> {
    let mut bytes = BytesMut::new();
    while let Some(piece) = body.data().await {
        let piece = piece?;
        bytes.extend_from_slice(&piece);
        body.flow_control().release_capacity(piece.len())?;
    }
    Ok((bytes, body.trailers().await?))
}

pub(crate) fn trailers() -> HeaderMap {
    let mut trailers = HeaderMap::new();
    trailers.insert("checksum", HeaderValue::from_static("1"));
    trailers
}

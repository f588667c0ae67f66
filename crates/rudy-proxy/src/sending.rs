//! How a request begins, over any version of HTTP.

use rudy_client::{BodyCoding, Sending, Upload};
use rudy_http::h2::client::Request;
use rudy_message::BodyLength;
use rudy_message::client::RequestHead;

use super::connection::Connection;
use super::failure::{Cause, HttpCause};
use super::http2::Http2Stream;
use super::upgrade::Offer;

/// Begins a request on a connection. What the connection does not accept at once is sent by later polls.
///
/// # Errors
///
/// The head cannot be encoded. Nothing was sent.
pub(super) fn begin(
    connection: &mut Connection,
    head: &RequestHead<'_>,
    upload: Upload,
    offer: Option<&Offer>,
) -> Result<Sending, Cause> {
    match connection {
        Connection::Http1(connection) => Sending::begin(upload, &mut **connection, |connection, out| {
            head.encode(out).map_err(HttpCause::Request)?;
            connection.begin(head.info());
            let is_chunked = head.body == BodyLength::Chunked;
            Ok(if is_chunked { BodyCoding::Chunked } else { BodyCoding::Plain })
        }),
        Connection::Http2(stream) => begin_http2(stream, head, upload, offer),
    }
}

fn begin_http2(
    stream: &mut Http2Stream,
    head: &RequestHead<'_>,
    mut upload: Upload,
    offer: Option<&Offer>,
) -> Result<Sending, Cause> {
    stream.begin(|scheme| {
        let request = match offer {
            Some(offer) => Request::tunnel(head, scheme, offer.protocol()),
            None => Request::new(head, scheme),
        };
        request.map_err(|error| HttpCause::Request(error).into())
    })?;
    if offer.is_some() {
        // A tunnel sends its bytes itself.
        upload = Upload::default();
        upload.end();
    }
    Ok(Sending::in_frames(upload))
}

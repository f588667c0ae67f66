//! Requests in early data, which a third party may have recorded and sent again (RFC 8470).
//!
//! The upstream learns it from a field. If it does not take the risk and responds with 425, the request is sent again after the handshake.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use http::{HeaderName, HeaderValue};
use rudy_message::LazyHead;
use rudy_service::{Client, Deadline, poll_time};
use rudy_tls::PendingHandshake;

use super::ProxyRequest;
use super::exchange::Exchange;
use super::failure::Failure;
use super::received::Head;

static EARLY_DATA: HeaderName = HeaderName::from_static("early-data");

/// Marks a request that has arrived in early data (RFC 8470 §5.1). Returns the handshake after which the request can be sent again: not if
/// the client is an intermediary that has received the request in early data itself, because the handshake of its own client decides then
/// (§5.2).
pub(super) fn mark(head: &mut LazyHead<'_>, client: &Client<'_>) -> Option<Arc<PendingHandshake>> {
    let handshake = client.tls.as_ref()?.handshake.clone()?;
    let is_of_client = head.contains(&EARLY_DATA);
    head.set(EARLY_DATA.clone(), HeaderValue::from_static("1"));
    (!is_of_client).then_some(handshake)
}

impl ProxyRequest {
    /// Sends the request again after the handshake of the client. Returns the given response if the body of the request is gone, or the
    /// handshake takes longer than a response may.
    pub(super) async fn send_after(
        &self,
        handshake: &PendingHandshake,
        (response, mut exchange): (Head, Box<Exchange>),
    ) -> Result<(Head, Box<Exchange>), Failure> {
        let Some(mut upload) = exchange.take_upload() else { return Ok((response, exchange)) };
        let mut deadline = Deadline::at(poll_time() + self.shared.timeouts.response);
        let is_complete = poll_fn(|cx| match handshake.poll_complete(cx) {
            Poll::Ready(()) => Poll::Ready(true),
            Poll::Pending => deadline.poll_passed(cx).map(|()| false),
        });
        if !is_complete.await {
            return Ok((response, exchange));
        }
        exchange.discard();
        let mut head = self.head.clone();
        head.remove(&EARLY_DATA);
        self.send(&head, &mut upload).await
    }
}

//! The first request of a flight, which waits while the response to it is received in a task.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;

use http::{HeaderMap, StatusCode};
use rudy_service::{Response, collect_interim, send_interim};
use rudy_store::{FillReader, Object};
use tokio::sync::{mpsc, oneshot};

use super::flights::{Incoming, Validated};

/// The first request, which waits for its response.
pub(super) struct Waiting {
    response: oneshot::Sender<First>,
    interim: mpsc::UnboundedSender<(StatusCode, HeaderMap)>,
}

/// The response to the first request, which is being received elsewhere.
pub(super) struct Awaited {
    response: oneshot::Receiver<First>,
    interim: mpsc::UnboundedReceiver<(StatusCode, HeaderMap)>,
}

impl Waiting {
    pub(super) fn new() -> (Self, Awaited) {
        let (response, awaited) = oneshot::channel();
        let (interim, passed) = mpsc::unbounded_channel();
        (Self { response, interim }, Awaited { response: awaited, interim: passed })
    }

    /// The client of the request may have left.
    pub(super) fn respond(self, first: First) {
        drop(self.response.send(first));
    }
}

impl Awaited {
    /// Waits for the response, and sends the interim ones before it. `None` if the task of the request has panicked.
    pub(super) async fn response(mut self) -> Option<First> {
        loop {
            tokio::select! {
                biased;
                Some((status, fields)) = self.interim.recv() => {
                    // It gets lost if the client does not read.
                    let _is_sent = send_interim(status, fields);
                }
                response = &mut self.response => return response.ok(),
            }
        }
    }
}

/// What the first request receives.
pub(super) enum First {
    /// A response that is not for others.
    Response(Response),
    /// A response that is being received, and its reader from the first byte.
    Incoming(Arc<Incoming>, FillReader),
    /// A stored object, and the fields of the response to its validation that are for this request alone.
    Ready(Arc<Object>, Validated, HeaderMap),
}

/// Waits for a response of the handler. The first request receives the interim ones before it: no connection polls this
/// task.
pub(super) async fn passing_interim(
    response: impl Future<Output = Response>,
    first: Option<&Waiting>,
) -> Response {
    let mut response = pin!(response);
    poll_fn(|cx| {
        let (polled, interim) = collect_interim(|| response.as_mut().poll(cx));
        for interim in interim {
            // The client may have left.
            let _ = first.map(|first| first.interim.send(interim));
        }
        polled
    })
    .await
}

//! Passes a request to the service, for every protocol.

use std::sync::Arc;
use std::time::Instant;

use http::Request;
use rudy_http::h1::{BodyLength, Rejection, RequestHead};

use super::Connection;
use super::pump::GATHERED_BYTES;
use super::record::Record;
use crate::engine::ServiceSource;
use crate::{Body, Client, Reply, Service};

impl<S: ServiceSource> Connection<S> {
    /// Passes a request to the service: the head alone if that suffices, otherwise the request with the body that `with_body`
    /// attaches. `number` counts the requests of the connection. The reply is `None` if the service has panicked.
    pub(super) fn dispatch<U>(
        &mut self,
        service: &S::Service,
        head: RequestHead<'_>,
        (number, now): (u64, Instant),
        with_body: impl FnOnce(
            &mut Self,
            Request<BodyLength>,
            Instant,
        ) -> Result<(crate::Request, Option<U>), Rejection>,
    ) -> Result<(Option<Reply>, Option<U>, Record), Rejection> {
        let forwarded = self.call(|| service.forwarded(&head, &self.info.peer)).flatten().map(Arc::new);
        let mut client = Client { forwarded: forwarded.clone(), ..self.client(number) };
        client.observer = self.call(|| service.observe(&head, &client)).flatten();
        let observe_waiting = || {
            let observer = self.call(|| service.observe_waiting(&head, &client));
            observer.unwrap_or_else(|| client.observer.clone())
        };
        let may_use_head = forwarded.as_ref().is_none_or(|forwarded| forwarded.host.is_none());
        if head.body_length() == BodyLength::Known(0)
            && may_use_head
            && let Some(response) = self.call(|| service.call_head(&head, &client)).flatten()
        {
            let observer = if is_small(&response.body) { client.observer.clone() } else { observe_waiting() };
            return Ok((Some(response.into()), None, Record::new(observer, now)));
        }
        let observer = observe_waiting();
        let record = Record::new(observer.clone(), now);
        let (request, upload) = with_body(self, head.into_request(), now)?;
        if let Some(observer) = &observer {
            request.body().set_observer(observer);
        }
        let client = Client { forwarded, observer, ..self.client(number) };
        Ok((self.call(|| service.call(request, &client)), upload, record))
    }
}

/// Whether a body is copied behind its head, so that both are sent at once.
fn is_small(body: &Body) -> bool {
    match body {
        Body::Empty => true,
        Body::Bytes(bytes) => bytes.len() <= GATHERED_BYTES,
        Body::File(_) | Body::Stream(_) => false,
    }
}

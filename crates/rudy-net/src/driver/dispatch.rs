//! Passes a request to the service, for every protocol.

use std::sync::Arc;
use std::time::Instant;

use rudy_message::{LazyHead, Rejection, RequestHead};
use rudy_service::{Client, Reply, Request, RequestBody, Service, ServiceSource};

use super::Connection;
use super::record::Record;

impl<S: ServiceSource> Connection<S> {
    /// Passes a request to the service, with the body that `attach` creates. `number` counts the requests of the connection. The reply is
    /// `None` if the service has panicked.
    pub(super) fn dispatch<U>(
        &mut self,
        service: &S::Service,
        head: &RequestHead<'_>,
        (number, now): (u64, Instant),
        attach: impl FnOnce(&mut Self) -> Result<(RequestBody, Option<U>), Rejection>,
    ) -> Result<(Option<Reply>, Option<U>, Record), Rejection> {
        let (body, upload) = attach(self)?;
        let forwarded = self.call(|| service.forwarded(head, &self.info.peer)).flatten().map(Arc::new);
        let client = Client { forwarded, ..self.client(number) };
        if let Some(observer) = self.call(|| service.observe(head, &client)).flatten() {
            body.set_observer(&observer);
            let _is_first = client.observer.set(observer);
        }
        let reply = self.call(|| service.call(Request::new(LazyHead::new(head), body), &client));
        Ok((reply, upload, Record::of(client, now)))
    }
}

//! Requests that do not use the cache, and those that invalidate what it has stored.

use std::sync::Arc;

use http::{Method, Request as HttpRequest};
use rudy_cache::{CacheStatus, Forward, Key};
use rudy_pipeline::{Call, Next};
use rudy_runtime::{blocking, is_planted};
use rudy_service::{Observer, Reply, Request, Response};

use super::store::OpenStore;
use super::{Shared, fetch, subject};

/// Passes a request on, without looking for a stored response or storing one.
pub(super) fn pass(
    shared: &Arc<Shared>,
    reason: Forward,
    request: Request<'_>,
    call: Call<'_>,
    next: Next,
) -> Reply {
    let (shared, observer) = (shared.clone(), call.context.client.observer.get().cloned());
    next.call(request, call).map(move |mut response| {
        add_forwarded(&shared, reason, &mut response, observer.as_ref());
        response
    })
}

/// Passes a request on whose method may change the resource. What is stored for its URL is invalid after it (RFC 9111 §4.4), before
/// the client receives the response.
pub(super) fn write_through(
    shared: &Arc<Shared>,
    open: &Arc<OpenStore>,
    request: Request<'_>,
    call: Call<'_>,
    next: Next,
) -> Reply {
    if request.method().is_safe() {
        return pass(shared, Forward::Method, request, call, next);
    }
    let (shared, open) = (shared.clone(), open.clone());
    let method = request.method().clone();
    let key = subject::key(&shared.policy, &request, call.context.client);
    let observer = call.context.client.observer.get().cloned();
    let reply = next.call(request, call);
    Reply::Later(Box::pin(async move {
        let mut response = reply.response().await;
        let keys = invalidated(&shared, method, &key, &response);
        if !keys.is_empty() && !is_planted("a change by a POST that the cache does not see") {
            // An error means a panic, which is logged.
            let _ = blocking(move || open.invalidate(&keys)).await;
        }
        add_forwarded(&shared, Forward::Method, &mut response, observer.as_ref());
        response
    }))
}

fn add_forwarded(
    shared: &Shared,
    reason: Forward,
    response: &mut Response,
    observer: Option<&Arc<dyn Observer>>,
) {
    let forward_status = Some(response.status());
    let status = CacheStatus { forward: Some(reason), forward_status, ..CacheStatus::default() };
    shared.add_status(response, &status, observer);
}

fn invalidated(shared: &Shared, method: Method, key: &Key, response: &Response) -> Vec<Key> {
    let mut request = HttpRequest::new(());
    *request.method_mut() = method;
    shared.policy.invalidated(&request, &fetch::view(response), key)
}

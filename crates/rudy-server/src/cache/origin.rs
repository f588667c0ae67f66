//! Calls the handler of a route again, after the step has returned.

use std::sync::Arc;

use http::request::Parts;
use rudy_http::semantics::path::RequestPath;
use rudy_net::{Client, Request, RequestBody, Response};

use crate::files::access::Access;
use crate::handlers::Call;
use crate::routes::{Context, Routes};
use crate::steps::Next;

/// What comes after the step: the handler of the route. It can be called several times, also without a client that waits.
pub(super) struct Origin {
    client: Client<'static>,
    routes: Arc<Routes>,
    path: RequestPath<'static>,
    /// The number of the next step.
    step: usize,
    /// The request of the client, without a body.
    pub(super) head: Parts,
}

impl Origin {
    /// Drops the body of the request, which is empty.
    pub(super) fn new(request: Request, call: &Call<'_>, next: &Next) -> Self {
        let (head, _) = request.into_parts();
        let (client, routes) = (call.context.client.to_owned(), call.context.routes.clone());
        Self { client, routes, path: call.path.clone(), step: next.step(), head }
    }

    /// Sends a request with this head.
    pub(super) async fn send(&self, head: Parts) -> Response {
        let request = Request::from_parts(head, RequestBody::empty());
        let context = Context { client: &self.client, routes: &self.routes, access: Access::Cached };
        context.resume(request, &self.path, Next::at(self.step)).response().await
    }
}

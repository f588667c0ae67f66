//! Responses that an upstream replaces by a file or by another path of the site.

use std::sync::Arc;

use rudy_client::follow;
use rudy_files::replacement::{Replaced, ReplacementError};
use rudy_message::Instructions;
use rudy_pipeline::internal_redirect::copy_head;
use rudy_pipeline::{Call, Context, Routes};
use rudy_service::{Client, Request, Response};

use super::ProxyRequest;
use super::exchange::Exchange;
use super::failure::{Cause, Failure, HttpCause};
use super::received::Head;

/// A request of a client before it is changed for an upstream.
pub(super) struct Origin {
    request: Request<'static>,
    client: Client<'static>,
    routes: Arc<Routes>,
}

impl Origin {
    pub(super) fn new(request: &Request<'static>, call: &Call<'_>) -> Self {
        let Context { client, routes, .. } = call.context;
        Self { request: copy_head(request), client: client.to_owned(), routes: routes.clone() }
    }
}

impl ProxyRequest {
    /// Changes a response as the upstream instructs.
    pub(super) fn follow(&self, instructions: Option<&Instructions>, response: Response) -> Response {
        let Some(instructions) = instructions else { return response };
        follow(instructions, response, self.is_in_flight, || self.info())
    }

    /// Responds with what the upstream names.
    pub(super) async fn replace(
        &self,
        (mut head, exchange): (Head, Box<Exchange>),
    ) -> Result<Response, Failure> {
        exchange.discard();
        let (status, fields) = (head.status(), head.take_fields());
        let Some(replacement) = head.replacement() else { return Ok(Response::new(status)) };
        let response = match &self.origin {
            Some(origin) => {
                let Origin { request, client, routes } = &**origin;
                let replaced = Replaced { request, client, routes };
                self.shared.replacements.respond(replaced, replacement, status, &fields).await
            }
            None => Err(ReplacementError::disabled(replacement)),
        };
        let response = response.map_err(|error| Cause::from(HttpCause::from(error)))?;
        Ok(self.follow(head.instructions.as_deref(), response))
    }
}

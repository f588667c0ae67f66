//! The routes of one configuration, and the reply that they give.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use http::uri::Scheme;
use http::{Method, StatusCode};
use rudy_http::h1::RequestHead;
use rudy_http::semantics::path::{PathError, RequestPath};
use rudy_net::{Client, Reply, Request, Response};

use crate::buffer::Buffers;
use crate::compile::Target;
use crate::files::access::{Access, on_pool};
use crate::handlers::{Call, Metrics};
use crate::methods::{method_not_allowed, reject_unknown_method, respond_unless_read};
use crate::routing::{NotFound, Router, explain_rejected, request_host};
use crate::topic::Topics;
use crate::{internal_redirect, pages};

/// Which handler answers which request, and what handlers share. Clones share everything.
#[derive(Debug, Clone)]
pub(crate) struct Routes {
    pub(crate) router: Arc<Router<Target>>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) topics: Arc<Topics>,
    pub(crate) buffers: Buffers,
}

impl Routes {
    /// Answers a request from its head alone if the response is there: what [`Context::reply`] would make of it. `None` where
    /// there is more to look at than method, path and host.
    pub(crate) fn respond_to_head(&self, head: &RequestHead<'_>) -> Option<Response> {
        let is_read = matches!(*head.method(), Method::GET | Method::HEAD);
        // A target in the absolute form has a scheme, too.
        if !is_read || !head.target().starts_with(b"/") {
            return None;
        }
        let path = RequestPath::canonical(head.path())?;
        let found = self.router.find(|| head.host(), &path).ok()?;
        if found.handler.authorizer.is_some() {
            return None;
        }
        found.handler.handler.call_head(head, &found, &path)
    }
}

/// What a handler needs beside the request: both ends of its connection, and the routes of the configuration.
#[derive(Clone, Copy)]
pub(crate) struct Context<'a> {
    pub(crate) client: &'a Client<'a>,
    pub(crate) routes: &'a Arc<Routes>,
    /// Whether handlers may wait for the file system.
    pub(crate) access: Access,
}

impl Context<'_> {
    /// Answers a request of a client, or one that an application has put in its place.
    pub(crate) fn reply(self, request: Request) -> Reply {
        // RFC 9110 §9.3.7: a question about the server as a whole.
        if request.uri().path() == "*" && request.method() == Method::OPTIONS {
            return respond_unless_read(&request)
                .unwrap_or_else(|| Response::new(StatusCode::NO_CONTENT))
                .into();
        }
        // RFC 9110 §7.4: an https resource requested over a connection that nothing secures MUST be refused.
        if request.uri().scheme() == Some(&Scheme::HTTPS) && self.client.scheme() != Scheme::HTTPS {
            let explanation = "This connection does not use TLS, so it cannot serve an https URL.";
            return pages::error(StatusCode::MISDIRECTED_REQUEST, request.headers(), explanation).into();
        }
        self.route(request, None, false)
    }

    /// Answers a request that the authorizer of the route for `path` has allowed.
    pub(crate) fn reply_to_admitted(self, request: Request, path: RequestPath<'static>) -> Reply {
        self.route(request, Some(path), true)
    }

    /// Answers on the pool for blocking work a request that its route has let in, because its handler has to wait for the file
    /// system.
    pub(crate) fn reply_on_pool(self, request: Request, path: RequestPath<'static>) -> Reply {
        let (client, routes) = (self.client.to_owned(), self.routes.clone());
        let reply = on_pool(move |access| {
            Ok(Context { client: &client, routes: &routes, access }.reply_to_admitted(request, path))
        });
        Reply::Later(Box::pin(async move { reply.await.response().await }))
    }

    /// Answers with another path of the site, which the client does not see.
    pub(crate) fn redirect(self, request: Request, path: RequestPath<'static>) -> Reply {
        let fields = request.headers().clone();
        let Some(next) = internal_redirect::same_request(request) else {
            let explanation = "Too many internal redirects.";
            return pages::error(StatusCode::INTERNAL_SERVER_ERROR, &fields, explanation).into();
        };
        self.route(next, Some(path), false)
    }

    /// Answers with the page that another path of the site has for a request that failed.
    pub(crate) fn page_of(self, failed: Response, request: Request, path: RequestPath<'static>) -> Reply {
        match internal_redirect::for_page(request, failed.status()) {
            Some(next) => internal_redirect::with_page(failed, self.route(next, Some(path), false)),
            // The page for an error leads on to the page for an error.
            None => failed.into(),
        }
    }

    /// Finds the route for the path of a request, or for `instead` after an internal redirect, and has it answer. Everything that
    /// looks at the path looks at this one.
    fn route(self, request: Request, instead: Option<RequestPath<'static>>, is_admitted: bool) -> Reply {
        // Owned, because the request goes on without it.
        let parse = || RequestPath::parse(request.uri().path()).map(RequestPath::into_owned);
        let path = match instead.map_or_else(parse, Ok) {
            Ok(path) => path,
            Err(refusal) => return refuse_path(&request, refusal).into(),
        };
        let found = match self.routes.router.find(|| request_host(&request), &path) {
            Ok(found) => found,
            Err(not_found) => return answer_nobody(&request, not_found).into(),
        };
        let Target { authorizer, allow_trace, handler } = found.handler;
        // TRACE sends the request back, credentials that a proxy has added among them (RFC 9110 §9.3.8).
        if *request.method() == Method::TRACE && !allow_trace {
            return method_not_allowed(&request, handler.methods(), "Method not allowed. TRACE is disabled.")
                .into();
        }
        if let Some(authorizer) = authorizer.as_ref().filter(|_| !is_admitted) {
            return authorizer.call(request, path, self);
        }
        handler.call(request, Call { path: &path, route: &found, context: self })
    }
}

fn refuse_path(request: &Request, refusal: PathError) -> Response {
    // An unknown method is unknown wherever it is tried.
    reject_unknown_method(request).unwrap_or_else(|| {
        pages::error(StatusCode::BAD_REQUEST, request.headers(), &format!("Bad request: {refusal}."))
    })
}

fn answer_nobody(request: &Request, why: NotFound) -> Response {
    // An unknown method is unknown wherever it is tried.
    reject_unknown_method(request).unwrap_or_else(|| {
        let error = |status, explanation: &str| pages::error(status, request.headers(), explanation);
        match why {
            // RFC 9110 §7.4: a request for a host that nobody here answers for is misdirected.
            NotFound::Host => error(StatusCode::MISDIRECTED_REQUEST, "No site is configured for this host."),
            NotFound::RejectedHost => {
                error(StatusCode::MISDIRECTED_REQUEST, &explain_rejected(request_host(request)))
            }
            NotFound::Path => error(StatusCode::NOT_FOUND, "The requested URL was not found on this server."),
            NotFound::Ambiguous(refusal) => {
                error(StatusCode::BAD_REQUEST, &format!("Bad request: {refusal}."))
            }
        }
    })
}

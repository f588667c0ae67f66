//! The routes of one configuration, and the reply that they give.

use std::sync::Arc;

use http::uri::Scheme;
use http::{Method, StatusCode};
use rudy_net::{Client, Local, Reply, Request, Response};

use crate::compile::{Handler, Target};
use crate::handlers::Vitals;
use crate::methods::{answer_unless_known, answer_unless_read};
use crate::pages;
use crate::routing::{Found, NotFound, Router, request_host};
use crate::topic::Topics;

/// Which handler answers which request, and what handlers share. Clones share everything.
#[derive(Debug, Clone)]
pub(crate) struct Routes {
    pub(crate) router: Arc<Router<Target>>,
    pub(crate) vitals: Arc<Vitals>,
    pub(crate) topics: Arc<Topics>,
}

impl Routes {
    /// Answers a request: a client's, or one that an app has put in its place.
    pub(crate) fn reply(self: &Arc<Self>, request: Request, client: &Client, local: &Local) -> Reply {
        // RFC 9110 §9.3.7: a question about the server as a whole.
        if request.uri().path() == "*" && request.method() == Method::OPTIONS {
            return answer_unless_read(&request)
                .unwrap_or_else(|| Response::new(StatusCode::NO_CONTENT))
                .into();
        }
        // RFC 9110 §7.4: an https resource asked for over a connection that nothing secures MUST be refused.
        if request.uri().scheme() == Some(&Scheme::HTTPS) {
            let explanation = "This connection is not encrypted: https is not spoken on it.";
            return pages::error(StatusCode::MISDIRECTED_REQUEST, request.headers(), explanation).into();
        }
        match self.router.find(|| request_host(&request), request.uri().path()) {
            Ok(found) => match &found.handler.authorizer {
                Some(authorizer) => authorizer.call(request, client, local, self),
                None => self.hand_over(request, client, local, &found),
            },
            Err(not_found) => answer_nobody(&request, not_found).into(),
        }
    }

    /// Answers a request that the authorizer of its route has let in.
    pub(crate) fn reply_to_admitted(
        self: &Arc<Self>,
        request: Request,
        client: &Client,
        local: &Local,
    ) -> Reply {
        // The request is the same and so are the routes, so this is the route whose authorizer was asked.
        match self.router.find(|| request_host(&request), request.uri().path()) {
            Ok(found) => self.hand_over(request, client, local, &found),
            Err(not_found) => answer_nobody(&request, not_found).into(),
        }
    }

    fn hand_over(
        self: &Arc<Self>,
        request: Request,
        client: &Client,
        local: &Local,
        found: &Found<'_, Target>,
    ) -> Reply {
        match &found.handler.handler {
            Handler::Files(files) => files.call(&request, &found.path_below(request.uri().path())),
            Handler::Redirect(redirect) => redirect.answer(&request, found.pattern).into(),
            Handler::Respond(respond) => respond.answer(&request).into(),
            Handler::Status(status) => status.answer(&request, client, &self.vitals).into(),
            Handler::Stream(stream) => stream.answer(&request).into(),
            Handler::Broadcast(broadcast) => broadcast.call(request, client, &self.topics),
            Handler::Tail(tail) => tail.answer(&request, client).into(),
            Handler::Delay(delay) => delay.call(&request),
            Handler::Info(info) => info.answer(&request, client, &self.vitals).into(),
            Handler::Fastcgi(fastcgi) => fastcgi.call(request, client, local, found.pattern, self),
            Handler::Php(php) => {
                let below = found.path_below(request.uri().path()).into_owned();
                php.call(request, client, local, &below, self)
            }
        }
    }
}

fn answer_nobody(request: &Request, why: NotFound) -> Response {
    // An unknown method is unknown wherever it is tried.
    answer_unless_known(request).unwrap_or_else(|| {
        let error = |status, explanation: &str| pages::error(status, request.headers(), explanation);
        match why {
            // RFC 9110 §7.4: a request for a host that nobody here answers for is misdirected.
            NotFound::Host => error(StatusCode::MISDIRECTED_REQUEST, "No site here is for this host."),
            NotFound::Path => error(StatusCode::NOT_FOUND, "There is nothing at this address."),
            NotFound::BadPath(refusal) => error(StatusCode::BAD_REQUEST, &format!("Refused: {refusal}.")),
        }
    })
}

//! The step that limits the size of request bodies.

use http::{Method, StatusCode};
use http_body::Body as _;
use rudy_net::{Reply, Request};
use rudy_units::Size;

use super::{HeadCall, Next, Step};
use crate::handlers::Call;
use crate::pages;

/// Rejects larger bodies: at once if their length is known, otherwise while the handler reads them.
#[derive(Debug)]
pub(super) struct BodyLimit {
    pub(super) bytes: u64,
}

impl Step for BodyLimit {
    fn call(&self, request: Request, call: Call<'_>, next: Next) -> Reply {
        // A tunnel is no body: it has limits of its own.
        if *request.method() == Method::CONNECT {
            return next.call(request, call);
        }
        if request.body().size_hint().exact().is_some_and(|length| length > self.bytes) {
            let explanation = format!("The request body is larger than {} bytes (`body_bytes`).", self.bytes);
            return pages::error(StatusCode::PAYLOAD_TOO_LARGE, request.headers(), &explanation).into();
        }
        next.call(request.map(|body| body.at_most(self.bytes)), call)
    }

    fn describe(&self) -> Vec<String> {
        vec![format!("body: at most {}, otherwise 413", <Size>::from(self.bytes))]
    }

    /// Only requests without a body are answered from their head.
    fn finish(&self, response: rudy_net::Response, _call: HeadCall<'_>) -> Option<rudy_net::Response> {
        Some(response)
    }

    fn can_finish(&self) -> bool {
        true
    }
}

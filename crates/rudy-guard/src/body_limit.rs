//! The step that limits the size of request bodies.

use http::{Method, StatusCode};
use http_body::Body as _;
use rudy_pipeline::{Call, Flow, Passage, Step, pages};
use rudy_units::Size;

/// Rejects larger bodies: at once if their length is known, otherwise while the handler reads them.
#[derive(Debug)]
pub struct BodyLimit {
    /// The maximum size of a body.
    pub bytes: u64,
}

impl Step for BodyLimit {
    fn request(&self, passage: &mut Passage<'_>, _: &Call<'_>) -> Flow {
        let request = &mut passage.request;
        // A tunnel is no body: it has limits of its own.
        if *request.method() == Method::CONNECT {
            return Flow::Continue;
        }
        if request.body().size_hint().exact().is_some_and(|length| length > self.bytes) {
            let explanation = format!("The request body is larger than {} bytes (`body_bytes`).", self.bytes);
            return pages::error(StatusCode::PAYLOAD_TOO_LARGE, request.headers(), &explanation).into();
        }
        let body = std::mem::take(request.body_mut());
        *request.body_mut() = body.at_most(self.bytes);
        Flow::Continue
    }

    fn describe(&self) -> Vec<String> {
        vec![format!("body: at most {}, otherwise 413", <Size>::from(self.bytes))]
    }
}

//! The step that limits how fast responses are sent.

use http::Method;
use rudy_pipeline::pacing::Rate;
use rudy_pipeline::request_state::HasResponseState;
use rudy_pipeline::{Call, Flow, Kept, Passage, ResponseStep, Step};
use rudy_service::{Reply, Response};
use rudy_units::bytes;

/// Sends each response with a rate.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bandwidth(pub(super) Rate);

impl Step for Bandwidth {
    fn request(&self, passage: &mut Passage<'_>, _: &Call<'_>) -> Flow {
        passage.kept.is_tunnel = *passage.request.method() == Method::CONNECT;
        Flow::Continue
    }

    fn for_responses(&self) -> Option<&dyn ResponseStep> {
        Some(self)
    }

    fn describe(&self) -> Vec<String> {
        let Rate { bytes_per_second, after } = self.0;
        let rate = format!("bandwidth: {}/s for each response", bytes(bytes_per_second));
        vec![if after == 0 { rate } else { format!("{rate}, after {}", bytes(after)) }]
    }
}

impl ResponseStep for Bandwidth {
    fn response(&self, response: Response, kept: &mut Kept<'_>, _: &Call<'_>) -> Reply {
        // The route that an internal redirect led to has its own bandwidth, and a tunnel is not a response.
        let is_other = response.state().is_redirected || response.state().has_own_rate;
        if kept.is_tunnel || is_other { response.into() } else { self.0.pace(response).into() }
    }
}

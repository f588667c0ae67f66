//! The step that limits how long a handler may take to begin its response.

use std::time::Duration;

use rudy_pipeline::pages::Form;
use rudy_pipeline::{Call, Flow, Passage, Step};
use rudy_runtime::clock;

/// Responds with 504 if the handler does not begin its response in time. Its work is cancelled.
#[derive(Debug)]
pub struct RequestTimeout(pub Duration);

impl Step for RequestTimeout {
    fn request(&self, passage: &mut Passage<'_>, _: &Call<'_>) -> Flow {
        let form = Form::preferred(passage.request.headers());
        passage.kept.timeout = Some((clock::now() + self.0, form));
        Flow::Continue
    }

    fn describe(&self) -> Vec<String> {
        vec![format!("timeout: 504 without a response in {:?}", self.0)]
    }
}

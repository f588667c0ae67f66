//! The fields of users, which only logins set.

use http::HeaderName;
use rudy_pipeline::own_fields::{remove_spellings, remove_trailers};
use rudy_pipeline::{Call, Flow, Passage, Step};

/// Removes the fields in which the logins of a site name users, on all its routes: an application behind a route without a login may be
/// the same as behind one with a login.
#[derive(Debug)]
pub struct WithoutUserFields(pub Vec<HeaderName>);

impl Step for WithoutUserFields {
    fn request(&self, passage: &mut Passage<'_>, _: &Call<'_>) -> Flow {
        for name in &self.0 {
            remove_spellings(name, &mut passage.request);
        }
        remove_trailers(&mut passage.request);
        Flow::Continue
    }

    fn describe(&self) -> Vec<String> {
        let names: Vec<_> = self.0.iter().map(HeaderName::as_str).collect();
        vec![format!("request: remove {}, which only logins set", names.join(", "))]
    }
}

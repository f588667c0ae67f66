//! The fields of requests that choose among routes, for other caches.

use http::HeaderValue;
use rudy_pipeline::{Call, Kept, ResponseStep, Step, vary};
use rudy_service::{Reply, Response};

/// Adds the fields on which the conditions of routes depend to `Vary` of each response, errors too: another request for the same URL may
/// get another route.
#[derive(Debug)]
pub struct VaryByConditions;

impl Step for VaryByConditions {
    fn for_responses(&self) -> Option<&dyn ResponseStep> {
        Some(self)
    }

    fn describe(&self) -> Vec<String> {
        vec!["when: Vary has the fields that choose the route".to_owned()]
    }
}

impl ResponseStep for VaryByConditions {
    fn response(&self, mut response: Response, _: &mut Kept<'_>, call: &Call<'_>) -> Reply {
        call.route.choosing_fields(call.path, &mut |name| {
            vary::add(&mut response, HeaderValue::from(name));
        });
        response.into()
    }
}

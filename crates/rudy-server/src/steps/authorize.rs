//! The step that asks an app whether a request is allowed.

use std::io;

use rudy_net::Request;

use super::{Flow, Passage, Step};
use crate::fastcgi::Authorizer;
use crate::handlers::{Call, Start};

impl Step for Authorizer {
    fn request(&self, passage: &mut Passage<'_>, call: &Call<'_>) -> Flow {
        Flow::Wait(self.decide(passage, call))
    }

    fn acts_on(&self, _: &Request<'_>) -> Option<&'static str> {
        Some("authorization: the application is not asked")
    }

    fn describe(&self) -> Vec<String> {
        vec![self.describe()]
    }

    fn start(&self, start: &Start<'_>) -> io::Result<()> {
        self.start(start)
    }
}

//! The step that asks an app whether a request is allowed.

use std::io;

use super::{Flow, Passage, Step};
use crate::fastcgi::Authorizer;
use crate::handlers::{Call, Start};

impl Step for Authorizer {
    fn request(&self, passage: &mut Passage<'_>, call: &Call<'_>) -> Flow {
        Flow::Wait(self.decide(passage, call))
    }

    fn describe(&self) -> Vec<String> {
        vec![self.describe()]
    }

    fn start(&self, start: &Start<'_>) -> io::Result<()> {
        self.start(start)
    }
}

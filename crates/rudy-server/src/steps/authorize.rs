//! The step that asks an app whether a request is allowed.

use std::io;

use rudy_net::{Reply, Request};

use super::{Next, Resume, Step};
use crate::fastcgi::Authorizer;
use crate::handlers::{Call, Start};

impl Step for Authorizer {
    fn call(&self, request: Request, call: Call<'_>, next: Next) -> Reply {
        self.call(request, Resume::new(&call, next))
    }

    fn describe(&self) -> Vec<String> {
        vec![self.describe()]
    }

    fn start(&self, start: &Start<'_>) -> io::Result<()> {
        self.start(start)
    }
}

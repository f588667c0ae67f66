//! Who may see what the server tells of itself.

use http::StatusCode;
use rudy_net::{Client, Request, Response};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::pages;

/// Who may see what the server tells of itself.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Audience {
    /// Peers on this machine: a loopback address or a Unix socket.
    #[default]
    Loopback,
    /// Anyone who can reach the server.
    Anyone,
}

impl Audience {
    /// For `rudy check`.
    pub(super) fn describe(self) -> &'static str {
        match self {
            Self::Loopback => "for this machine only",
            Self::Anyone => "for anyone",
        }
    }

    /// The answer to those who may not see it, `None` for the others. It is 403: that there is such a page is no secret, and
    /// 404 would have the operator look for a mistake in the routes.
    pub(super) fn refuse(self, request: &Request, client: &Client) -> Option<Response> {
        (self == Self::Loopback && !client.peer.is_local()).then(|| {
            let explanation = "This is shown on the server's own machine only.";
            pages::error(StatusCode::FORBIDDEN, request.headers(), explanation)
        })
    }
}

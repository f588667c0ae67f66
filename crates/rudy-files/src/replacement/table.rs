//! The settings of replacements.

use std::path::PathBuf;

use rudy_config::{FilePath, OneOrMany, Table};
use rudy_pipeline::routing::PathPattern;
use rudy_pipeline::wildcard::Wildcard;

/// What an app may name instead of a response of its own.
#[derive(Debug, Clone, PartialEq, Eq, Table)]
#[setting(default)]
pub struct ReplacementTable {
    /// Folder from which the app can send files, with the response field `X-Sendfile` or `X-Accel-Redirect`, relative
    /// to the configuration file. The app checks the access, and Rudy sends the file. Without it, a response with
    /// such a field becomes 502.
    #[setting(example = "/srv/downloads")]
    pub sendfile_root: Option<FilePath>,
    /// Paths of the site to which the app can redirect internally with the response field `X-Accel-Redirect`, in the notation of `path`
    /// of a route. The client gets the response of the route for that path. `internal = true` keeps clients
    /// away from the route. Other paths name files below `sendfile_root`.
    #[setting(example = "/protected/*")]
    pub accel_redirect: Option<OneOrMany<PathPattern>>,
    /// Further fields of the app's response that the client gets with the response of the route, in place of those of the route. `*`
    /// matches any characters. `Content-Type`, `Content-Disposition`, `Cache-Control`, `Expires`, `Accept-Ranges` and `Set-Cookie` need
    /// no entry.
    #[setting(example = "X-App-*")]
    pub accel_fields: Option<OneOrMany<Wildcard>>,
}

impl ReplacementTable {
    /// Returns the folder that it reads.
    pub fn paths_read(&self) -> impl Iterator<Item = PathBuf> {
        self.sendfile_root.iter().map(|root| root.0.clone())
    }
}

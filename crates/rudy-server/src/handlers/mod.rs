//! Handlers: each responds to the requests of a route, and has a module here.
//!
//! A handler has a table in the configuration ([`HandlerConfig`]), which builds the type that responds ([`Handler`]). To add one,
//! write its module, and name its table in the list below.

pub(crate) mod broadcast;
mod delay;
mod info;
mod metrics;
mod redirect;
pub(crate) mod redirect_map;
mod respond;
mod rewrite;
mod status;
pub(crate) mod stream;
mod subscribe;
mod tail;

use std::fmt::Debug;
use std::io;
use std::path::PathBuf;

use http::StatusCode;
use rudy_config::{Location, Problem};
use rudy_http::semantics::path::{PathBelow, RequestPath};
use rudy_log::ErrorLog;
use rudy_net::{Reply, Request};
use schemars::JsonSchema;
use serde::Deserialize;

pub use broadcast::BroadcastTable;
pub use delay::DelayTable;
pub use info::InfoTable;
pub use metrics::MetricsTable;
pub use redirect::RedirectTable;
pub use respond::RespondTable;
pub use rewrite::RewriteTable;
pub use status::StatusTable;
pub use stream::{StreamFormat, StreamTable};
pub(crate) use subscribe::Subscribe;
pub use tail::TailTable;

use crate::compression::CompressionSetting;
use crate::config::{AppTable, Site};
use crate::dashboard::DashboardTable;
use crate::fastcgi::{Apps, FastcgiTable};
use crate::files::access::on_pool;
use crate::files::{FileTypes, FilesTable, Folders};
use crate::methods::READ_METHODS;
use crate::mirror::MirrorTable;
use crate::php::PhpTable;
use crate::proxy::{Proxy, ProxyTable};
use crate::routes::Context;
use crate::routing::{PathPattern, RouteMatch};
use crate::steps::{OwnedCall, Target};
use crate::template::Subject;

/// Responds to the requests of a route.
pub(crate) trait Handler: Debug + Send + Sync {
    /// Responds to a request, now or later.
    fn call(&self, request: Request<'_>, call: Call<'_>) -> Reply;

    /// Starts background work, such as the processes of an app, when the configuration takes effect. Sets the log for errors; only
    /// the first call does.
    fn start(&self, start: &Start<'_>) -> io::Result<()> {
        let _ = start;
        Ok(())
    }

    /// Whether HTTP/2 clients may request tunnels (RFC 8441).
    fn accepts_tunnels(&self) -> bool {
        false
    }

    /// Returns the proxy, if the handler is one.
    fn proxy(&self) -> Option<&Proxy> {
        None
    }

    /// Whether the handler serves files of a folder only, which depend on no application.
    fn serves_files(&self) -> bool {
        false
    }

    /// Returns the supported methods, for `Allow`.
    fn methods(&self) -> &'static str {
        READ_METHODS
    }
}

/// The handler of responses that the server itself makes, around which there are only steps: it is never called.
#[derive(Debug)]
pub(crate) struct NoHandler;

impl Handler for NoHandler {
    fn call(&self, request: Request<'_>, _: Call<'_>) -> Reply {
        let explanation = "The requested URL was not found on this server.";
        crate::pages::error(StatusCode::NOT_FOUND, request.headers(), explanation).into()
    }
}

/// The context of a request: its path, its route, and what all handlers share.
#[derive(Clone, Copy)]
pub(crate) struct Call<'a> {
    /// The canonical path of the request.
    pub(crate) path: &'a RequestPath<'a>,
    pub(crate) route: &'a RouteMatch<'a, Target>,
    pub(crate) context: Context<'a>,
}

impl Call<'_> {
    /// Returns the part of the path that the handler uses.
    pub(crate) fn below(&self) -> PathBelow<'_> {
        self.route.below(self.path)
    }

    /// Passes a request to its handler on the blocking pool, because the handler has to wait for the file system.
    pub(crate) fn on_pool(&self, request: Request<'_>) -> Reply {
        let (request, call) = (self.detach(request), OwnedCall::of(self));
        let reply = on_pool(move |access| {
            Ok(call.with(access, |call| call.route.handler.handler.call(request, call)))
        });
        Reply::Later(Box::pin(async move { reply.await.response().await }))
    }

    /// Returns a request with a copy of what it borrows, for a handler that waits.
    pub(crate) fn detach(&self, request: Request<'_>) -> Request<'static> {
        self.context.detach(request, self.route)
    }

    /// Returns what the placeholders of a template stand for.
    pub(crate) fn subject<'s>(&'s self, request: &'s Request<'_>) -> Subject<'s> {
        Subject { request, path: self.path, pattern: self.route.pattern, client: self.context.client }
    }

    /// Returns the path in the site of a file in the handler's folder if another route matches it.
    pub(crate) fn path_on_other_route(&self, file: &str) -> Option<RequestPath<'static>> {
        self.route.path_on_other_route(self.path, file)
    }
}

/// The context in which a handler starts.
pub(crate) struct Start<'a> {
    /// The processes that run already.
    pub(crate) apps: &'a Apps,
    pub(crate) log: &'a ErrorLog,
    /// The URLs of the upstreams that the operator has drained.
    pub(crate) drained: &'a [String],
}

/// The table of a handler in the configuration.
pub(crate) trait HandlerConfig {
    /// A summary for `rudy check`, in a few words.
    fn describe(&self) -> String;

    /// Builds the handler, or returns all problems of the table.
    fn build(&self, route: &BuildContext<'_>) -> Result<Box<dyn Handler>, Vec<Problem>>;

    /// Whether its responses are endless.
    fn is_endless(&self) -> bool {
        false
    }

    /// The files and folders that it reads.
    fn paths_read(&self) -> Vec<PathBuf> {
        Vec::new()
    }

    /// Whether it has a file in the state folder.
    fn keeps_state(&self) -> bool {
        false
    }

    /// The app that it passes requests to.
    fn app(&self) -> Option<&AppTable> {
        None
    }

    /// The suffix of the scripts that it, or its app, runs with path info, in a route with these paths.
    fn script_suffix<'a>(&'a self, paths: &'a [PathPattern]) -> Option<&'a str> {
        let _ = paths;
        None
    }
}

/// The route that a handler is built for.
pub(crate) struct BuildContext<'a> {
    /// The location of the table.
    pub(crate) location: &'a Location,
    pub(crate) paths: &'a [PathPattern],
    pub(crate) site: &'a Site,
    pub(crate) folders: &'a Folders,
    /// The compression of the route, or else of its site.
    pub(crate) compression: Option<&'a CompressionSetting>,
    /// The media types of files.
    pub(crate) types: FileTypes,
}

/// Lists all handlers: the key in a route, and the table.
macro_rules! handlers {
    ($($(#[$doc:meta])* $key:literal: $name:ident($table:ty),)+) => {
        /// The handler of a route, as configured.
        #[derive(Debug, Clone, Deserialize, JsonSchema)]
        pub enum HandlerTable {
            $($(#[$doc])* #[serde(rename = $key)] $name(Box<$table>),)+
        }

        impl HandlerTable {
            /// Its key in a route.
            pub(crate) fn key(&self) -> &'static str {
                match self {
                    $(Self::$name(_) => $key,)+
                }
            }

            /// Whether `cache` stores its responses: those of apps and upstreams.
            pub(crate) fn is_cacheable(&self) -> bool {
                matches!(self, Self::Proxy(_) | Self::Fastcgi(_) | Self::Php(_) | Self::Mirror(_))
            }

            fn table(&self) -> &dyn HandlerConfig {
                match self {
                    $(Self::$name(table) => &**table,)+
                }
            }
        }
    };
}

handlers! {
    /// Serves files from a folder.
    "files": Files(FilesTable),
    /// Redirects to another URL.
    "redirect": Redirect(RedirectTable),
    /// Responds with another path of the site.
    "rewrite": Rewrite(RewriteTable),
    /// Sends a fixed response.
    "respond": Respond(RespondTable),
    /// Shows the counters of the server as JSON.
    "status": Status(StatusTable),
    /// Shows the metrics of the server, for Prometheus.
    "metrics": Metrics(MetricsTable),
    /// Shows what the server does, as a page that updates itself.
    "dashboard": Dashboard(DashboardTable),
    /// Streams generated chunks at an interval.
    "stream": Stream(StreamTable),
    /// Sends the messages that are published at a path to all clients that subscribe to it.
    "broadcast": Broadcast(BroadcastTable),
    /// Streams the lines of files while they are written.
    "tail": Tail(TailTable),
    /// Responds after a delay.
    "delay": Delay(DelayTable),
    /// Shows which process, thread, task and engine serves the request.
    "info": Info(InfoTable),
    /// Passes requests to a FastCGI app.
    "fastcgi": Fastcgi(FastcgiTable),
    /// Passes requests to an application over HTTP (reverse proxy).
    "proxy": Proxy(ProxyTable),
    /// Mirrors a package repository: stores what clients request, and keeps it available while the repository is not.
    "mirror": Mirror(MirrorTable),
    /// Runs a PHP application: php-fpm runs its scripts, Rudy serves its files, and other paths go to `index.php`.
    "php": Php(PhpTable),
}

impl HandlerConfig for HandlerTable {
    fn describe(&self) -> String {
        self.table().describe()
    }

    fn build(&self, route: &BuildContext<'_>) -> Result<Box<dyn Handler>, Vec<Problem>> {
        self.table().build(route)
    }

    fn is_endless(&self) -> bool {
        self.table().is_endless()
    }

    fn paths_read(&self) -> Vec<PathBuf> {
        self.table().paths_read()
    }

    fn keeps_state(&self) -> bool {
        self.table().keeps_state()
    }

    fn app(&self) -> Option<&AppTable> {
        self.table().app()
    }

    fn script_suffix<'a>(&'a self, paths: &'a [PathPattern]) -> Option<&'a str> {
        self.table().script_suffix(paths)
    }
}

/// The status of a response, from 200 to 599.
pub(crate) type Status = rudy_config::Int<200, 599>;

/// Returns the status as the HTTP library's type. All values of `Status` are valid there.
pub(crate) fn status_code(status: Status) -> StatusCode {
    StatusCode::from_u16(status.as_u16()).unwrap_or(StatusCode::OK)
}

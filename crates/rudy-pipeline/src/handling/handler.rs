//! What responds to the requests of a route.

use std::any::Any;
use std::fmt::Debug;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use http::StatusCode;
use rudy_config::{Location, Problem};
use rudy_log::ErrorLog;
use rudy_message::semantics::path::{PathBelow, RequestPath};
use rudy_service::{Client, Observer, Reply, Request, Upgrade};
use rudy_system::file_access::on_pool;

use super::context::Context;
use super::passage::OwnedCall;
use super::step::Target;
use crate::compression::CompressionSetting;
use crate::media_types::FileTypes;
use crate::methods::READ_METHODS;
use crate::resources::Resources;
use crate::routing::template::{Scope, Subject};
use crate::routing::{HostPattern, Maps, PathPattern, RouteMatch};

/// Responds to the requests of a route.
pub trait Handler: Any + Debug + Send + Sync {
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

    /// Returns what serves a connection that does not speak HTTP, for a handler of connections. It notifies `observer` of the end.
    fn take_over(&self, client: &Client<'_>, observer: Arc<dyn Observer>) -> Option<Upgrade> {
        let _ = (client, observer);
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
pub struct NoHandler;

impl Handler for NoHandler {
    fn call(&self, request: Request<'_>, _: Call<'_>) -> Reply {
        let explanation = "The requested URL was not found on this server.";
        crate::pages::error(StatusCode::NOT_FOUND, request.headers(), explanation).into()
    }
}

/// The context of a request: its path, its route, and what all handlers share.
#[derive(Clone, Copy)]
pub struct Call<'a> {
    /// The canonical path of the request.
    pub path: &'a RequestPath<'a>,
    /// The route of the request.
    pub route: &'a RouteMatch<'a, Target>,
    /// The client, and the routes of the configuration.
    pub context: Context<'a>,
}

impl Call<'_> {
    /// Returns the part of the path that the handler uses.
    #[must_use]
    pub fn below(&self) -> PathBelow<'_> {
        self.route.below(self.path)
    }

    /// Passes a request to its handler on the blocking pool, because the handler has to wait for the file system.
    pub fn on_pool(&self, request: Request<'_>) -> Reply {
        let (request, call) = (self.detach(request), OwnedCall::of(self));
        let reply = on_pool(move |access| {
            Ok(call.with(access, |call| call.route.handler.handler.call(request, call)))
        });
        Reply::Later(Box::pin(async move { reply.await.response().await }))
    }

    /// Returns a request with a copy of what it borrows, for a handler that waits.
    pub fn detach(&self, request: Request<'_>) -> Request<'static> {
        self.context.detach(request, self.route)
    }

    /// Returns what the placeholders of a template stand for.
    pub fn subject<'s>(&'s self, request: &'s Request<'_>) -> Subject<'s> {
        Subject {
            request,
            path: self.path,
            pattern: self.route.pattern,
            client: self.context.client,
            maps: &self.context.routes.maps,
            listeners: self.context.routes.router.listeners(),
        }
    }

    /// Passes a request on to the next route that matches, as the client sent it.
    pub fn next_route(&self, request: Request<'_>) -> Reply {
        self.context.to_next_route(request, self.path, self.route.id)
    }

    /// Returns the path in the site of a file in the handler's folder if another route matches it.
    #[must_use]
    pub fn path_on_other_route(&self, file: &str) -> Option<RequestPath<'static>> {
        self.route.path_on_other_route(self.path, file)
    }
}

/// The context in which a handler starts.
pub struct Start<'a> {
    /// What runs already, such as processes and connections.
    pub resources: &'a Resources,
    /// The log of the route.
    pub log: &'a ErrorLog,
    /// The number of workers of the engine.
    pub workers: usize,
    /// The URLs of the upstreams that the operator has drained.
    pub drained: &'a [String],
}

/// The table of a handler in the configuration.
pub trait HandlerConfig {
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

    /// The suffix of the scripts that it, or its app, runs with path info, in a route with these paths.
    fn script_suffix<'a>(&'a self, paths: &'a [PathPattern]) -> Option<&'a str> {
        let _ = paths;
        None
    }
}

/// The route that a handler is built for.
pub struct BuildContext<'a> {
    /// The location of the table.
    pub location: &'a Location,
    /// The paths of the route.
    pub paths: &'a [PathPattern],
    /// The hosts of the site; empty for the default site.
    pub hosts: &'a [HostPattern],
    /// The own addresses of the site, as a part of names: a site at other addresses may have the same hosts. Empty without them.
    pub own_addresses: &'a str,
    /// Whether a route of the site runs PHP.
    pub on_php_site: bool,
    /// What outlives the configuration.
    pub resources: &'a Resources,
    /// What placeholders stand for.
    pub maps: &'a Maps,
    /// The compression of the route, or else of its site.
    pub compression: Option<&'a CompressionSetting>,
    /// The media types of files.
    pub types: FileTypes,
}

impl<'a> BuildContext<'a> {
    /// Returns what defines the placeholders of a text.
    #[must_use]
    pub fn scope(&self) -> Scope<'a> {
        Scope { paths: self.paths, hosts: self.hosts, maps: self.maps }
    }

    /// Returns the first host of the site; empty for the default site.
    #[must_use]
    pub fn host(&self) -> String {
        self.hosts.first().map(ToString::to_string).unwrap_or_default()
    }

    /// A route of the default site, whose handler has its table at this location, for the tests of handlers.
    #[must_use]
    pub fn of_default_site(location: &'a Location, resources: &'a Resources) -> Self {
        Self {
            location,
            paths: &[],
            hosts: &[],
            own_addresses: "",
            on_php_site: false,
            resources,
            maps: Maps::none(),
            compression: None,
            types: FileTypes::default(),
        }
    }
}

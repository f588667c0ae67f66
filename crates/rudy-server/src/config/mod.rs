//! The configuration: `rudy.toml` as it is written ([`mod@file`]), read with all that is wrong in it ([`read`]), and what it means.

mod app;
mod authorize;
mod buffer;
mod describe;
mod diagnostics;
mod engine;
mod fastcgi;
mod fields;
pub mod file;
mod hints;
mod include;
mod limits;
mod load;
mod path_info;
mod processes;
mod read;
mod schema;
mod start;
#[cfg(test)]
mod tests;
mod values;
mod variables;

use std::sync::Arc;
use std::time::Duration;

pub use app::AppTable;
pub use authorize::{AuthorizeTable, RouteAuthorize};
pub use diagnostics::Diagnostics;
pub(crate) use diagnostics::{Location, Problem, Sources, visible};
pub use engine::EngineOptions;
pub use fields::Fields;
pub(crate) use fields::field_value;
pub(crate) use hints::missing;
pub use processes::ProcessesTable;
#[cfg(test)]
pub(crate) use read::from_text;
pub(crate) use read::{ask, two_lines};
use rudy_net::listen::Address;
pub use schema::json_schema;
pub(crate) use start::root_may;
pub use values::{FilePath, Int, ListenAddress, Located, OneOrMany, Size, Time};
pub(crate) use values::{TextVisitor, add_short_form, as_size, as_time, count, short_form, written_as_text};
pub(crate) use variables::Placeholders;

use crate::access_log::{Destination, Format};
use crate::buffer::Options as BufferOptions;
use crate::fastcgi::PHP_SUFFIX;
use crate::files::FilesTable;
use crate::handlers::HandlerTable;
use crate::routing::{HostPattern, PathPattern};

/// systemd sends SIGKILL after 90 s: well within that, and longer than a request that a person waits for.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(30);
/// More than the slowest start of an app that should succeed, and soon enough for a person who waits for the outcome.
const UPGRADE_TIMEOUT: Duration = Duration::from_mins(1);

/// What a server is to do: a configuration file with what it includes, or what the flags say.
///
/// Paths in it are resolved. That its pieces fit together is checked by [`App::new`](crate::App::new).
#[derive(Debug, Clone)]
pub struct Config {
    /// Where to accept connections.
    pub listen: Vec<Address>,
    /// The concurrency model, and what goes with it.
    pub engine: EngineOptions,
    /// What peers may do.
    pub limits: rudy_net::Limits,
    /// Where bodies are stored, and how much of them.
    pub buffer: BufferOptions,
    /// Which proxies are believed.
    pub client_address: crate::client_address::Options,
    /// Where a line for each request goes.
    pub access_log: Option<AccessLogOptions>,
    /// How long requests under way may take once the server was asked to stop.
    pub shutdown_timeout: Duration,
    /// How long a process that is to replace this one may take to be ready.
    pub upgrade_timeout: Duration,
    /// The user to run as, and its group: `www-data`, `www-data:group`. The user of the process if absent.
    pub user: Option<String>,
    /// Whether the process confines itself to the folders of the configuration.
    pub sandbox: bool,
    /// The sites, in written order.
    pub sites: Vec<Site>,
    /// What was not taken, with the reason: files in an included folder.
    pub ignored: Vec<String>,
    /// What a start needs and this user may not do, though root may: found by [`Self::check_start`].
    pub(crate) not_permitted: Vec<String>,
    pub(crate) sources: Arc<Sources>,
}

/// Where a line for each request goes, and how it looks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessLogOptions {
    /// Where to.
    pub destination: Destination,
    /// How it looks.
    pub format: Format,
}

/// A site: the hosts it answers for, and its routes in written order.
#[derive(Debug, Clone)]
pub struct Site {
    /// The hosts; none for the default site.
    pub hosts: Vec<HostPattern>,
    /// The routes; the first that takes a path answers.
    pub routes: Vec<Route>,
    /// Who says who may come in, before any of them answers.
    pub authorize: Option<Box<AuthorizeTable>>,
    pub(crate) location: Location,
}

impl Site {
    /// Whether a route of it runs PHP.
    pub(crate) fn runs_php(&self) -> bool {
        self.routes.iter().any(|route| match &route.handler {
            HandlerTable::Php(_) => true,
            HandlerTable::Fastcgi(table) => table.suffix(&route.paths) == Some(PHP_SUFFIX),
            _ => false,
        })
    }
}

/// A route: the paths it takes, and what answers them.
#[derive(Debug, Clone)]
pub struct Route {
    /// The paths, one at least.
    pub paths: Vec<PathPattern>,
    /// What answers.
    pub handler: HandlerTable,
    /// Who says who may come in; whom the site asks if absent.
    pub authorize: Option<RouteAuthorize>,
    /// Whether TRACE gets to the handler.
    pub allow_trace: bool,
    /// Where the route stands.
    pub(crate) location: Location,
    /// Where the paths stand.
    pub(crate) paths_location: Location,
    /// Where the handler's table stands.
    pub(crate) handler_location: Location,
}

impl Config {
    /// One site that serves the files as `files` says, on 127.0.0.1:8080: for every host until its `hosts` are set.
    ///
    /// # Panics
    /// Never: the pattern for everything is well formed.
    #[must_use]
    pub fn for_files(files: FilesTable) -> Self {
        let route = Route::everything(HandlerTable::Files(Box::new(files)), &Location::none());
        Self {
            sites: vec![Site {
                hosts: Vec::new(),
                routes: vec![route],
                authorize: None,
                location: Location::none(),
            }],
            ..Self::empty()
        }
    }

    /// What came from the environment, and is not shown.
    pub(crate) fn placeholders(&self) -> &Placeholders {
        &self.sources.placeholders
    }

    fn empty() -> Self {
        Self {
            listen: vec![rudy_net::listen::Endpoint::Ip(([127, 0, 0, 1], 8080).into()).into()],
            engine: EngineOptions::default(),
            limits: rudy_net::Limits::default(),
            buffer: BufferOptions::default(),
            client_address: crate::client_address::Options::default(),
            access_log: None,
            shutdown_timeout: SHUTDOWN_TIMEOUT,
            upgrade_timeout: UPGRADE_TIMEOUT,
            user: None,
            sandbox: false,
            sites: Vec::new(),
            ignored: Vec::new(),
            not_permitted: Vec::new(),
            sources: Arc::default(),
        }
    }
}

impl Route {
    /// Every path, answered by one handler.
    fn everything(handler: HandlerTable, location: &Location) -> Self {
        Self {
            paths: vec![PathPattern::everything()],
            handler,
            authorize: None,
            allow_trace: false,
            location: location.clone(),
            paths_location: location.clone(),
            handler_location: location.clone(),
        }
    }
}

//! All handlers. To add one, write its module, and name its table here.

use std::path::PathBuf;

use rudy_config::{Choice, Invalid, Key, Problem, Setting, Table, Value};
use rudy_files::FilesTable;
use rudy_gateway::fastcgi::{AppTable, FastcgiTable};
use rudy_gateway::php::PhpTable;
use rudy_gateway::uwsgi::{ScgiTable, UwsgiTable};
use rudy_handlers::{
    BroadcastTable, DelayTable, RedirectTable, RespondTable, RewriteTable, StreamTable, TailTable,
};
use rudy_mirror::MirrorTable;
use rudy_pipeline::routing::PathPattern;
use rudy_pipeline::{BuildContext, Handler, HandlerConfig};
use rudy_proxy::ProxyTable;
use rudy_watch::dashboard::DashboardTable;
use rudy_watch::info::InfoTable;
use rudy_watch::metrics::MetricsTable;
use rudy_watch::status::StatusTable;

/// Lists all handlers: the key in a route, and the table.
macro_rules! handlers {
    ($($(#[doc = $doc:literal])* $key:literal: $name:ident($table:ty),)+) => {
        /// The handler of a route, as configured.
        #[derive(Debug, Clone)]
        pub enum HandlerTable {
            $($(#[doc = $doc])* $name(Box<$table>),)+
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
                matches!(self, Self::Proxy(_) | Self::Mirror(_)) || self.app().is_some()
            }

            /// Its app, if it has one.
            pub(crate) fn app(&self) -> Option<&AppTable> {
                match self {
                    Self::Fastcgi(table) => Some(&table.app),
                    Self::Php(table) => Some(&table.0.app),
                    Self::Uwsgi(table) => Some(&table.0.app),
                    Self::Scgi(table) => Some(&table.0.app),
                    _ => None,
                }
            }

            fn table(&self) -> &dyn HandlerConfig {
                match self {
                    $(Self::$name(table) => &**table,)+
                }
            }
        }

        impl Choice for HandlerTable {
            const KEYS: &'static [Key] = &[$(Key {
                name: $key,
                doc: concat!($($doc),*).trim_ascii_start(),
                examples: <$table>::TABLE.examples,
                shape: &<$table>::SHAPE,
                is_required: false,
                default: None,
                reason: None,
            }),+];

            fn read(name: &str, value: &Value<'_>) -> Result<Self, Invalid> {
                match name {
                    $($key => <$table>::read(value).map(|table| Self::$name(Box::new(table))),)+
                    _ => value.expected("a handler"),
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
    /// Passes requests to an app over uwsgi, the protocol of uWSGI.
    "uwsgi": Uwsgi(UwsgiTable),
    /// Passes requests to an app over SCGI.
    "scgi": Scgi(ScgiTable),
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

    fn script_suffix<'a>(&'a self, paths: &'a [PathPattern]) -> Option<&'a str> {
        self.table().script_suffix(paths)
    }
}

//! The `uwsgi` and `scgi` handlers pass requests to an app as [`fastcgi`](crate::fastcgi) does, over a connection for each of them.

use std::path::PathBuf;

use rudy_client::UpstreamAddress;
use rudy_config::{
    Invalid, Location, OneOrMany, Problem, Setting, Shape, Table, TableInfo, TableReader, Value,
};
use rudy_pipeline::routing::PathPattern;
use rudy_pipeline::{BuildContext, Handler, HandlerConfig};

use crate::fastcgi::{AppProtocol, AppTable, FastcgiTable};

/// Defines the table of an app behind a protocol without records.
macro_rules! tables {
    ($($(#[doc = $doc:literal])* $name:ident($protocol:ident, $example:literal);)+) => {
        $(
            $(#[doc = $doc])*
            #[derive(Debug, Clone)]
            pub struct $name(pub FastcgiTable);

            impl Setting for $name {
                const SHAPE: Shape = Shape::Table(|| Self::TABLE);

                fn read(value: &Value<'_>) -> Result<Self, Invalid> {
                    value.table_or::<Self, UpstreamAddress>("an address (\"127.0.0.1:3031\") or a table")
                }
            }

            impl Table for $name {
                const TABLE: &'static TableInfo = &TableInfo {
                    name: stringify!($name),
                    doc: concat!($($doc),*).trim_ascii_start(),
                    examples: &[$example],
                    short: Some(&UpstreamAddress::SHAPE),
                    ..*FastcgiTable::TABLE
                };

                fn read_keys(table: &TableReader<'_>) -> Result<Self, Invalid> {
                    FastcgiTable::read_keys(table).map(Self::of)
                }
            }

            impl From<UpstreamAddress> for $name {
                fn from(address: UpstreamAddress) -> Self {
                    let app = AppTable { address: Some(OneOrMany::from_iter([address])), ..AppTable::default() };
                    Self::of(FastcgiTable { app, ..FastcgiTable::default() })
                }
            }

            impl $name {
                fn of(mut table: FastcgiTable) -> Self {
                    table.app.protocol = AppProtocol::$protocol;
                    Self(table)
                }
            }

            impl HandlerConfig for $name {
                fn describe(&self) -> String {
                    self.0.describe()
                }

                fn paths_read(&self) -> Vec<PathBuf> {
                    self.0.paths_read()
                }

                fn build(&self, route: &BuildContext<'_>) -> Result<Box<dyn Handler>, Vec<Problem>> {
                    let problems = problems(&self.0, route.location);
                    if problems.is_empty() { self.0.build(route) } else { Err(problems) }
                }

                fn script_suffix<'a>(&'a self, paths: &'a [PathPattern]) -> Option<&'a str> {
                    self.0.script_suffix(paths)
                }
            }
        )+
    };
}

tables! {
    /// Passes requests to an app over uwsgi, the protocol of uWSGI. The keys are those of `fastcgi`.
    UwsgiTable(Uwsgi, "\"127.0.0.1:3031\"");
    /// Passes requests to an app over SCGI. The keys are those of `fastcgi`.
    ScgiTable(Scgi, "\"127.0.0.1:4000\"");
}

/// Returns the problems of settings that only FastCGI can have.
fn problems(table: &FastcgiTable, location: &Location) -> Vec<Problem> {
    if table.buffer_chunked {
        return Vec::new();
    }
    let title =
        "`buffer_chunked = false` needs FastCGI: in this protocol, the length of a body comes before it";
    let problem = Problem::value(&location.key("buffer_chunked"), title).label("cannot be `false`");
    vec![problem.help("remove the key; bodies without a length are then stored before they are passed on")]
}

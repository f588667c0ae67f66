//! The store as its users see it.

mod damage;
mod purge;
mod races;
mod snapshot;
mod store;

use std::path::Path;
use std::time::Duration;

use http::{HeaderMap, HeaderName, Request, Response};
use rudy_cache::{Exchange, HttpDate, Policy, Stored};
use tempfile::TempDir;

use crate::{Options, Store};

/// Returns a folder for many short runs, in memory if possible: what a store writes is synced.
pub(crate) fn folder_in_memory() -> TempDir {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() }.unwrap()
}

/// Returns the settings of a store that forgets purges as soon as they are applied.
pub(crate) fn options_in_model(folder: &TempDir) -> Options {
    Options { purge_memory: Duration::ZERO, ..Options::new(folder.path()) }
}

/// Opens a store without its thread, which a model runs as one of its own.
pub(crate) fn open_in_model(folder: &TempDir) -> Store {
    Store::without_background(options_in_model(folder))
}

pub(crate) fn fields(lines: &[(&'static str, &str)]) -> HeaderMap {
    let lines = lines.iter();
    lines.map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap())).collect()
}

/// Returns the metadata of a response with some fields to a request with others.
pub(crate) fn stored(
    response_fields: &[(&'static str, &str)],
    request_fields: &[(&'static str, &str)],
) -> Stored {
    let (mut request, mut response) = (Request::new(()), Response::new(()));
    *request.headers_mut() = fields(request_fields);
    *response.headers_mut() = fields(response_fields);
    response.headers_mut().insert("cache-control", "max-age=60".parse().unwrap());
    let time = HttpDate::from_unix_seconds(1_000_000_000);
    let exchange = Exchange { requested_at: time, received_at: time };
    Policy::default().store(&request, &response, exchange).unwrap()
}

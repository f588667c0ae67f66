//! Commands that ask a running server through its admin socket, or signal it.

pub(crate) mod cache;
pub(crate) mod certificates;
pub(crate) mod limits;
pub(crate) mod metrics;
pub(crate) mod reload;
pub(crate) mod status;
pub(crate) mod upstreams;

use std::io::{self, Write};

use rudy_admin::{Request, Response, RunningServer, ask};
use rudy_server::run::Exit;
use rudy_units::{Visible, visible_json};

/// Asks a server, and prints the text that `show` makes of the response it expects. It returns any other.
fn print_response(
    server: &RunningServer,
    request: &Request,
    show: impl FnOnce(Response) -> Result<String, Response>,
) -> Exit {
    let text = ask(server, request)
        .and_then(|response| show(response).map_err(|other| format!("unexpected response: {other:?}")));
    print_result(text)
}

/// Prints a text, or an error.
fn print_result(result: Result<String, String>) -> Exit {
    // If writing fails, the exit code still reports the result.
    let (_, exit) = match result {
        Ok(text) => (write!(Visible(io::stdout().lock()), "{text}"), Exit::Done),
        Err(why) => (writeln!(Visible(io::stderr().lock()), "error: {why}"), Exit::CannotRun),
    };
    exit
}

/// Formats a line of JSON.
fn json_line(json: &serde_json::Value) -> String {
    format!("{}\n", visible_json(json))
}

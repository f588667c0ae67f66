//! The `delay` handler: responds after a delay, like an application that waits for a database. It shows how an engine handles many
//! concurrent requests that wait.

use std::path::PathBuf;
use std::time::Duration;

use rudy_config::{Fields, FilePath, Location, Problem, Table};
use rudy_pipeline::{BuildContext, Call, Handler, HandlerConfig};
use rudy_service::{Reply, Request};
use rudy_units::Time;

use super::respond::{Respond, ok};
use super::{RespondTable, Status};

/// Responds after a delay, for tests of clients and of many requests in progress.
#[derive(Debug, Clone, Table)]
#[setting(default, example = { time = "40ms" })]
pub struct DelayTable {
    /// Delay before the response, from 1 ms to 10 min.
    #[setting(default = Time(Duration::from_millis(40)), reason = "The default of the measurements that use this handler.")]
    pub time: Time<1, 600_000>,
    /// Status of the response.
    #[setting(default = ok())]
    pub status: Status,
    /// Body of the response, as text. Without `body` and `body_file`, it is a line with the duration of the request.
    #[setting(example = "done")]
    pub body: Option<String>,
    /// File to send as the body, relative to the configuration file. It is kept in memory, and can be at most 1 MiB.
    #[setting(example = "page.html")]
    pub body_file: Option<FilePath>,
    /// Header fields of the response, as in `respond`.
    #[setting(default, example = { "X-Delayed" = "true" })]
    pub headers: Fields,
}

impl HandlerConfig for DelayTable {
    fn describe(&self) -> String {
        format!("{} after {}", self.status.0, self.time)
    }

    fn paths_read(&self) -> Vec<PathBuf> {
        self.body_file.iter().map(|file| file.0.clone()).collect()
    }

    fn build(&self, route: &BuildContext<'_>) -> Result<Box<dyn Handler>, Vec<Problem>> {
        Ok(Box::new(Delay::new(self, route.location)?))
    }
}

impl Handler for Delay {
    fn call(&self, request: Request<'_>, _: Call<'_>) -> Reply {
        self.respond(&request)
    }
}

/// A response and its delay.
#[derive(Debug)]
pub(crate) struct Delay {
    time: Duration,
    respond: Respond,
}

impl Delay {
    /// Prepares the response.
    pub(crate) fn new(table: &DelayTable, location: &Location) -> Result<Self, Vec<Problem>> {
        let DelayTable { time, status, body, body_file, headers } = table.clone();
        // These statuses have no body (RFC 9110 §15.3.5, §15.3.6, §15.4.5).
        let has_no_default = body_file.is_some() || matches!(status.0, 204 | 205 | 304);
        let body = body.or_else(|| (!has_no_default).then(|| format!("Delayed by {time}.\n")));
        let respond = Respond::new(&RespondTable { status, body, body_file, headers }, location)?;
        Ok(Self { time: time.0, respond })
    }

    /// Responds after the delay, also with errors. The wait uses a timer, not a thread.
    fn respond(&self, request: &Request<'_>) -> Reply {
        let response = self.respond.respond(request);
        let time = self.time;
        Reply::Later(Box::pin(async move {
            tokio::time::sleep(time).await;
            response
        }))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use http::StatusCode;
    use rudy_service::{Body, RequestBody, Response};

    use super::*;
    use rudy_config::from_text;

    fn delay(table: &str) -> Result<Delay, Vec<Problem>> {
        from_text(table).and_then(|table| Delay::new(&table, &Location::none()))
    }

    /// Returns the response, and how long it took.
    fn request(table: &str, method: &str) -> (Response, Duration) {
        let delay = delay(table).unwrap();
        let request =
            http::Request::builder().method(method).body(RequestBody::empty()).map(Request::from).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let start = Instant::now();
            let Reply::Later(response) = delay.respond(&request) else { panic!("the response is delayed") };
            (response.await, start.elapsed())
        })
    }

    #[test]
    fn the_response_is_delayed() {
        for ms in [1, 7] {
            let (response, waited) = request(&format!("time = '{ms}ms'"), "GET");
            assert_eq!(response.status(), StatusCode::OK);
            assert!(waited >= Duration::from_millis(ms), "{waited:?}");
        }
    }

    #[test]
    fn the_body_is_the_configured_one_or_shows_the_delay() {
        for (table, method, status, text) in [
            ("", "GET", 200, "Delayed by 40ms.\n"),
            ("time = '1ms'\nbody = 'a'", "GET", 200, "a"),
            ("body = ''", "GET", 200, ""),
            ("status = 503", "POST", 503, "Delayed by 40ms.\n"),
            ("status = 204", "GET", 204, ""),
        ] {
            let (response, _) = request(table, method);
            assert_eq!(response.status(), status, "{table}");
            let body = match &response.body {
                Body::Bytes(bytes) => bytes.clone(),
                Body::Empty | Body::Silence => bytes::Bytes::new(),
                _ => panic!("a text is in memory"),
            };
            assert_eq!(body, text, "{table}");
        }
        assert_eq!(request("time = '1ms'", "POST").0.status(), 405);
    }

    #[test]
    fn invalid_tables_are_rejected_at_the_start() {
        for (table, errors) in [
            ("time = '0s'", 1),
            ("time = '11m'", 1),
            ("time = '0s'\nbody_file = '/nowhere'", 1),
            ("body = 'a'\nbody_file = 'b'", 1),
        ] {
            assert_eq!(delay(table).unwrap_err().len(), errors, "{table}");
        }
    }
}

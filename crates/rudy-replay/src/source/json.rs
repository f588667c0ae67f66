//! The JSON lines of Caddy and Rudy.

use std::collections::HashMap;

use serde::Deserialize;

use super::{Line, SourceError, log};
use crate::Place;

/// The members of both. Caddy has the request in an object.
#[derive(Debug, Deserialize)]
struct Entry {
    request: Option<CaddyRequest>,
    method: Option<String>,
    target: Option<String>,
    host: Option<String>,
    referer: Option<String>,
    user_agent: Option<String>,
    /// A line of Rudy about lines that are missing.
    dropped_lines: Option<u64>,
    /// A response without a complete request, such as one to a malformed head.
    status: Option<u16>,
}

#[derive(Debug, Deserialize)]
struct CaddyRequest {
    method: String,
    uri: String,
    host: Option<String>,
    #[serde(default)]
    headers: HashMap<String, Vec<String>>,
}

pub(super) fn line(line: &str, place: Place) -> Result<Line, SourceError> {
    let entry: Entry = serde_json::from_str(line)
        .map_err(|error| SourceError::at(place, format!("the line is no JSON of an access log: {error}")))?;
    if let Some(request) = entry.request {
        return Ok(caddy(&request, place));
    }
    match (entry.method, entry.target) {
        (Some(method), Some(target)) => {
            let fields = [("referer", entry.referer.as_deref()), ("user-agent", entry.user_agent.as_deref())];
            Ok(log::request(place, &method, &target, entry.host.as_deref(), &fields))
        }
        _ if entry.dropped_lines.is_some() || entry.status.is_some() => Ok(Line::NoRequest),
        _ => {
            let problem =
                "the object has no request: expected `request` of Caddy, or `method` and `target` of Rudy";
            Err(SourceError::at(place, problem))
        }
    }
}

fn caddy(request: &CaddyRequest, place: Place) -> Line {
    let field = |name: &str| {
        let values = request.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        values.and_then(|(_, values)| values.first()).map(String::as_str)
    };
    let fields = [("referer", field("referer")), ("user-agent", field("user-agent"))];
    log::request(place, &request.method, &request.uri, request.host.as_deref(), &fields)
}

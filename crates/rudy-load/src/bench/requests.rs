//! The requests of a run, and the expected responses.

use std::path::Path;

use bytes::Bytes;
use http::{HeaderMap, Method, Version};
use rudy_request::{Encoded, Template, Url};

use super::options::{ExpectedOptions, RequestOptions};
use super::plan::Expected;
use super::urls::{self, Target};
use crate::Mix;
use crate::body::{self, Bodies};

/// Maximum size of all requests with their bodies, in bytes. Each thread has a copy in memory.
const REQUEST_BYTES_MAX: usize = 256 * 1024 * 1024;

/// The requests of a run.
pub(crate) struct Requests {
    /// The mix of requests by weight.
    pub(crate) mix: Mix,
    /// The first URL.
    pub(crate) url: Url,
    /// The number of URLs.
    pub(crate) urls: usize,
}

impl Requests {
    /// Builds the requests of the given URLs and of a file. With `closes_connections`, they ask the server to close the
    /// connection after the response.
    pub(crate) fn new(
        given: &[Url],
        file: Option<&Path>,
        options: &RequestOptions,
        closes_connections: bool,
    ) -> Result<Self, String> {
        let mut bodies = Bodies::default();
        let targets = urls::collect(given, file, &mut bodies)?;
        let bodies: Result<Vec<_>, _> = options.bodies.iter().map(|text| bodies.read_value(text)).collect();
        let weighted = encode_all(options, closes_connections, &targets, &bodies?)?;
        let mix = Mix::new(weighted).map_err(|error| error.to_string())?;
        Ok(Self { mix, url: targets[0].url.clone(), urls: targets.len() })
    }
}

/// Encodes the requests of all targets, with their weights. A target without a body uses the common bodies in turn: one
/// request per body, which share the weight of the target.
fn encode_all(
    options: &RequestOptions,
    closes_connections: bool,
    targets: &[Target],
    bodies: &[Bytes],
) -> Result<Vec<(Encoded, u32)>, String> {
    let template = template(options, closes_connections);
    let common: Vec<_> =
        if bodies.is_empty() { vec![None] } else { bodies.iter().cloned().map(Some).collect() };
    let bodies_per_target = u32::try_from(common.len()).unwrap_or(u32::MAX);
    let mut weighted = Vec::new();
    let mut bytes = 0;
    for target in targets {
        let (weight, target_bodies) = match &target.body {
            Some(body) => (target.weight.saturating_mul(bodies_per_target), &[Some(body.clone())][..]),
            None => (target.weight, &common[..]),
        };
        for body in target_bodies {
            let default = if body.is_some() { Method::POST } else { Method::GET };
            let method = target.method.as_ref().or(options.method.as_ref()).cloned().unwrap_or(default);
            let template = Template { method, body: body.clone(), ..template.clone() };
            let request = template.encode(&target.url);
            let request = request.map_err(|error| format!("{}: {error}", target.url))?;
            bytes += request.bytes.len();
            if bytes > REQUEST_BYTES_MAX {
                return Err(format!(
                    "the requests have more than {REQUEST_BYTES_MAX} bytes in total: use fewer URLs or smaller bodies"
                ));
            }
            weighted.push((request, weight));
        }
    }
    Ok(weighted)
}

/// The template of all requests, without method and body.
fn template(options: &RequestOptions, closes_connections: bool) -> Template {
    let mut fields = HeaderMap::new();
    for (name, value) in &options.fields {
        fields.append(name, value.clone());
    }
    Template {
        fields,
        version: if options.is_http_10 { Version::HTTP_10 } else { Version::HTTP_11 },
        protocols: options.protocols(),
        keep_alive: !closes_connections,
        ..Template::default()
    }
}

/// The expected responses.
pub(super) fn expected(options: &ExpectedOptions) -> Result<Expected, String> {
    let body = options.body.as_deref().map(body::read).transpose()?.map(Bytes::from);
    match (&body, options.body_bytes) {
        (Some(body), Some(bytes)) if body.len() as u64 != bytes => Err(format!(
            "--expect-body has {} bytes, but --expect-bytes is {bytes}: remove one of them",
            body.len()
        )),
        (_, body_bytes) => Ok(Expected { body_bytes, body, same_as_first: None }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn requests(urls: &str, bodies: &[&str]) -> Vec<String> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("urls");
        std::fs::write(&file, urls).unwrap();
        let options = RequestOptions {
            bodies: bodies.iter().map(|&body| body.to_owned()).collect(),
            ..RequestOptions::default()
        };
        let requests = Requests::new(&[], Some(&file), &options, false).unwrap();
        let text = |k| String::from_utf8_lossy(&requests.mix.get(k).bytes).into_owned();
        let line_and_body = |request: String| {
            let line = request.lines().next().unwrap_or_default().trim_end_matches(" HTTP/1.1").to_owned();
            format!("{line} {}", request.split_once("\r\n\r\n").unwrap().1)
        };
        (0..8).map(|k| line_and_body(text(k))).collect()
    }

    #[test]
    fn bodies_are_used_in_turn_with_post() {
        let lines = requests("http://a/x", &["1", "2", "3"]);
        assert_eq!(lines[..4], ["POST /x 1", "POST /x 2", "POST /x 3", "POST /x 1"]);
        assert_eq!(requests("http://a/x", &[])[0], "GET /x ");
    }

    #[test]
    fn a_target_is_requested_with_its_method_body_and_weight() {
        let lines = requests("http://a/x 3\nPUT http://a/y @/dev/null", &["1", "2"]);
        let count = |line: &str| lines.iter().filter(|request| request.starts_with(line)).count();
        assert_eq!([count("POST /x 1"), count("POST /x 2"), count("PUT /y ")], [3, 3, 2], "{lines:?}");
    }
}

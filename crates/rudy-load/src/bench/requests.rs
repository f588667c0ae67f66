//! The requests of a run, and what their answers are to be.

use std::fs;
use std::path::Path;

use bytes::Bytes;
use http::{HeaderMap, Method, Version};

use super::options::{ExpectedOptions, RequestOptions};
use super::plan::Expected;
use crate::Url;
use crate::request::{Mix, Template};

/// A file that is sent or expected as a body is held in memory, once for each thread.
const BODY_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// What every request has. `closes` where each is the only one on its connection.
pub(super) fn template(options: &RequestOptions, closes: bool) -> Result<Template, String> {
    let body = match options.body.as_deref() {
        None => None,
        Some(text) => Some(match text.strip_prefix('@') {
            Some(path) => read_body(Path::new(path))?,
            None => Bytes::copy_from_slice(text.as_bytes()),
        }),
    };
    let default = if body.is_some() { Method::POST } else { Method::GET };
    let mut fields = HeaderMap::new();
    for (name, value) in &options.fields {
        fields.append(name, value.clone());
    }
    Ok(Template {
        method: options.method.clone().unwrap_or(default),
        fields,
        body,
        version: if options.is_http_10 { Version::HTTP_10 } else { Version::HTTP_11 },
        keep_alive: !closes,
    })
}

/// What a right answer is.
pub(super) fn expected(options: &ExpectedOptions) -> Result<Expected, String> {
    let body = options.body.as_deref().map(read_body).transpose()?;
    match (&body, options.body_bytes) {
        (Some(body), Some(bytes)) if body.len() as u64 != bytes => Err(format!(
            "--expect-body has {} bytes, and --expect-bytes says {bytes}: leave one of them out",
            body.len()
        )),
        (_, body_bytes) => Ok(Expected { body_bytes, body, repeats: None }),
    }
}

fn read_body(path: &Path) -> Result<Bytes, String> {
    let error = |reason: String| format!("cannot read the body from {}: {reason}", path.display());
    let metadata = fs::metadata(path).map_err(|why| error(why.to_string()))?;
    if metadata.len() > BODY_BYTES_MAX {
        return Err(error(format!("it has {} bytes, and {BODY_BYTES_MAX} are the most", metadata.len())));
    }
    fs::read(path).map(Bytes::from).map_err(|why| error(why.to_string()))
}

/// The requests, each as often as its weight says.
pub(super) fn mix(template: &Template, weighted: &[(Url, u32)]) -> Result<Mix, String> {
    let mut requests = Vec::new();
    for (url, weight) in weighted {
        let request = template.encode(url, false).map_err(|error| format!("{url}: {error}"))?;
        requests.push((request, *weight));
    }
    Mix::new(requests).map_err(|error| error.to_string())
}

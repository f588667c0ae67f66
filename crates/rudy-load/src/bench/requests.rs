//! The requests of a run, and what their answers are to be.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use bytes::Bytes;
use http::{HeaderMap, Method, Version};

use super::options::{ExpectedOptions, RequestOptions};
use super::plan::Expected;
use crate::Url;
use crate::request::{Mix, Template};

/// A file that is read is held in memory, a body once for each thread.
const FILE_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// All requests of a run, each with its body, are held in memory, once for each thread.
const REQUEST_BYTES_MAX: usize = 256 * 1024 * 1024;

/// What every request has. `closes` where each is the only one on its connection.
pub(super) fn template(options: &RequestOptions, closes: bool) -> Result<Template, String> {
    let body = match options.body.as_deref() {
        None => None,
        Some(text) => Some(match text.strip_prefix('@') {
            Some(path) => read(Path::new(path))?.into(),
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
    let body = options.body.as_deref().map(read).transpose()?.map(Bytes::from);
    match (&body, options.body_bytes) {
        (Some(body), Some(bytes)) if body.len() as u64 != bytes => Err(format!(
            "--expect-body has {} bytes, and --expect-bytes says {bytes}: leave one of them out",
            body.len()
        )),
        (_, body_bytes) => Ok(Expected { body_bytes, body, repeats: None }),
    }
}

/// A file that a flag names.
pub(super) fn read(path: &Path) -> Result<Vec<u8>, String> {
    let error = |reason: &dyn std::fmt::Display| format!("cannot read {}: {reason}", path.display());
    let mut bytes = Vec::new();
    // What is no regular file may have no end and say no length.
    let file = File::open(path).map_err(|why| error(&why))?;
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(|why| error(&why))?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(error(&format_args!("it has more than {FILE_BYTES_MAX} bytes")));
    }
    Ok(bytes)
}

/// The requests, each as often as its weight says.
pub(super) fn mix(template: &Template, weighted: &[(Url, u32)]) -> Result<Mix, String> {
    let mut requests = Vec::new();
    let mut bytes = 0;
    for (url, weight) in weighted {
        let request = template.encode(url, false).map_err(|error| format!("{url}: {error}"))?;
        bytes += request.bytes.len();
        if bytes > REQUEST_BYTES_MAX {
            return Err(format!(
                "the requests have more than {REQUEST_BYTES_MAX} bytes in all: use fewer URLs or a smaller body"
            ));
        }
        requests.push((request, *weight));
    }
    Mix::new(requests).map_err(|error| error.to_string())
}

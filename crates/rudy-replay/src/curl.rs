//! A curl command that sends a request to both servers.

use http::Method;
use rudy_request::Protocols;

use crate::{Options, Request};

/// The command, with `field` as another header field. It can be copied into a shell.
pub(crate) fn command(options: &Options, request: &Request, field: Option<(&str, &str)>) -> String {
    let values = options.values;
    let mut words = vec!["curl -sS -i --path-as-is".to_owned()];
    match request.method {
        Method::GET => {}
        Method::HEAD => words.push("-I".to_owned()),
        ref method => words.push(format!("-X {method}")),
    }
    if options.requests.protocols == Protocols::Http2 {
        let is_secure = options.old.is_secure() && options.new.is_secure();
        words.push(if is_secure { "--http2" } else { "--http2-prior-knowledge" }.to_owned());
    }
    if options.requests.access.trust == rudy_request::Trust::All {
        words.push("-k".to_owned());
    }
    if let Some(host) = options.host.as_ref().or(request.host.as_ref()) {
        words.push(format!("-H {}", quoted(&format!("Host: {host}"))));
    }
    let own = request.fields.iter().map(|(name, value)| {
        (name.as_str(), values.field(name.as_str(), &String::from_utf8_lossy(value.as_bytes())))
    });
    let own = own
        .filter(|(name, _)| *name != "accept-encoding")
        .chain(field.map(|(name, value)| (name, value.to_owned())));
    words.extend(own.map(|(name, value)| format!("-H {}", quoted(&format!("{name}: {value}")))));
    if let Some(body) = &request.body {
        words.push(format!("--data-raw {}", quoted(&values.body(body))));
    }
    for url in [&options.old, &options.new] {
        let origin = url.to_string();
        let origin = origin.strip_suffix('/').unwrap_or(&origin);
        words.push(quoted(&format!("{origin}{}", values.target(&request.target))));
    }
    words.join(" ")
}

/// A word of a shell. Control characters, which a terminal would interpret, are left out.
fn quoted(text: &str) -> String {
    let text: String = text.chars().filter(|c| !c.is_control()).collect();
    format!("'{}'", text.replace('\'', r"'\''"))
}

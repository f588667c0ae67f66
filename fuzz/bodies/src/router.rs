//! Request paths and routes: no spelling of a path bypasses the route that closes a folder.

use std::fs;
use std::sync::LazyLock;

use http::StatusCode;
use rudy_server::App;
use rudy_server::Resources;
use rudy_server::config::Config;
use rudy_service::{Client, Peer, Reply, RequestBody, Service};

/// Routes for a closed folder, a pattern, and everything else.
const ROUTES: &str = "[[site]]
[[site.route]]
path = ['/secret/*', '/index.php/secret/*']
respond = { status = 403 }
[[site.route]]
path = '*.txt'
respond = { status = 200, body = 'text' }
[[site.route]]
path = '/*'
respond = { status = 200, body = 'open' }
";

static APP: LazyLock<App> = LazyLock::new(|| {
    let folder = tempfile::tempdir().expect("a folder can be created");
    let file = folder.path().join("rudy.toml");
    fs::write(&file, ROUTES).expect("the folder is writable");
    let config = Config::load(&file).expect("the routes are valid");
    App::new(&config, &Resources::default()).expect("the routes are valid")
});

pub(crate) fn run(input: &[u8]) {
    let Ok(target) = std::str::from_utf8(input) else { return };
    let Ok(uri) = target.parse::<http::Uri>() else { return };
    // The connection rejects other forms.
    if !uri.path().starts_with('/') || uri.scheme_str() == Some("https") {
        return;
    }
    let closed = is_secret(uri.path());
    let request = http::Request::get(uri).header("host", "a").body(RequestBody::empty()).expect("a request");
    let client = Client::new(Peer::Unix, 1, 1);
    let Reply::Now(response) = APP.call(request.into(), &client) else {
        panic!("these routes respond at once")
    };
    let status = response.status();
    assert!(matches!(status.as_u16(), 200 | 400 | 403), "{status} for {target:?}");
    assert!(!closed || status != StatusCode::OK, "{target:?} bypasses the closed folder");
}

/// Whether a program that decodes encoded slashes finds the closed folder in a path. Independent of the server: it decodes the
/// whole path first and resolves it then.
fn is_secret(path: &str) -> bool {
    let Some(decoded) = decode(path.as_bytes()) else { return false };
    let mut segments: Vec<&[u8]> = Vec::new();
    for segment in decoded.split(|byte| *byte == b'/') {
        match segment {
            b".." if segments.pop().is_none() => return false,
            b"" | b"." | b".." => {}
            name => segments.push(name),
        }
    }
    matches!(segments[..], [b"secret", ..] | [b"index.php", b"secret", ..])
}

fn decode(path: &[u8]) -> Option<Vec<u8>> {
    let mut decoded = Vec::new();
    let mut rest = path;
    while let [byte, after @ ..] = rest {
        rest = after;
        if *byte != b'%' {
            decoded.push(*byte);
            continue;
        }
        let digits = std::str::from_utf8(rest.get(..2)?).ok()?;
        decoded.push(u8::from_str_radix(digits, 16).ok()?);
        rest = &rest[2..];
    }
    Some(decoded)
}

//! Sends thousands of spellings of one request to Rudy and checks for violations. The tests in `peers` compare other servers.

use rudy_fastcgi::pairs::Params;
use rudy_tests::prelude::*;
use rudy_tests::spellings::{HOST, ResponseSummary, Spelling, all, percent_encode, send_all, site};

/// Number of concurrent connections.
const CONNECTIONS: usize = 64;

/// Framing that two servers can interpret in two ways. Rudy rejects it.
const AMBIGUOUS: &[(&str, &str)] = &[
    ("coding", "and-length chunked-twice chunked-gzip control empty folded parameter quoted"),
    ("coding", "space-before-colon space-within unknown"),
    ("length", "control empty folded hexadecimal list-of-two no-number sign space-before-colon space-within"),
    ("length", "text-behind two"),
    ("chunk", "bad-extension bad-size bad-trailer control-in-extension cr cr-in-extension empty-size"),
    ("chunk", "framing-in-trailer lf lf-in-extension lf-in-trailer no-line-end overflow space-before-size"),
    ("chunk", "too-much-data"),
];

/// The tags of [`AMBIGUOUS`], such as `length/two`.
fn ambiguous() -> Vec<String> {
    let tags =
        |(kind, names): &'static (&str, &str)| names.split(' ').map(move |name| format!("{kind}/{name}"));
    AMBIGUOUS.iter().flat_map(tags).collect()
}

#[test]
fn no_spelling_bypasses_a_route_smuggles_a_request_or_causes_a_failure() {
    let (spellings, seen) = send_to_rudy();
    let violations = spellings.iter().zip(&seen).filter_map(|(spelling, seen)| {
        Some(format!(
            "{}: {}\n  {}",
            spelling.tags.join(" "),
            seen.violation().or_else(|| seen.wrong_variable(spelling))?,
            spelling.bytes.escape_ascii()
        ))
    });
    let violations: Vec<_> = violations.collect();
    assert!(violations.is_empty(), "{} violations:\n{}", violations.len(), violations.join("\n"));
    // Make sure that the protected folder and the app work at all.
    for expected in ["200 file", "200 app", "200 other", "403", "400"] {
        assert!(seen.iter().any(|seen| seen.first.starts_with(expected)), "no response was {expected}");
    }
}

#[test]
fn ambiguous_framing_is_rejected() {
    let (spellings, seen) = send_to_rudy();
    let ambiguous = ambiguous();
    let is_sent = |tag: &str| spellings.iter().any(|spelling| spelling.tags[..] == ["meaning/post", tag]);
    let not_sent: Vec<_> = ambiguous.iter().filter(|tag| !is_sent(tag)).collect();
    assert!(not_sent.is_empty(), "no request has these tags: {not_sent:?}");
    let is_ambiguous = |tag: &str| ambiguous.iter().any(|one| one == tag);
    let accepted = spellings.iter().zip(&seen).filter(|(spelling, seen)| {
        matches!(spelling.tags[..], ["meaning/post", tag] if is_ambiguous(tag))
            && !seen.first.starts_with(['4', '5'])
    });
    let text = |(spelling, seen): (&Spelling, &ResponseSummary)| {
        format!("{}\n  {}", seen.text(), spelling.bytes.escape_ascii())
    };
    let accepted: Vec<_> = accepted.map(text).collect();
    assert!(accepted.is_empty(), "ambiguous framing is accepted:\n{}", accepted.join("\n"));
}

/// Returns all spellings and Rudy's responses.
fn send_to_rudy() -> (Vec<Spelling>, Vec<ResponseSummary>) {
    let folder = Folder::new();
    site::write(folder.path()).expect("a temp folder can be written");
    let app = App::serve(|peer, params| serve_app(peer, &params));
    let (address, folder) = (app.address(), folder.path().display());
    let server = Server::config(&format!(
        "listen = [\"127.0.0.1:0\"]\n\
         limits = {{ head_timeout = \"2s\", first_request_timeout = \"2s\", idle_timeout = \"2s\", rate_grace = \"2s\" }}\n\
         [[site]]\nhosts = [\"{HOST}\"]\n\
         [[site.route]]\npath = \"/secret/*\"\nrespond = {{ status = 403 }}\n\
         [[site.route]]\npath = \"/*\"\nphp = {{ root = \"{folder}/site\", address = \"{address}\" }}\n\
         [[site]]\nroot = \"{folder}/other\"\n"
    ));
    let spellings = all(1);
    let seen = send_all(server.address(), &spellings, CONNECTIONS);
    (spellings, seen)
}

/// A FastCGI app with the responses of the site's `app.php`.
fn serve_app(peer: &mut Peer, params: &Params) {
    let Some(body) = peer.body() else { return };
    if variable(params, "SCRIPT_FILENAME").contains("/secret/") {
        return peer.respond(b"Content-Type: text/plain\r\n\r\n@@closed\n");
    }
    let lines = site::APP_VARIABLES
        .map(|name| format!("{name}={}\n", percent_encode(params.get(name).unwrap_or_default())));
    let text = format!("Content-Type: text/plain\r\n\r\n@@app\n{}BODY={body}\n", lines.concat());
    peer.respond(text.as_bytes());
}

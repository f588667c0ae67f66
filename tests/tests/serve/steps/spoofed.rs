//! Request fields that a client sends to be taken for those of the server.

use rudy_tests::prelude::*;

/// An app that responds with all its variables.
pub(crate) fn app() -> App {
    App::serve(|peer, params| {
        if peer.body().is_some() {
            let variables = params.iter().map(|(name, value)| [name, b"=", value, b"\n"].concat());
            peer.respond(
                &[&b"Content-Type: text/plain\r\n\r\n"[..], &variables.collect::<Vec<_>>().concat()].concat(),
            );
        }
    })
}

fn site(app: &App, changes: &str) -> Server {
    Server::config(&format!(
        "listen = '127.0.0.1:0,h2c'\n[[site]]\nrequest_headers = {changes}\n\
         [[site.route]]\npath = '/*'\nfastcgi = {{ address = '{app}' }}\n"
    ))
}

pub(crate) const SPELLINGS: [&str; 6] =
    ["Remote-User", "REMOTE-USER", "Remote_User", "REMOTE_USER", "remote_user", "Remote-User"];

#[test]
fn no_spelling_of_a_removed_field_reaches_an_app() {
    let app = app();
    for (changes, expected) in [
        ("{ Remote-User = false }", None),
        ("{ Remote_User = false }", None),
        ("{ remote-user = 'ann' }", Some("HTTP_REMOTE_USER=ann")),
    ] {
        let server = site(&app, changes);
        for version in ["1.0", "1.1"] {
            let head = format!("GET / HTTP/{version}\r\nHost: a\r\nConnection: close\r\n");
            let fields = SPELLINGS.map(|name| format!("{name}: root\r\n")).concat();
            is_safe(server.send(format!("{head}{fields}\r\n")).response().text(), expected, changes);
        }
        let mut connection = Http2Connection::open(server.address(), &[]);
        let fields: Vec<_> = SPELLINGS.iter().map(|name| (name.to_lowercase(), "root")).collect();
        let fields: Vec<_> = fields.iter().map(|(name, value)| (name.as_str(), *value)).collect();
        connection.request(1, "GET", "/", &fields, true);
        is_safe(connection.response(1).text(), expected, changes);
    }
}

fn is_safe(variables: &str, expected: Option<&str>, changes: &str) {
    let users: Vec<_> =
        variables.lines().filter(|line| line.to_ascii_uppercase().contains("REMOTE_USER")).collect();
    assert_eq!(users, expected.into_iter().collect::<Vec<_>>(), "{changes}: {variables}");
    assert!(!variables.contains("root"), "{changes}: {variables}");
}

#[test]
fn a_field_for_an_app_cannot_carry_lines_of_the_client() {
    let app = app();
    let fields =
        "{ X-Seen = '{path}{query} {header.x-in}', X-Kept = { default = 'own' }, X-More = { add = 'b' } }";
    let server = site(&app, fields);
    let sent = ["Host: a", "X-In: 1", "X-In: 2", "X-Kept: sent", "X-More: a"];
    let response = server.get_with("/%0d%0aX-Evil:1?%0d%0a", &sent);
    let lines: Vec<_> = response.text().lines().filter(|line| line.starts_with("HTTP_X")).collect();
    for expected in ["HTTP_X_SEEN=/%0D%0AX-Evil:1?%0d%0a 1, 2", "HTTP_X_KEPT=sent", "HTTP_X_MORE=a, b"] {
        assert!(lines.contains(&expected), "{expected}: {lines:?}");
    }
}

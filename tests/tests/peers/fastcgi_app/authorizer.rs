//! An authorizer written with the library, behind each server that supports authorizers.

use http::header::{AUTHORIZATION, HeaderValue, WWW_AUTHENTICATE};
use http::{Request, Response, StatusCode};
use rudy_fastcgi_app::{Body, Concurrency, RequestExt, Role, Server};
use rudy_tests::prelude::*;

use super::own_app::{App, serve_as};
use super::web_server::WebServer;

const CONCURRENCIES: [Concurrency; 2] =
    [Concurrency::Tasks { at_most: 10 }, Concurrency::Threads { at_most: 10 }];

/// Ann's password is `secret`.
const ANN: &str = "Basic YW5uOnNlY3JldA==";

/// Starts an app that allows only Ann.
fn authorizer(concurrency: Concurrency) -> App {
    serve_as(Server::new(concurrency).role(Role::Authorizer), |request: Request<Body>| async move {
        assert_eq!(request.role(), Role::Authorizer);
        let mut response = Response::new(Body::empty());
        if request.headers().get(AUTHORIZATION).is_some_and(|value| value == ANN) {
            response.headers_mut().insert("variable-remote_user", HeaderValue::from_static("ann"));
        } else {
            *response.status_mut() = StatusCode::UNAUTHORIZED;
            response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Basic realm=x"));
            *response.body_mut() = Body::from("who are you?");
        }
        response
    })
}

/// Checks the responses of a server with a file `a.txt`.
fn check(connect: impl Fn() -> Connection) {
    let mut client = connect();
    for _ in 0..3 {
        let denied = client.get("/a.txt", &[]);
        assert_eq!((denied.status, denied.text()), (401, "who are you?"));
        assert_eq!(denied.field("www-authenticate"), Some("Basic realm=x"));
        let allowed = client.get("/a.txt", &[&format!("Authorization: {ANN}")]);
        assert_eq!((allowed.status, allowed.text()), (200, "a secret"));
    }
}

#[test]
fn behind_rudy() {
    let folder = Folder::with(&[("a.txt", "a secret")]);
    for concurrency in CONCURRENCIES {
        let app = authorizer(concurrency);
        let server = rudy_tests::Server::config(&format!(
            "listen = [\"127.0.0.1:0\"]\n[[site]]\nroot = '{folder}'\nauthorize = {{ address = \"{}\" }}\n",
            app.address
        ));
        check(|| server.connect());
    }
}

#[test]
fn behind_lighttpd() {
    for concurrency in CONCURRENCIES {
        let app = authorizer(concurrency);
        let (host, port) = app.address.split_once(':').expect("an address with a port");
        let host_options = |folder: &Path| {
            folder.write("a.txt", "a secret");
            let folder = folder.display();
            format!(
                "\"mode\" => \"authorizer\", \"docroot\" => \"{folder}\", \"host\" => \"{host}\", \"port\" => {port}"
            )
        };
        let Some(lighttpd) = WebServer::lighttpd(host_options) else { return };
        check(|| lighttpd.connect());
    }
}

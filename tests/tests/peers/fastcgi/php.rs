//! What only php-fpm shows: its children serve one connection each, for as long as it is open.

use std::sync::Barrier;
use std::thread;

use rudy_tests::Connection;

use super::apps::{App, Program};

/// Eight times as many connections as there are children: those that no child accepts wait, and none that is kept waits for
/// a child that never comes.
#[test]
fn a_kept_connection_starves_no_child() {
    let Some(app) = App::start(Program::PhpFpm { children: 2 }) else { return };
    let server = app.server(16);
    let address = server.address();
    let all = Barrier::new(16);
    thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| {
                let mut connection = Connection::open(address);
                for _ in 0..20 {
                    all.wait();
                    connection.send(b"GET /app.php/pid HTTP/1.1\r\nHost: a\r\n\r\n");
                    let answer = connection.response();
                    assert_eq!(answer.status, 200, "{}", answer.text());
                }
            });
        }
    });
}

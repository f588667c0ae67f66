//! Behavior of php-fpm alone: a child serves one connection for as long as it is open.

use std::sync::Barrier;
use std::thread;

use rudy_tests::Connection;

use super::apps::{App, Program};

/// There are eight times as many connections as children. Connections that no child accepts must not wait for
/// idle ones that occupy the children.
#[test]
fn idle_connections_do_not_block_new_ones() {
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
                    let response = connection.response();
                    assert_eq!(response.status, 200, "{}", response.text());
                }
            });
        }
    });
}

//! Tests specific to php-fpm, where a child process serves one connection until it is closed.

use rudy_tests::prelude::*;

use super::apps::{App, Program};

/// 16 clients share two children. A new connection must not wait for an idle connection that occupies a child.
#[test]
fn idle_connections_do_not_block_new_ones() {
    let Some(app) = App::start(Program::PhpFpm { children: 2 }) else { return };
    let server = app.server(16);
    let address = server.address();
    let barrier = Barrier::new(16);
    thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| {
                let mut connection = Connection::open(address);
                for _ in 0..20 {
                    barrier.wait();
                    let response = connection.get("/app.php/pid", &["Host: a"]);
                    assert_eq!(response.status, 200, "{}", response.text());
                }
            });
        }
    });
}

//! The connections of the workers of an engine.

use std::thread::available_parallelism;

use rudy_tests::prelude::*;

#[test]
fn each_worker_keeps_its_connections_if_there_are_more_workers_than_cores() {
    let workers = available_parallelism().map_or(1, usize::from) + 1;
    let all = Barrier::new(workers);
    let upstream = Upstream::serve(move |peer, request| {
        if request.target() == "/app/together" {
            all.wait();
        }
        let number = peer.number.to_string();
        peer.respond(&number);
    });
    let server = Server::config(&format!(
        "listen = ['127.0.0.1:0']\ncores = {workers}\n[[site]]\n\
         [[site.route]]\npath = '/info'\ninfo = {{ allow = 'loopback' }}\n\
         [[site.route]]\npath = '/app/*'\nproxy = '{upstream}'\n"
    ));
    let mut of_workers = BTreeMap::new();
    wait_until("each worker has a connection", || {
        let mut connection = server.connect();
        let info = connection.get("/info", &["Host: localhost", "Accept: text/plain"]).text().to_owned();
        let thread = info.lines().find_map(|line| line.strip_prefix("thread_name: ")).map(str::to_owned);
        of_workers.entry(thread.expect("the name of the thread")).or_insert(connection);
        of_workers.len() == workers
    });
    for connection in of_workers.values_mut() {
        connection.send(b"GET /app/together HTTP/1.1\r\nHost: localhost\r\n\r\n");
    }
    let upstreams: Vec<_> =
        of_workers.values_mut().map(|connection| connection.response().text().to_owned()).collect();
    for round in 0..3 {
        for ((thread, connection), number) in of_workers.iter_mut().zip(&upstreams) {
            let response = connection.get("/app/alone", &["Host: localhost"]);
            assert_eq!(response.text(), number, "{thread}, round {round}");
        }
    }
    assert_eq!(upstream.accepted(), workers);
}

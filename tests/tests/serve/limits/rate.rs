//! Requests per time.

use rudy_tests::prelude::*;

use crate::limits::{connect_as, first_limit, get};

const LISTEN: &str = "listen = \"127.0.0.1:0,h2c,proxy_protocol\"\ntrusted_proxies = [\"127.0.0.1\"]\n";

fn site(limit: &str) -> String {
    format!(
        "{LISTEN}[[site]]\nrate_limit = {limit}\n[[site.route]]\npath = \"/*\"\nrespond = {{ body = \"fine\" }}\n"
    )
}

#[test]
fn each_address_of_many_has_its_allowance_and_no_more() {
    let mut server = Server::config(&site("{ rate = \"3/h\" }"));
    for number in 0..30 {
        let mut connection = connect_as(&server, &format!("203.0.{number}.7"));
        let statuses = [(); 4].map(|()| get(&mut connection, "/", "").status);
        assert_eq!(statuses, [200, 200, 200, 429], "203.0.{number}.7");
    }
    server.wait_for_line(
        "203.0.0.7:4711 is over the rate limit of the default site (3/h, 3 at once): status 429",
    );
    // The same client on another connection, at another spelling of its address, and over HTTP/2.
    let mut again = connect_as(&server, "203.0.9.7");
    let over = get(&mut again, "/other?query", "Accept: text/html\r\n");
    assert!(
        over.status == 429 && over.text().contains("<title>429 Too Many Requests</title>"),
        "{}",
        over.text()
    );
    assert_eq!(get(&mut connect_as(&server, "::ffff:203.0.9.7"), "/", "").status, 429);
    let limit = first_limit(&server);
    assert_eq!(limit["rejected"], 32);
    assert_members!(limit["top"][0], "key": "203.0.9.7", "count": 3);
    let text = server.rudy(&["limits"]).stdout;
    assert!(text.starts_with("the default site: 3/h, 3 at once by address\n  32 rejected, "), "{text}");
    let mut lines = 0;
    wait_until("each address has a line", || {
        lines += server.take_lines().iter().filter(|line| line.contains("is over the rate limit")).count();
        lines == 30
    });
}

#[test]
fn the_networks_of_ipv6_clients_count() {
    let server = Server::config(&site("{ rate = \"1/h\", ipv6_prefix = 56 }"));
    for (address, status) in [
        ("2001:db8:0:100::1", 200),
        ("2001:db8:0:1ff::2", 429),
        ("2001:db8:0:200::1", 200),
        ("2001:DB8:0:0200:0::1", 429),
    ] {
        assert_eq!(get(&mut connect_as(&server, address), "/", "").status, status, "{address}");
    }
}

#[test]
fn requests_over_http2_count_like_those_over_http1() {
    let server = Server::config(
        &site("{ rate = \"3/h\", by = \"header.x-key\" }").replace(LISTEN, "listen = \"127.0.0.1:0,h2c\"\n"),
    );
    let mut http1 = server.connect();
    assert_eq!(get(&mut http1, "/", "X-Key: a\r\n").status, 200);
    let mut http2 = Http2Connection::open(server.address(), &[]);
    for stream in [1, 3, 5] {
        http2.request(stream, "GET", "/", &[("x-key", "a")], true);
    }
    let statuses: Vec<_> = http2.responses(&[1, 3, 5]).iter().map(|response| response.status).collect();
    assert_eq!(statuses, [200, 200, 429]);
    let over = get(&mut http1, "/", "x-kEY:  a  \r\n");
    assert_eq!((over.status, over.field("retry-after").is_some()), (429, true));
    assert_eq!(get(&mut http1, "/", "X-Key: b\r\n").status, 200);
}

#[test]
fn a_reload_in_the_middle_keeps_the_counts() {
    let mut server = Server::config(&site("{ rate = \"2/h\", dry_run = true }"));
    let mut client = connect_as(&server, "203.0.113.7");
    assert_eq!([(); 3].map(|()| get(&mut client, "/", "").status), [200; 3]);
    server.wait_for_line(
        "203.0.113.7:4711 is over the rate limit of the default site (2/h, 2 at once): passed (dry run)",
    );
    server.reload_with(&site("{ rate = \"2/h\" }"), "the configuration was reloaded");
    assert_eq!(get(&mut client, "/", "").status, 429, "on the same connection");
    assert_eq!(get(&mut connect_as(&server, "203.0.113.7"), "/", "").status, 429);
    assert_eq!(get(&mut connect_as(&server, "203.0.113.8"), "/", "").status, 200);
    let limit = first_limit(&server);
    assert_eq!((limit["rejected"].as_u64(), limit["dry_run"].as_u64()), (Some(2), Some(1)));
}

#[test]
fn a_rejected_body_does_not_break_the_connection() {
    let server = Server::config(&site("{ rate = \"1/h\" }"));
    let mut client = connect_as(&server, "203.0.113.7");
    assert_eq!(get(&mut client, "/", "").status, 200);
    client.send(
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhelloGET / HTTP/1.1\r\nHost: a\r\n\r\n",
    );
    assert_eq!([client.response().status, client.response().status], [429, 429]);
}

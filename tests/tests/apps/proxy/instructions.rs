//! `X-Accel-*` fields of upstreams other than `X-Accel-Redirect`: rate, charset, freshness.

use rudy_tests::prelude::*;

/// More than any rate of these tests sends.
const LENGTH: usize = 60_000;

/// An upstream whose response has the fields in the query, separated by `&`, with `~` for spaces.
fn app() -> Upstream {
    Upstream::serve(|peer, request| {
        let fields = request.target().split_once('?').map_or("", |(_, fields)| fields);
        let fields = fields.replace('~', " ").replace('&', "\r\n");
        let body = "x".repeat(LENGTH);
        peer.send(format!("HTTP/1.1 200 OK\r\n{fields}\r\nContent-Length: {LENGTH}\r\n\r\n{body}"));
    })
}

/// A server with a route that has these keys.
fn server(app: &Upstream, folder: &Folder, keys: &str) -> Server {
    fs::write(folder.join("large.txt"), "y".repeat(LENGTH)).expect("the folder is writable");
    Server::config(&format!(
        "listen = ['127.0.0.1:0,h2c']\n[cache]\npath = 'cache'\n[[site]]\n[[site.route]]\npath = '/*'\n{keys}\n\
         [site.route.proxy]\nupstreams = '{}'\nsendfile_root = '{}'\n",
        app.url(),
        folder.path().display()
    ))
}

/// Whether the response to the first target is incomplete when that to the second one is complete.
fn is_slower(server: &Server, slow: &str, fast: &str) -> bool {
    let mut connection = Http2Connection::open(server.address(), &[(4, 1_000_000)]);
    connection.open_window(0, 1_000_000);
    connection.get(1, slow);
    connection.get(3, fast);
    let mut responses = [Http2Response::default(), Http2Response::default()];
    while !responses[1].is_over {
        assert!(connection.read_part(&[1, 3], &mut responses), "the connection is open");
    }
    assert_eq!(responses[1].body.len(), LENGTH);
    !responses[0].is_over
}

#[test]
fn a_rate_slows_down_the_response_that_has_it() {
    let (app, folder) = (app(), Folder::new());
    let plain = server(&app, &folder, "");
    assert!(is_slower(&plain, "/?X-Accel-Limit-Rate:~10", "/?X-A:~1"));
    assert!(is_slower(&plain, "/?X-Accel-Redirect:~/large.txt&X-Accel-Limit-Rate:~10", "/?X-A:~1"));
    // Also for a file on a route with a cache, but not for what the cache shares.
    let cached = server(&app, &folder, "cache = true");
    assert!(is_slower(&cached, "/?X-Accel-Redirect:~/large.txt&X-Accel-Limit-Rate:~10", "/?X-A:~1"));
    assert_eq!(cached.get("/?X-Accel-Limit-Rate:~10&Cache-Control:~max-age=60").body.len(), LENGTH);
    // It replaces that of the route.
    let slow = server(&app, &folder, "bandwidth = '10'");
    assert!(is_slower(&slow, "/?X-A:~1", "/?X-Accel-Limit-Rate:~0"));
    assert!(is_slower(&slow, "/?X-A:~1", "/?X-Accel-Limit-Rate:~1000000"));
}

#[test]
fn a_charset_is_for_text() {
    let (app, folder) = (app(), Folder::new());
    let server = server(&app, &folder, "");
    for (fields, media_type) in [
        ("Content-Type:~text/html", "text/html; charset=koi8-r"),
        ("Content-Type:~text/html;charset=utf-8", "text/html; charset=koi8-r"),
        ("Content-Type:~image/png", "image/png"),
        ("X-Accel-Redirect:~/large.txt", "text/plain; charset=koi8-r"),
    ] {
        let response = server.get(&format!("/?{fields}&X-Accel-Charset:~koi8-r"));
        assert_eq!(response.field("content-type"), Some(media_type), "{fields}");
        assert!(!response.head.to_ascii_lowercase().contains("x-accel"), "{}", response.head);
    }
}

#[test]
fn the_freshness_for_the_server_goes_before_that_for_clients() {
    let (app, folder) = (app(), Folder::new());
    let server = server(&app, &folder, "cache = true");
    for (target, is_stored) in [
        ("/a?X-Accel-Expires:~60&Cache-Control:~no-store", true),
        ("/b?X-Accel-Expires:~@4000000000&Expires:~0", true),
        ("/c?X-Accel-Expires:~0&Cache-Control:~max-age=60", false),
        ("/d?X-Accel-Expires:~@1000&Cache-Control:~max-age=60", false),
        ("/e?X-Accel-Expires:~0&Rudy-Cache-Control:~max-age=60", true),
        ("/f?X-Accel-Expires:~soon&Cache-Control:~max-age=60", true),
        ("/g?X-Accel-Expires:~60&Vary:~*", false),
    ] {
        server.get(target);
        let response = server.get(target);
        let status = response.field("cache-status").unwrap_or_default();
        // The first one may be being stored.
        let is_hit = status.contains("hit") || status.contains("collapsed");
        assert_eq!(is_hit, is_stored, "{target}: {}", response.head);
        let head = response.head.to_ascii_lowercase();
        assert!(!head.contains("x-accel") && !head.contains("rudy-cache-control"), "{head}");
    }
}

#[test]
fn an_invalid_value_is_ignored_and_logged() {
    let (app, folder) = (app(), Folder::new());
    let mut server = server(&app, &folder, "");
    for (field, value) in [
        ("x-accel-limit-rate", "1k"),
        ("x-accel-charset", "a,b"),
        ("x-accel-expires", "-1"),
        ("x-accel-buffering", "maybe"),
    ] {
        let response = server.get(&format!("/?{field}:~{value}&Content-Type:~text/css"));
        assert_eq!((response.status, response.body.len()), (200, LENGTH), "{field}");
        assert_eq!(response.field("content-type"), Some("text/css"));
        assert!(!response.head.contains("x-accel"), "{}", response.head);
        server.wait_for_line(&format!("{field} is ignored, because \"{value}\" is no valid value"));
    }
}

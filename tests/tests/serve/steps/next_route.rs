//! Static files before an application: what the folder does not have goes to the next route.

use rudy_tests::prelude::*;

#[test]
fn a_request_for_a_missing_file_goes_to_the_next_route_as_it_was_sent() {
    let upstream = Upstream::serve(|peer, request| {
        let body = request.head.lines().next().unwrap_or_default().to_owned();
        peer.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len()).as_bytes());
    });
    let config = format!(
        "listen = '127.0.0.1:0'\n[[site]]\n[[site.route]]\npath = '/app/*'\n\
         files = {{ root = 'public', next_route = true }}\nresponse_headers = {{ X-Files = 'yes' }}\n\
         [[site.route]]\npath = '/app/closed/*'\nwhen = {{ headers = {{ X-A = '*' }} }}\nrespond = 403\n\
         [[site.route]]\npath = '/other/*'\nrespond = 410\n\
         [[site.route]]\npath = '/app/hidden'\ninternal = true\nrespond = 200\n\
         [[site.route]]\npath = '/app/*'\nproxy = '{upstream}'\n"
    );
    let files = [("rudy.toml", &*config), ("public/a.txt", "a file"), ("public/dir/b.txt", "b")];
    let server = Server::build().config_of(Folder::with(&files)).start();
    for (method, target, status, text) in [
        ("GET", "/app/a.txt", 200, "a file"),
        ("GET", "/app/%61.txt", 200, "a file"),
        ("GET", "/app/b?c=%20d", 200, "GET /app/b?c=%20d HTTP/1.1"),
        ("POST", "/app/a.txt", 200, "POST /app/a.txt HTTP/1.1"),
        ("PROPFIND", "/app/x", 200, "PROPFIND /app/x HTTP/1.1"),
        ("OPTIONS", "/app/x", 200, "OPTIONS /app/x HTTP/1.1"),
        // Paths that no folder can have.
        ("GET", "/app/wiki/A%2FB", 200, "GET /app/wiki/A%2FB HTTP/1.1"),
        ("GET", "/app/a%5Cb", 200, "GET /app/a%5Cb HTTP/1.1"),
        ("GET", "/app/caf%E9", 200, "GET /app/caf%E9 HTTP/1.1"),
        ("GET", "/app/.hidden", 200, "GET /app/.hidden HTTP/1.1"),
        ("GET", "/app/dir", 200, "GET /app/dir HTTP/1.1"),
        ("GET", "/app//x/./y", 200, "GET /app//x/y HTTP/1.1"),
        ("GET", "/app/hidden", 404, ""),
        ("GET", "/app%2Fx", 404, ""),
    ] {
        let response = server.request(method, target, &[]);
        assert_eq!(response.status, status, "{method} {target}: {}", response.text());
        assert!(status != 200 || response.text() == text, "{method} {target}: {}", response.text());
        // The fields of a response are those of the route that responds.
        assert_eq!(response.field("x-files").is_some(), response.text() == "a file", "{method} {target}");
    }
    let with_field = |target| server.get_with(target, &["X-A: 1"]).status;
    assert_eq!((with_field("/app/closed/x"), server.get("/app/closed/x").status), (403, 200));
}

#[test]
fn a_route_without_a_next_one_is_reported() {
    let output =
        Rudy::check("[[site]]\n[[site.route]]\npath = '/*'\nfiles = { root = '.', next_route = true }\n");
    let (_, error) = output.error();
    assert!(error.contains("this is the last route of the site"), "{error}");
}

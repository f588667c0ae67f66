//! `rudy replay` between two servers of nginx, without and with a planted change.

use rudy_tests::prelude::*;

const URLS: &str = "/\n/hello\n/large\n/large?a=b\n/none\n/old\n/old/a?b=c\n";

/// The directives of a server at this address, which has the files of a folder.
fn directives(root: &Path, address: SocketAddr, more: &str) -> String {
    let root = root.join("www").display().to_string();
    format!(
        "gzip on; gzip_types text/plain; default_type text/plain;
         server {{ listen {address} {more}; root {root}; location /old {{ return 301 /hello; }} }}"
    )
}

fn nginx(root: &Path, parameters: &str, change: (&str, &str)) -> Option<rudy_tests::Peer> {
    rudy_tests::Peer::nginx_with(|_, address| {
        directives(root, address, parameters).replace(change.0, change.1)
    })
}

fn replay(folder: &Folder, servers: [&rudy_tests::Peer; 2], arguments: &[&str]) -> Output {
    let [old, new] = servers.map(|server| format!("http://{}", server.address()));
    let command = Rudy::command(["replay", &old, &new, "--urls", "urls.txt", "--rate", "10k"]);
    command.args(arguments).folder(folder).output()
}

#[test]
fn nginx_is_equal_to_nginx_and_a_changed_one_is_not() {
    let folder = Folder::with(&[("urls.txt", URLS), ("www/hello", "hello")]);
    fs::write(folder.join("www/large"), vec![b'x'; 300_000]).expect("the folder is writable");
    let start = |parameters, change| nginx(folder.path(), parameters, change);
    let Some(old) = start("", ("", "")) else { return };
    let new = start("", ("", "")).expect("the first one has started");
    let output = replay(&folder, [&old, &new], &[]).with_code(0);
    assert_contains!(output.stdout, "7 requests, no difference.");

    let [old2, new2] = [(); 2].map(|()| start("http2", ("", "")).expect("the first one has started"));
    replay(&folder, [&old2, &new2], &["--http2"]).with_code(0);

    for (change, found) in [
        (("return 301 /hello", "return 302 /hello"), "2 × status: 301 → 302"),
        (("return 301 /hello", "return 301 /none"), "2 × target of 301"),
        (("gzip on", "gzip off"), "2 × compression of text/plain: gzip → none"),
        (("gzip on", "gzip on; add_header X-A b"), "field x-a: absent → b"),
        (("gzip on", "gzip on; etag off"), "field etag: strong → absent"),
        (("gzip on", "gzip on; max_ranges 0"), "with Range: status: 206 → 200"),
        (("gzip on", "gzip on; if_modified_since off"), "with If-Modified-Since: status: 304 → 200"),
    ] {
        let changed = start("", change).expect("the first one has started");
        let output = replay(&folder, [&old, &changed], &[]).with_code(3);
        assert_contains!(output.stdout, found);
    }
}

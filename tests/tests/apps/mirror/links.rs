//! Links in metadata, which lead to the mirror.

use rudy_tests::prelude::*;

use crate::mirror::{Mirror, Origin, get, get_stored, message, path_of, request};

/// Returns what follows a prefix in a document, up to the next quote.
fn after<'d>(document: &'d str, prefix: &str) -> &'d str {
    let rest = document.split(prefix).nth(1).unwrap_or_else(|| panic!("no {prefix}: {document}"));
    rest.split(['"', '#']).next().unwrap_or_default()
}

#[test]
fn links_to_files_of_another_host_lead_through_the_mirror() {
    let (json, of_npm) = ("application/json", r#""tarball":""#);
    let versions = r#"{"versions":{"1":{"dist":{"tarball":"FILES/a/-/a-1.tgz"}}}}"#;
    let version = r#"{"dist":{"x":1,"tarball":"FILES/a/-/a-1.tgz"}}"#;
    let (html, page) = ("text/html; charset=utf-8", r#"<a class="x" href="FILES/a-1.zip#sha256=0">a</a>"#);
    let (of_pypi, list) = ("application/vnd.pypi.simple.v1+json", r#"{"files":[{"url":"FILES/a-1.zip"}]}"#);
    for (preset, path, media_type, document, prefix) in [
        ("npm", "/a", json, versions, of_npm),
        ("npm", "/a/1", json, version, of_npm),
        ("pypi", "/a/", html, page, r#"href=""#),
        ("pypi", "/b/", of_pypi, list, r#""url":""#),
        ("crates", "/config.json", json, r#"{"dl":"FILES/crates","api":"FILES"}"#, r#""dl":""#),
    ] {
        let files = Origin::start(|request| message("200 OK", "", &format!("file {}", request.target())));
        let document = document.replace("FILES", &files.upstream.url());
        let index = Origin::with_files(vec![(path, media_type, document)]);
        let hosts = format!(", hosts = \"{}\"", files.upstream.address());
        let (mirror, server) = Mirror::with_keys(&index, preset, &hosts);
        let page = get(&server, path, &[]);
        let end = if preset == "crates" { "/a/1.0.0/download" } else { "" };
        let url = after(page.text(), prefix).to_owned() + end;
        let file = path_of(&server, &url).to_owned();
        let content = get(&server, &file, &[]).text().to_owned();
        assert!(content.starts_with("file /"), "{preset}: {content}");
        assert_eq!(get_stored(&server, &file).text(), content);
        assert_eq!(files.count(), 1, "{preset}");

        drop((index, files));
        drop(server);
        let server = mirror.serve();
        assert_eq!(get(&server, &file, &[]).text(), content, "{preset}: the link of an earlier process");
        let again = get(&server, path, &[]);
        let root = format!("http://{}", server.address());
        assert!(again.status == 200 && again.text().contains(&root), "{preset}: {}", again.text());
    }
}

#[test]
fn the_host_of_a_file_is_looked_up() {
    let files = Origin::start(|_| message("200 OK", "", "file"));
    let url = format!("http://localhost:{}/a-1.zip", files.upstream.address().port());
    let index = Origin::with_files(vec![("/a/", "text/html", format!("<a href=\"{url}\">"))]);
    let (_mirror, server) = Mirror::with_keys(&index, "pypi", ", hosts = \"localhost\"");
    let page = get(&server, "/a/", &[]);
    assert_eq!(get(&server, path_of(&server, after(page.text(), "href=\"")), &[]).text(), "file");
}

#[test]
fn a_host_that_only_the_index_names_is_reached_only_at_public_addresses() {
    let Some(hosts) = Hosts::new("127.0.0.1 files.example.org\n10.0.0.1 files.example.org\n") else { return };
    let files = Origin::start(|_| message("200 OK", "", "file"));
    let url = format!("http://files.example.org:{}/a-1.zip", files.upstream.address().port());
    let index = Origin::with_files(vec![("/a/", "text/html", format!("<a href=\"{url}\">"))]);
    for (settings, status) in [("", 502), (", hosts = \"*.example.org\"", 200)] {
        let table = format!("{{ url = \"{}\", preset = \"pypi\"{settings} }}", index.upstream);
        let mirror = Mirror::new(&table);
        let server = Server::build().arg("--config").arg(mirror.path().join("rudy.toml"));
        let server = server.through_shell(&hosts.script()).env("STATE_DIRECTORY", mirror.path()).start();
        let page = get(&server, "/a/", &[]);
        let file = get(&server, path_of(&server, after(page.text(), "href=\"")), &[]);
        assert_eq!(file.status, status, "{settings} {}", file.text());
    }
    assert_eq!(files.count(), 1);
}

#[test]
fn other_ports_of_the_host_of_the_repository_are_not_reached() {
    let other = Origin::start(|_| message("200 OK", "", "secret"));
    let url = format!("{}/a-1.zip", other.upstream.url());
    let (location, page) = (format!("Location: {url}\r\n"), format!("<a href=\"{url}\">"));
    let origin = Origin::start(move |request| match request.target() {
        "/a/" => message("200 OK", "Content-Type: text/html\r\n", &page),
        _ => message("302 Found", &location, ""),
    });
    let (_mirror, server) = Mirror::of(&origin, "pypi");
    assert_eq!(get(&server, "/a/", &[]).text(), format!("<a href=\"{url}\">"));
    let redirect = get(&server, "/a-1.zip", &[]);
    assert_eq!((redirect.status, redirect.field("location")), (302, Some(url.as_str())));
    assert_eq!(other.count(), 0);
}

#[test]
fn links_of_a_page_are_those_that_a_browser_follows() {
    let content = "<base href='/files/'><!-- <a href='no'> --><A HREF=a-1.0&#43;cpu.whl#sha256&#x3D;00>a</A>";
    let origin = Origin::start(move |request| match request.target() {
        "/a/" => message("200 OK", "Content-Type: text/html\r\n", content),
        target => message("200 OK", "", target),
    });
    let (_mirror, server) = Mirror::of(&origin, "pypi");
    let page = get(&server, "/a/", &[]).text().to_owned();
    let root = format!("http://{}", server.address());
    let expected = format!("HREF={root}/files/a-1.0+cpu.whl#sha256=00>");
    assert!(page.contains(&expected) && page.contains(&format!("<base href='{root}/files/'>")), "{page}");
    assert_eq!(get(&server, "/files/a-1.0+cpu.whl", &[]).text(), "/files/a-1.0+cpu.whl");
}

#[test]
fn a_page_of_the_repository_has_no_effect_on_the_origin_of_the_mirror() {
    let fields = "Content-Type: text/html\r\nSet-Cookie: a=1\r\nStrict-Transport-Security: max-age=9\r\n\
                  Clear-Site-Data: \"*\"\r\nAlt-Svc: h3=\":443\"\r\nContent-Security-Policy: script-src *\r\n\
                  X-Checksum-Sha1: x\r\nETag: \"a\"\r\n";
    let origin = Origin::start(move |_| message("200 OK", fields, "<script>alert(1)</script>"));
    let (_mirror, server) = Mirror::of(&origin, "maven");
    let path = "/g/a/1/a-1.html";
    for response in
        [get(&server, path, &[]), get_stored(&server, path), get(&server, path, &["If-None-Match: \"a\""])]
    {
        for name in ["set-cookie", "strict-transport-security", "clear-site-data", "alt-svc"] {
            assert_eq!(response.field(name), None, "{}", response.head);
        }
        let policy = response.field("content-security-policy");
        assert!(policy.is_some_and(|policy| policy.starts_with("sandbox")));
        assert_eq!(response.field("x-content-type-options"), Some("nosniff"));
        assert_eq!((response.field("x-checksum-sha1"), response.field("etag")), (Some("x"), Some("\"a\"")));
    }
}

#[test]
fn a_rewritten_document_has_its_own_entity_tag() {
    let document = r#"{"versions":{"1":{"dist":{"tarball":"https://files.example/a.tgz"}}}}"#;
    let origin = Origin::with_files(vec![("/a", "application/json", document.to_owned())]);
    let (_mirror, server) = Mirror::of(&origin, "npm");
    let first = get(&server, "/a", &["Range: bytes=0-1", "Accept-Encoding: gzip"]);
    assert_eq!(first.status, 200, "the whole");
    let tag = first.field("etag").expect("it has a tag");
    assert_ne!(tag, format!("\"{}\"", document.len()));
    assert_eq!(origin.last().field("accept-encoding"), Some("identity"));
    assert_eq!(origin.last().field("range"), None);
    let condition = format!("If-None-Match: {tag}");
    assert_eq!(get(&server, "/a", &[&condition]).status, 304);
    let of_origin = format!("If-None-Match: \"{}\"", document.len());
    assert_eq!(get(&server, "/a", &[&of_origin]).status, 200);
    assert_eq!(get(&server, "/a", &["If-Match: \"x\""]).status, 412);
    let head = request(&server, "HEAD", "/a", &[]);
    assert_eq!(head.field("etag"), Some(tag));
    assert_eq!(head.field("content-length"), first.field("content-length"));
}

#[test]
fn the_mirror_fetches_nothing_that_its_index_does_not_name() {
    let other = Origin::start(|_| message("200 OK", "", "secret"));
    let page = "<a href=\"http://10.0.0.1/a.zip\">";
    let origin = Origin::with_files(vec![("/a/", "text/html", page.to_owned())]);
    let (_mirror, server) = Mirror::of(&origin, "pypi");
    assert_eq!(get(&server, "/a/", &[]).text(), page, "an address");
    let authority = other.upstream.address();
    for path in [
        format!("/.host/AAAAAAAAAAAAAAAAAAAAAA/http/{authority}/a.zip"),
        format!("/.host//http/{authority}/a.zip"),
        format!("/.host/http/{authority}"),
        "/.host/".to_owned(),
    ] {
        assert_eq!(get(&server, &path, &[]).status, 404, "{path}");
    }
    // No forward proxy either.
    let absolute = get(&server, &format!("http://{authority}/a.zip"), &[]);
    assert_ne!(absolute.text(), "secret");
    assert_eq!(other.count(), 0);
}

#[test]
fn redirects_of_the_repository_lead_through_the_mirror() {
    let files = Origin::start(|_| message("200 OK", "", "file"));
    let location = format!("Location: {}/a.zip?signature=x\r\n", files.upstream.url());
    let origin = Origin::start(move |_| message("302 Found", &location, ""));
    let (_mirror, server) = Mirror::with_keys(&origin, "go", ", hosts = \"127.0.0.1\"");
    let redirect = get(&server, "/a.example/@v/v1.0.0.zip", &[]);
    let location = redirect.field("location").expect("it redirects").to_owned();
    assert_eq!(get(&server, path_of(&server, &location), &[]).text(), "file");
    assert_eq!(files.last().target(), "/a.zip?signature=x");
}

#[test]
fn the_command_has_the_hosts_and_the_freshness_of_the_table() {
    let files = Origin::start(|_| message("200 OK", "", "file"));
    let link = format!("<a href=\"{}/a-1.zip\">", files.upstream.url());
    let index = Origin::with_files(vec![("/a/", "text/html", link)]);
    let folder = Folder::new();
    let command = Server::build_command("mirror").args(["pypi", &index.upstream.url()]);
    let settings =
        ["--listen", "127.0.0.1:0", "--hosts", "127.0.0.1", "--metadata-freshness", "1h", "--cache"];
    let command = command.args(settings).arg(folder.join("cache"));
    let server = command.env("STATE_DIRECTORY", &folder).start();
    let page = get_stored(&server, "/a/");
    let file = get(&server, path_of(&server, after(page.text(), "href=\"")), &[]);
    assert_eq!((file.text(), index.count()), ("file", 1));
}

#[test]
fn metadata_that_cannot_be_rewritten_is_an_error_and_logged() {
    let long = format!("{{\"versions\":{{}},\"x\":\"{}\"}}", "x".repeat(2000));
    for (fields, content, why) in [
        ("", long.as_str(), "metadata_bytes"),
        ("", "{\"versions\"", "malformed"),
        ("Content-Encoding: gzip\r\n", "{}", "compressed"),
    ] {
        let message = message("200 OK", &format!("Content-Type: application/json\r\n{fields}"), content);
        let origin = Origin::start(move |_| message.clone());
        let (_mirror, mut server) = Mirror::with_keys(&origin, "npm", ", metadata_bytes = \"1k\"");
        let response = get(&server, "/a", &[]);
        assert!(response.status == 502 && response.text().contains(why), "{why}: {}", response.text());
        let line = server.wait_for_line("metadata was not rewritten: ");
        assert!(line.contains(&format!("{}/a: ", origin.upstream.url())) && line.contains(why), "{line}");
    }
}

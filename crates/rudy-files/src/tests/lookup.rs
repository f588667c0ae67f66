//! Tests lookups, and the fields of every response.

use super::super::{CacheRule, FilesError};
use super::*;

#[test]
fn a_response_has_type_and_validators() {
    for options in [FilesOptions::default(), on_disk()] {
        let site = Site::with_options(&[("a.html", "hello")], options);
        let response = site.get("/a.html");
        assert_eq!(response.brief(), (200, "hello"));
        assert_eq!(response.field("content-type"), "text/html; charset=utf-8");
        assert_eq!(response.field("accept-ranges"), "bytes");
        assert_eq!(response.field("x-content-type-options"), "nosniff");
        assert!(response.field("etag").starts_with("\"5-"), "{}", response.field("etag"));
        assert!(response.field("last-modified").ends_with(" GMT"));
        assert!(!response.headers.contains_key("vary"), "there is only one representation");
        assert!(response.is_immediate);
    }
}

#[test]
fn an_empty_file_is_served() {
    let site = Site::with(&[("empty.txt", "")]);
    assert_eq!(site.get("/empty.txt").brief(), (200, ""));
    assert_eq!(site.get("/empty.txt").brief(), (200, ""));
}

#[test]
fn head_has_the_status_and_fields_of_get() {
    let site = Site::with(&[("a.txt", "hello")]);
    let (get, head) = (site.get("/a.txt"), site.request(&Method::HEAD, "/a.txt", &[("range", "bytes=0-1")]));
    assert_eq!((head.status, head.headers), (get.status, get.headers));
}

#[test]
fn other_methods_are_rejected() {
    let site = Site::with(&[("a.txt", "hello")]);
    for (method, status, allow) in [
        ("OPTIONS", 204, "GET, HEAD, OPTIONS"),
        ("POST", 405, "GET, HEAD, OPTIONS"),
        ("PUT", 405, "GET, HEAD, OPTIONS"),
        ("DELETE", 405, "GET, HEAD, OPTIONS"),
        ("BREW", 501, ""),
        ("get", 501, ""),
    ] {
        let response = site.request(&Method::from_bytes(method.as_bytes()).unwrap(), "/a.txt", &[]);
        assert_eq!((response.status.as_u16(), response.field("allow")), (status, allow), "{method}");
    }
}

#[test]
fn a_folder_serves_its_first_existing_index() {
    let index = vec!["index.html".to_owned(), "index.txt".to_owned()];
    let site = Site::with_options(
        &[("index.txt", "root"), ("both/index.txt", "second"), ("both/index.html", "first"), ("none/a", "a")],
        FilesOptions { index, ..FilesOptions::default() },
    );
    for (path, expected) in [("/", (200, "root")), ("/both/", (200, "first")), ("//both//", (200, "first"))] {
        assert_eq!(site.get(path).brief(), expected, "{path}");
        assert_eq!(site.get(path).brief(), expected, "{path} again");
    }
    assert_eq!(site.get("/none/").status, 404);
    assert_eq!(site.get("/none").status, 404, "no redirect to a missing page");
    assert_eq!(site.get("/index.txt/").status, 404, "a file is no folder");
}

#[test]
fn a_folder_without_a_slash_redirects_on_the_same_host() {
    let site = Site::with(&[("a b/index.html", "x"), ("c/index.html", "x")]);
    for (target, location) in
        [("/c", "/c/"), ("/c?x=1", "/c/?x=1"), ("//c", "/c/"), ("/a%20b?q", "/a%20b/?q")]
    {
        let response = site.get(target);
        assert_eq!((response.status.as_u16(), response.field("location")), (301, location), "{target}");
    }
}

#[test]
fn a_route_for_the_whole_path_redirects_without_the_slash() {
    let site = Site::with(&[("index.html", "root")]);
    let mut request = Request::default();
    let mut call = |uri: &'static str| {
        request.set_uri(uri.parse().unwrap());
        let path = RequestPath::parse(uri).unwrap();
        let outcome = site.files.respond_to(&request, path.below("/docs".len()), None, Access::Blocking);
        let Ok(Outcome::Reply(Reply::Now(response))) = outcome else { panic!("the response is immediate") };
        (response.status().as_u16(), response.headers().get("location").cloned())
    };
    assert_eq!(call("/docs/"), (200, None));
    assert_eq!(call("/docs"), (301, Some("/docs/".parse().unwrap())));
}

#[test]
fn try_files_are_tried_in_order() {
    let patterns = ["{path}", "{path}.html", "shared/{path}", "default.txt"];
    let site = Site::with_options(
        &[
            ("about.html", "about"),
            ("both", "plain"),
            ("both.html", "html"),
            ("folder/index.html", "index"),
            ("folder.html", "beside"),
            ("shared/logo.svg", "logo"),
            (".html", "hidden"),
            ("default.txt", "default"),
        ],
        FilesOptions { try_files: tried(&patterns), ..FilesOptions::default() },
    );
    for (path, expected) in [
        ("/about", (200, "about")),
        ("/about.html", (200, "about")),
        ("/both", (200, "plain")),
        ("/folder/", (200, "index")),
        ("/logo.svg", (200, "logo")),
        ("/about/", (200, "default")),
        ("/nothing", (200, "default")),
        ("/", (200, "default")),
    ] {
        assert_eq!(site.get(path).brief(), expected, "{path}");
        assert_eq!(site.get(path).brief(), expected, "{path} again");
    }
    assert_eq!(site.get("/folder").status, 301);
    assert_eq!(site.get("/about").field("content-type"), "text/html; charset=utf-8");
}

#[test]
fn a_fallback_is_served_for_pages_but_not_for_missing_assets() {
    let site = Site::with_options(
        &[("app.html", "app"), ("app.js", "js"), ("assets/a.css", "css")],
        FilesOptions { fallback: Some("app.html".into()), ..FilesOptions::default() },
    );
    for (path, expected) in [
        ("/", (200, "app")),
        ("/users/7", (200, "app")),
        ("/users/john.doe", (200, "app")),
        ("/assets", (200, "app")),
        ("/assets/", (200, "app")),
        ("/app.js", (200, "js")),
    ] {
        assert_eq!(site.get(path).brief(), expected, "{path}");
        assert_eq!(site.get(path).brief(), expected, "{path} again");
    }
    assert_eq!(site.get("/gone.js").status, 404);
    assert_eq!(site.get("/.env").status, 404);
}

#[test]
fn the_first_matching_pattern_sets_cache_control() {
    let rule = |pattern: &str, value: &'static str| CacheRule {
        pattern: pattern.into(),
        value: value.parse().unwrap(),
    };
    let site = Site::with_options(
        &[("index.html", "x"), ("assets/app.css", "x"), ("other.css", "x"), ("data.bin", "x")],
        FilesOptions {
            cache_control: vec![
                rule("/assets/*", "max-age=31536000, immutable"),
                rule("*.css", "max-age=60"),
                rule("{index.html,*.htm}", "no-cache"),
            ],
            ..FilesOptions::default()
        },
    );
    for (path, expected) in [
        ("/assets/app.css", "max-age=31536000, immutable"),
        ("/other.css", "max-age=60"),
        ("/", "no-cache"),
        ("/data.bin", ""),
        ("/nothing", ""),
    ] {
        assert_eq!(site.get(path).field("cache-control"), expected, "{path}");
    }
    let not_modified = site.get_with("/other.css", &[("if-none-match", "*")]);
    assert_eq!((not_modified.status.as_u16(), not_modified.field("cache-control")), (304, "max-age=60"));
}

#[test]
fn source_code_is_never_sent() {
    let contents = [
        ("index.php", "<?php 1"),
        ("index.html", "page"),
        ("CONFIG.PHP", "<?php 2"),
        ("page.php", "<?php 3"),
        ("db.inc", "password"),
    ];
    let options = || FilesOptions {
        index: vec!["index.php".into(), "index.html".into()],
        try_files: tried(&["{path}", "{path}.php"]),
        fallback: Some("page.php".into()),
        browse: Browse::On,
        ..FilesOptions::default()
    };
    let site = Site::with_options(&contents, options());
    for (path, status) in [
        ("/index.php", 404),
        ("/CONFIG.PHP", 404),
        ("/page", 404),
        ("/else", 404),
        ("/db.inc", 200),
        ("/", 200),
    ] {
        let response = site.get(path);
        assert_eq!(response.status, status, "{path}");
        assert!(!response.text().contains("<?php"), "{path}: {}", response.text());
    }
    for link in ["link.txt", "index.html.gz"] {
        std::os::unix::fs::symlink("CONFIG.PHP", site.folder.path().join(link)).unwrap();
    }
    assert_eq!(site.get("/link.txt").status, 404, "a link to source code");
    let site =
        Site { files: Files::open(site.folder.path(), options(), &Folders::default()).unwrap(), ..site };
    let response = site.get_with("/", &[("accept-encoding", "gzip")]);
    assert_eq!(response.brief(), (200, "page"), "a precompressed sibling that is a link to source code");
    let site = Site::with_options(&contents, FilesOptions { on_php_site: true, ..options() });
    assert_eq!(site.get("/db.inc").status, 404);
    let site = Site::with_options(&contents, FilesOptions { serve_source: true, ..options() });
    assert_eq!(site.get("/CONFIG.PHP").brief(), (200, "<?php 2"));
}

#[test]
fn a_listing_omits_source_code() {
    let options = FilesOptions { browse: Browse::On, ..FilesOptions::default() };
    let site = Site::with_options(&[("a.php", "x"), ("b.txt", "x"), ("c.php/d.txt", "x")], options);
    let listing = site.get_with("/", &[("accept", "application/json")]);
    let shown: Vec<_> =
        ["a.php", "b.txt", "c.php"].map(|name| listing.text().contains(&format!("\"{name}\""))).into();
    assert_eq!(shown, [false, true, true]);
}

#[test]
fn invalid_options_are_rejected_at_the_start() {
    let folder = TempDir::new().unwrap();
    let folders = Folders::default();
    let open = |options: FilesOptions| {
        Files::open(folder.path(), options, &folders).map(drop).unwrap_err().to_string()
    };
    let default = FilesOptions::default;
    let rule = CacheRule { pattern: "a[".into(), value: "x".parse().unwrap() };
    for (options, expected) in [
        (
            FilesOptions { index: vec!["../x".into()], ..default() },
            "index: \"../x\" is not a path below the root",
        ),
        (FilesOptions { try_files: tried(&["{path}/../x"]), ..default() }, "try_files: "),
        (FilesOptions { try_files: tried(&["$uri"]), ..default() }, "unknown placeholder `$uri`"),
        (FilesOptions { try_files: tried(&["$uri/"]), ..default() }, "unknown placeholder `$uri`"),
        (FilesOptions { try_files: tried(&["{path}.{lang}.html"]), ..default() }, "`{lang}`"),
        (FilesOptions { try_files: tried(&["{path}$is_args"]), ..default() }, "`$is_args`"),
        (FilesOptions { try_files: tried(&["=404"]), ..default() }, "`=404`"),
        (FilesOptions { try_files: tried(&["{path}", "@app"]), ..default() }, "`@app`"),
        (FilesOptions { try_files: tried(&["{1}.html"]), ..default() }, "`{1}`"),
        (FilesOptions { try_files: tried(&["/a?{1}", "/b/../c?x"]), ..default() }, "\"b/../c?x\" is not"),
        (FilesOptions { index: vec!["index.{lang}.html".into()], ..default() }, "`{lang}`"),
        (FilesOptions { fallback: Some(String::new()), ..default() }, "fallback: \"\" is not"),
        (FilesOptions { fallback: Some("{path}.html".into()), ..default() }, "unknown placeholder `{path}`"),
        (FilesOptions { cache_control: vec![rule], ..default() }, "invalid glob in `cache_control`"),
    ] {
        let message = open(options);
        assert!(message.contains(expected), "{message}");
    }
    let missing = Files::open(folder.path().join("missing"), default(), &folders).map(drop).unwrap_err();
    assert!(matches!(missing, FilesError::Root(..)), "{missing}");
    fs::write(folder.path().join("file"), "").unwrap();
    assert!(matches!(
        Files::open(folder.path().join("file"), default(), &folders),
        Err(FilesError::Root(..))
    ));
}

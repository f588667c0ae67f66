//! `X-Sendfile` and `X-Accel-Redirect`: a script names a file, and the server sends it.

use rudy_tests::prelude::*;

use super::{Fpm, send};

const SCRIPT: &str = r#"<?php
header("Content-Type: application/x-report");
header("Content-Disposition: attachment; filename=\"r.bin\"");
header("Cache-Control: private");
header("ETag: \"of-the-app\"");
header($_GET["field"] . ": " . $_GET["file"]);
http_response_code((int) ($_GET["status"] ?? 200));
echo "no client sees this";"#;

#[test]
fn the_server_sends_the_file_that_a_script_names() {
    let Some(fpm) = Fpm::start("") else { return };
    let site = Folder::with(&[
        ("public/send.php", SCRIPT),
        ("private/a b.txt", "0123456789"),
        ("private/.hidden", "x"),
    ]);
    let root = site.path().join("private");
    let sendfile = format!("sendfile_root = \"{}\"", root.display());
    let mut server = fpm.serve(&site.path().join("public"), "/*", &sendfile);
    let file = format!("{}/a%20b.txt", root.display());
    let target = format!("/send.php?field=X-Sendfile&file={file}");
    let complete = server.get(&target);
    assert_eq!((complete.status, complete.text()), (200, "0123456789"));
    assert_eq!(complete.field("content-type"), Some("application/x-report"));
    assert_eq!(complete.field("content-disposition"), Some("attachment; filename=\"r.bin\""));
    assert_eq!(complete.field("cache-control"), Some("private"));
    assert_eq!((complete.field("x-sendfile"), complete.field("content-length")), (None, Some("10")));
    let tag = complete.field("etag").expect("the file has an entity tag").to_owned();
    assert_ne!(tag, "\"of-the-app\"");
    let partial = send(&server, "GET", &target, "Range: bytes=2-4\r\n", "");
    assert_eq!(
        (partial.status, partial.text(), partial.field("content-range")),
        (206, "234", Some("bytes 2-4/10"))
    );
    assert_eq!(send(&server, "GET", &target, "Range: bytes=0-1,4-5\r\n", "").status, 200);
    let not_modified = send(&server, "GET", &target, &format!("If-None-Match: {tag}\r\n"), "");
    assert_eq!(
        (not_modified.status, not_modified.field("content-type"), not_modified.body.len()),
        (304, None, 0)
    );
    assert_eq!(send(&server, "POST", &target, "Range: bytes=2-4\r\n", "").text(), "0123456789");
    let denied = send(&server, "GET", &format!("{target}&status=403"), "Range: bytes=2-4\r\n", "");
    assert_eq!((denied.status, denied.text()), (403, "0123456789"));
    assert_eq!(server.get("/send.php?field=X-Accel-Redirect&file=/a%2520b.txt").text(), "0123456789");
    assert_eq!(server.get("/send.php?field=X-Sendfile&file=.hidden").text(), "x");
    for (file, status) in [("/etc/passwd", 502), ("../public/send.php", 502), ("none", 404)] {
        let response = server.get(&format!("/send.php?field=X-Sendfile&file={file}"));
        assert_eq!((response.status, response.field("x-sendfile")), (status, None), "{file}");
        assert_eq!(response.field("content-disposition"), None, "{file}");
    }
    // The first of several similar failures is logged without delay.
    server.wait_for_line("x-sendfile names \"/etc/passwd\", which is not a path below `sendfile_root`");
    let disabled = fpm.serve(&site.path().join("public"), "/*", "");
    assert_eq!(disabled.get("/send.php?field=X-Sendfile&file=none").status, 502);
}

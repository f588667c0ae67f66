//! The scripts and files that the paths of a PHP site select, and the variables of the scripts.

use rudy_tests::prelude::*;

use super::{Fpm, send};

/// Prints its own name and its path variables.
const SCRIPT: &str = r#"<?php header("Content-Type: text/plain");
echo basename(dirname(__FILE__)), "/", basename(__FILE__), " ", $_SERVER["SCRIPT_NAME"], " ", $_SERVER["PATH_INFO"] ?? "", " ",
    $_SERVER["REQUEST_URI"], " ", $_SERVER["PHP_SELF"];"#;

const SECRET: &str = "<?php $password = 'open sesame';";

fn site() -> Folder {
    Folder::with(&[
        ("public/index.php", SCRIPT),
        ("public/other.php", SCRIPT),
        ("public/admin/index.php", SCRIPT),
        ("public/pages/index.html", "<p>a page"),
        ("public/style.css", "p { margin: 0 }"),
        ("public/config.php~", SECRET),
        ("public/config.php.bak", SECRET),
        ("public/config.php.gz", SECRET),
        ("public/OTHER2.PHP", SECRET),
        ("public/.env", SECRET),
        ("public/upload/evil.jpg", "<?php echo 'taken over';"),
        ("outside.php", SECRET),
    ])
}

#[test]
fn scripts_run_files_are_sent_and_other_paths_go_to_the_front_controller() {
    let Some(fpm) = Fpm::start("") else { return };
    let site = site();
    symlink("../outside.php", site.path().join("public/link.php")).unwrap();
    let server = fpm.serve(&site.path().join("public"), "/*", "");
    for (target, expected) in [
        ("/", "public/index.php /index.php  / /index.php"),
        ("/?a=b", "public/index.php /index.php  /?a=b /index.php"),
        (
            "/index.php/path/info",
            "public/index.php /index.php /path/info /index.php/path/info /index.php/path/info",
        ),
        ("/other.php?x", "public/other.php /other.php  /other.php?x /other.php"),
        ("/other.php/", "public/other.php /other.php / /other.php/ /other.php/"),
        ("/admin/", "admin/index.php /admin/index.php  /admin/ /admin/index.php"),
        ("/2026/caf%C3%A9?q=1", "public/index.php /index.php  /2026/caf%C3%A9?q=1 /index.php"),
        ("/missing.php", "public/index.php /index.php  /missing.php /index.php"),
        ("/upload/evil.jpg/x.php", "public/index.php /index.php  /upload/evil.jpg/x.php /index.php"),
        ("/link.php", "public/index.php /index.php  /link.php /index.php"),
        ("/style.css", "p { margin: 0 }"),
        ("/pages/", "<p>a page"),
        ("/upload/evil.jpg", "<?php echo 'taken over';"),
    ] {
        assert_eq!(server.get(target).status_and_text(), (200, expected), "{target}");
    }
    assert_eq!(server.get("/admin?a").field("location"), Some("/admin/?a"));
    assert_eq!(server.get("/pages").field("location"), Some("/pages/"));
    for (target, status) in [
        ("/config.php~", 404),
        ("/config.php.bak", 404),
        ("/config.php.gz", 404),
        ("/OTHER2.PHP", 404),
        ("/.env", 404),
        ("/index.php%00.css", 400),
        ("/%2e%2e/outside.php", 400),
    ] {
        let response = server.get(target);
        assert_eq!(response.status, status, "{target}");
        assert!(!response.text().contains("sesame"), "{target}");
    }
    // The style sheet is cached now; that must not change the response to other methods.
    assert_eq!(send(&server, "POST", "/style.css", "", "").status, 405);
    assert_eq!(send(&server, "POST", "/", "Content-Type: text/plain\r\n", "body").status, 200);
}

#[test]
fn a_site_below_a_path_gets_that_path_and_changes_are_noticed() {
    let Some(fpm) = Fpm::start("") else { return };
    let site = site();
    let root = site.path().join("public");
    let server = fpm.serve(&root, "/blog/*", "follow_symlinks = true");
    symlink("../outside.php", root.join("link.php")).unwrap();
    site.path().write("outside.php", SCRIPT);
    for (target, expected) in [
        ("/blog/", "public/index.php /blog/index.php  /blog/ /blog/index.php"),
        ("/bl%6Fg//2026", "public/index.php /blog/index.php  /bl%6Fg//2026 /blog/index.php"),
        ("/blog/admin/", "admin/index.php /blog/admin/index.php  /blog/admin/ /blog/admin/index.php"),
        ("/blog/style.css", "p { margin: 0 }"),
        ("/blog/link.php", "public/link.php /blog/link.php  /blog/link.php /blog/link.php"),
    ] {
        let response = server.get(target);
        // PHP resolves links before it prints the path of a script.
        let text = response.text().replace(&format!("{}/outside.php", base(&site)), "public/link.php");
        assert_eq!((response.status, text.as_str()), (200, expected), "{target}");
    }
    assert_eq!(server.get("/blog").field("location"), Some("/blog/"));
    root.write("pages/index.php", SCRIPT);
    assert!(
        server.get("/blog/pages/").text().starts_with("pages/index.php"),
        "a script takes precedence over a page"
    );
    fs::remove_file(root.join("index.php")).unwrap();
    assert_eq!(server.get("/blog/2026").status, 404, "there is no front controller");
}

fn base(folder: &Folder) -> String {
    folder.path().file_name().unwrap_or_default().to_string_lossy().into_owned()
}

#[test]
fn forms_uploads_redirects_and_errors_work() {
    let quiet = "php_admin_flag[log_errors] = on\nphp_admin_flag[display_errors] = off";
    let Some(fpm) = Fpm::start(quiet) else { return };
    let root = Folder::with(&[
        ("form.php", "<?php echo $_POST['name'], ' ', $_COOKIE['a'] ?? '-', ' ', $_SERVER['REMOTE_ADDR'];"),
        ("file.php", "<?php echo $_FILES['f']['name'], ' ', filesize($_FILES['f']['tmp_name']);"),
        ("gone.php", "<?php http_response_code(410); echo 'gone';"),
        ("away.php", "<?php header('Location: https://example.org/');"),
        ("fail.php", "<?php error_log('it went wrong'); throw new Exception('oh no');"),
    ]);
    let mut server = fpm.serve(root.path(), "/*", "");
    let fields = "Content-Type: application/x-www-form-urlencoded\r\nCookie: a=1\r\n";
    assert_eq!(send(&server, "POST", "/form.php", fields, "name=x+y").text(), "x y 1 127.0.0.1");
    let body = format!(
        "--b\r\nContent-Disposition: form-data; name=\"f\"; filename=\"a.bin\"\r\n\r\n{}\r\n--b--\r\n",
        "x".repeat(300_000)
    );
    let fields = "Content-Type: multipart/form-data; boundary=b\r\n";
    assert_eq!(send(&server, "POST", "/file.php", fields, &body).text(), "a.bin 300000");
    assert_eq!(server.get("/gone.php").status, 410);
    let away = server.get("/away.php");
    assert_eq!((away.status, away.field("location")), (302, Some("https://example.org/")));
    assert_eq!(server.get("/fail.php").status, 500);
    server.wait_for_line("GET /fail.php from 127.0.0.1:");
    server.wait_for_line("it went wrong");
}

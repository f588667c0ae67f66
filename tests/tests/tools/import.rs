//! `rudy import`: which files it reads, what it writes, and its exit codes.

use rudy_tests::prelude::*;

/// A main file with a site in another file, which includes a snippet of the folder around it.
fn nginx() -> Folder {
    Folder::with(&[
        ("nginx.conf", "user www-data;\nevents { }\nhttp { include sites-enabled/*; }\n"),
        ("sites-enabled/app", "server { listen 8080; root www; include snippets/closed.conf; }\n"),
        ("sites-enabled/.hidden", "}"),
        ("snippets/closed.conf", "location /private/ { deny all; }\n"),
        ("www/index.html", "home"),
    ])
}

fn import(folder: &Folder, arguments: &[&str]) -> Output {
    Rudy::command(["import"]).args(arguments).folder(folder).output()
}

#[test]
fn a_main_file_is_imported_with_its_includes() {
    let folder = nginx();
    let output = import(&folder, &["nginx.conf", "-o", "rudy.toml"]);
    assert_eq!((output.code, output.stdout.as_str()), (Some(0), ""), "{}", output.stderr);
    assert_contains!(output.stderr, "Not translated: none");
    let text = fs::read_to_string(folder.join("rudy.toml")).expect("it is written");
    assert_contains!(text, "# snippets/closed.conf:1  location /private/\n# Closed: deny all\n");
    let check = Rudy::command(["check", "rudy.toml"]).folder(&folder).output();
    assert_contains!(check.stdout, "/private/**");

    let again = import(&folder, &["nginx.conf", "-o", "rudy.toml"]);
    assert_eq!(again.code, Some(1));
    assert_contains!(again.stderr, "cannot write rudy.toml: File exists");
}

#[test]
fn a_folder_is_its_main_file_or_all_of_its_files() {
    let folder = nginx();
    assert_contains!(import(&folder, &["."]).stdout, "respond = 403");
    assert_contains!(import(&folder, &["sites-enabled"]).stdout, "respond = 403");
}

#[test]
fn files_that_this_machine_does_not_have_are_listed() {
    let folder = Folder::with(&[("a.conf", "server { listen 80; root /nowhere/www; }")]);
    let output = import(&folder, &["a.conf"]);
    assert_eq!(output.code, Some(0));
    assert_contains!(
        output.stderr,
        "\nNot on this machine:\n  cannot open the folder /nowhere/www: No such file"
    );
}

#[test]
fn the_exit_code_says_whether_a_protection_is_missing() {
    let folder = Folder::with(&[
        ("limited.conf", "server { listen 80; location / { limit_req zone=none; return 204; } }"),
        ("broken.conf", "server {\n  listen 80\n}"),
    ]);
    let limited = import(&folder, &["limited.conf", "--json"]);
    assert_eq!(limited.code, Some(3), "{}", limited.stderr);
    let json = limited.json();
    assert_eq!(json["unprotected"], true);
    assert_eq!(json["not_translated"][0]["place"], "limited.conf:1");
    let broken = import(&folder, &["broken.conf"]);
    assert_eq!(broken.code, Some(2));
    assert_contains!(broken.stderr, "error: broken.conf:3: unexpected `}`: expected `;` after `listen`");
    assert_eq!(import(&folder, &["none.conf"]).code, Some(1));
}

#[test]
fn a_caddyfile_is_imported_with_the_users_of_its_logins() {
    let hash = "$2a$14$Zkx19XLiW6VYouLHR5NmfOFU0z2GTNmpkT/5qqR7hx4IjWJPDhjvG";
    let site = format!(
        ":8080 {{\n  root * www\n  basic_auth /staff/* {{\n    ann {hash}\n  }}\n  file_server\n}}\n"
    );
    let folder = Folder::with(&[("Caddyfile", site.as_str()), ("www/index.html", "home")]);
    let output = import(&folder, &["Caddyfile", "-o", "rudy.toml"]);
    assert_eq!(output.code, Some(0), "{}", output.stderr);
    assert!(!output.stderr.contains(hash), "a hash is in the report: {}", output.stderr);
    let users = fs::read_to_string(folder.join("htpasswd-1")).expect("it is written");
    assert_eq!(users, format!("ann:{hash}\n"));
    let check = Rudy::command(["check", "rudy.toml", "--explain", "http://localhost/staff/a"])
        .folder(&folder)
        .output();
    assert_contains!(check.stdout, "htpasswd-1");
    let other = Rudy::command(["check", "rudy.toml", "--explain", "http://localhost/Staff/a"])
        .folder(&folder)
        .output();
    assert_contains!(other.stdout, "403");
}

#[test]
fn a_folder_of_virtual_hosts_is_imported() {
    let host = "<VirtualHost *:8080>\nDocumentRoot www\n<FilesMatch \\.sql$>\nRequire all denied\n</FilesMatch>\n</VirtualHost>\n";
    let folder = Folder::with(&[("sites/a.conf", host), ("www/index.html", "home")]);
    let output = import(&folder, &["sites"]);
    assert_eq!(output.code, Some(0), "{}", output.stderr);
    assert_contains!(output.stdout, "deny = \"anyone\"");
}

#[test]
fn a_file_of_an_unknown_server_needs_its_name() {
    let folder = Folder::with(&[("site", "hello\n")]);
    let output = import(&folder, &["site"]);
    assert_eq!(output.code, Some(2));
    assert_contains!(
        output.stderr,
        "it is not clear which server it is for: write --from nginx, caddy, apache or haproxy"
    );
}

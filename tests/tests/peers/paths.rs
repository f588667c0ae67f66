//! Paths: attempts to leave the folder, redirects of folders, and listings.

use rudy_tests::prelude::*;

use crate::content::get;

/// The content of a file outside the folder, which the attacks try to read.
const SECRET: &str = "the secret beside the folder";

/// Paths of [`SECRET`], if the server does not keep to its folder.
const PATHS: &str = r"
    /../secret.txt /a/../../secret.txt /%2e%2e/secret.txt /.%2e/secret.txt /%2e./secret.txt /%252e%252e/secret.txt
    /a%2f..%2f..%2fsecret.txt /..%2fsecret.txt /..%5csecret.txt /..\secret.txt /..%c0%afsecret.txt /%c0%ae%c0%ae/secret.txt
    /..;/secret.txt /...//../secret.txt //../secret.txt /./../secret.txt /page.html/../../secret.txt
    /page.html%00/../../secret.txt /page.html%00.txt /absolute.txt /relative.txt /chain.txt /linked/secret.txt
    /.secret.txt /a/../.secret.txt
";

#[test]
fn no_path_leads_out_of_the_folder() {
    let Some(curl) = Curl::find() else { return };
    let folder = Folder::with(&[
        ("secret.txt", SECRET),
        ("outside/secret.txt", SECRET),
        ("root/.secret.txt", SECRET),
        ("root/page.html", "<p>page"),
    ]);
    let (root, secret) = (folder.join("root"), folder.join("secret.txt"));
    fs::create_dir(root.join("a")).unwrap();
    symlink(&secret, root.join("absolute.txt")).unwrap();
    symlink("../secret.txt", root.join("relative.txt")).unwrap();
    symlink("../outside", root.join("linked")).unwrap();
    symlink("absolute.txt", root.join("chain.txt")).unwrap();
    symlink("page.html", root.join("inside.html")).unwrap();
    symlink("/proc/self/root", root.join("magic")).unwrap();
    let server = Server::folder(&root);
    let by_magic = format!("/magic{}", secret.display());
    for path in PATHS.split_whitespace().chain([&*by_magic]) {
        let fetched = get(&curl, &server, path, &["--path-as-is"]);
        let status = fetched.status();
        assert!(status == 400 || status == 404, "{path}: {status}");
        let body = String::from_utf8_lossy(&fetched.body);
        assert!(!body.contains(SECRET) && !fetched.heads.contains("secret beside"), "{path}: {body}");
        assert!(!body.contains(&folder.to_string()), "{path} reveals the location of the folder: {body}");
    }
    assert_eq!(get(&curl, &server, "/inside.html", &[]).body, b"<p>page");
}

#[test]
fn a_folder_without_trailing_slash_is_redirected_on_the_same_server() {
    let Some(curl) = Curl::find() else { return };
    let server = Server::files(&[("folder/index.html", b"index"), ("evil.example/index.html", b"here")]);
    let followed = get(&curl, &server, "/folder?a=1&b=%20", &["--location"]);
    assert_eq!((followed.status(), followed.body.as_slice()), (200, b"index".as_slice()));
    assert_eq!(followed.number_or_text("num_redirects"), "1");
    assert_eq!(followed.number_or_text("url_effective"), server.url("/folder/?a=1&b=%20"));
    // A double slash must not become the name of another host.
    let doubled = get(&curl, &server, "//evil.example", &["--path-as-is"]);
    let target = doubled.number_or_text("redirect_url");
    assert!(target == "null" || target.starts_with(&server.url("/")), "{target}");
}

#[test]
fn a_listing_is_a_page_or_json() {
    let Some(curl) = Curl::find() else { return };
    let server = Server::build().files(&[("a b.txt", b"x"), ("folder/c", b"y")]).arg("--browse").start();
    let page = get(&curl, &server, "/", &[]);
    assert_eq!(page.status(), 200);
    assert!(String::from_utf8(page.body).unwrap().contains("a%20b.txt"));
    let json = get(&curl, &server, "/", &["--header", "Accept: application/json"]);
    assert_eq!(json.field("Content-Type"), Some("application/json"), "{}", json.heads);
    assert!(serde_json::from_slice::<Value>(&json.body).unwrap().to_string().contains("a b.txt"));
}

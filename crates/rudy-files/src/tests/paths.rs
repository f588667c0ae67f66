//! Tests that only regular files below the root are served.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;

use proptest::prelude::*;
use rustix::fs::{CWD, Mode};

use super::*;

/// Returns a site in the folder `site`, with a secret file outside of it.
fn site_beside_a_secret(options: FilesOptions) -> Site {
    let folder = TempDir::new().unwrap();
    write(&folder, "secret.txt", "secret", Duration::from_hours(1));
    write(&folder, "site/a.txt", "a", Duration::from_hours(1));
    write(&folder, "site/deep/b.txt", "b", Duration::from_hours(1));
    write(&folder, "site/%2e%2e", "percent", Duration::from_hours(1));
    let files = Files::open(folder.path().join("site"), options, &Folders::default()).unwrap();
    Site { folder, files }
}

#[test]
fn no_spelling_of_a_path_leaves_the_folder() {
    let site = site_beside_a_secret(FilesOptions::default());
    for path in [
        "/../secret.txt",
        "/deep/../../secret.txt",
        "/..",
        "/%2e%2e/secret.txt",
        "/%2E%2E/secret.txt",
        "/.%2e/secret.txt",
        "/%2e./secret.txt",
        "/..%2fsecret.txt",
        "/..%2Fsecret.txt",
        "/deep%2fb.txt",
        "/..%5csecret.txt",
        "/..\\secret.txt",
        "\\..\\secret.txt",
        "/a.txt%00",
        "/a.txt%00.html",
        "/a.txt\0",
        "/%c0%ae%c0%ae/secret.txt",
        "/%ff",
        "/%",
        "/%2",
        "/%zz",
    ] {
        let response = site.get(path);
        assert_eq!(response.status, 400, "{path}");
        assert!(!response.text().contains("secret"), "{path}");
    }
    for path in ["/./a.txt", "/deep/../a.txt", "/%2e/deep/%2E%2E//a.txt"] {
        assert_eq!(site.get(path).brief(), (200, "a"), "{path}");
    }
    for path in ["/deep/..", "/%252e%252e/secret.txt", "/...", "/....//secret.txt", "/~root", "/etc/passwd"] {
        assert_eq!(site.get(path).status, 404, "{path}");
    }
    assert_eq!(site.get("/%252e%252e").brief(), (200, "percent"), "decoded once");
    assert_eq!(site.get("/%252e%252e").brief(), (200, "percent"));
    assert_eq!(site.get("/%2e%2e").status, 400, "even if a file has this name and was just served");
}

#[test]
fn no_random_path_serves_the_secret() {
    let options = FilesOptions { serve_hidden: true, browse: Browse::On, ..FilesOptions::default() };
    let site = site_beside_a_secret(options);
    let strategy = "(/|%2[eEfF]|%5[cC]|%00|%25|\\.|\\\\|a|deep|b|site|secret|\\.txt){0,12}";
    proptest!(|(path in strategy)| {
        let response = site.get(&path);
        prop_assert!([200, 301, 400, 404].contains(&response.status.as_u16()), "{}", response.status);
        prop_assert!(!response.text().contains("secret"), "{}", response.text());
    });
}

#[test]
fn links_are_followed_beneath_the_folder_only() {
    let site = site_beside_a_secret(always_revalidate());
    let root = site.folder.path().join("site");
    symlink("deep/b.txt", root.join("inside.txt")).unwrap();
    symlink("../a.txt", root.join("deep/up.txt")).unwrap();
    symlink("deep", root.join("folder")).unwrap();
    symlink("../secret.txt", root.join("outside.txt")).unwrap();
    symlink("..", root.join("above")).unwrap();
    symlink(site.folder.path().join("secret.txt"), root.join("absolute.txt")).unwrap();
    symlink(root.join("a.txt"), root.join("absolute-inside.txt")).unwrap();
    symlink("loop", root.join("loop")).unwrap();
    symlink("nowhere", root.join("dangling")).unwrap();
    symlink("/proc/self/root", root.join("magic")).unwrap();
    for (path, expected) in [("/inside.txt", "b"), ("/deep/up.txt", "a"), ("/folder/b.txt", "b")] {
        assert_eq!(site.get(path).brief(), (200, expected), "{path}");
    }
    for path in [
        "/outside.txt",
        "/above/secret.txt",
        "/absolute.txt",
        "/absolute-inside.txt",
        "/loop",
        "/dangling",
        "/magic/etc/passwd",
    ] {
        assert_eq!(site.get(path).status, 404, "{path}");
    }
}

#[test]
fn links_lead_out_of_the_folder_with_follow_symlinks() {
    let site = site_beside_a_secret(FilesOptions { follow_symlinks: true, ..FilesOptions::default() });
    let root = site.folder.path().join("site");
    symlink("../secret.txt", root.join("outside.txt")).unwrap();
    symlink(site.folder.path().join("secret.txt"), root.join("absolute.txt")).unwrap();
    assert_eq!(site.get("/outside.txt").brief(), (200, "secret"));
    assert_eq!(site.get("/absolute.txt").brief(), (200, "secret"));
    assert_eq!(site.get("/../secret.txt").status, 400);
}

#[test]
fn a_file_replaced_by_a_link_out_of_the_folder_is_not_found() {
    let site = site_beside_a_secret(always_revalidate());
    assert_eq!(site.get("/a.txt").brief(), (200, "a"));
    let path = site.folder.path().join("site/a.txt");
    fs::remove_file(&path).unwrap();
    symlink("../secret.txt", path).unwrap();
    assert_eq!(site.get("/a.txt").status, 404);
}

#[test]
fn hidden_files_are_served_only_with_serve_hidden() {
    let contents =
        [(".env", "x"), (".git/config", "x"), ("a/.b/c.txt", "x"), (".well-known/security.txt", "x")];
    let site = Site::with(&contents);
    for path in ["/.env", "/%2eenv", "/.git/config", "/a/.b/c.txt", "/.nothing"] {
        assert_eq!(site.get(path).status, 404, "{path}");
    }
    assert_eq!(site.get("/.well-known/security.txt").status, 200);
    let site = Site::with_options(&contents, FilesOptions { serve_hidden: true, ..FilesOptions::default() });
    for path in ["/.env", "/.git/config", "/a/.b/c.txt"] {
        assert_eq!(site.get(path).status, 200, "{path}");
    }
}

#[test]
fn only_regular_files_are_served() {
    let site = Site::with(&[]);
    let fifo = site.folder.path().join("fifo");
    rustix::fs::mknodat(CWD, &fifo, rustix::fs::FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    let _socket = UnixListener::bind(site.folder.path().join("socket")).unwrap();
    for path in ["/fifo", "/socket"] {
        assert_eq!(site.get(path).status, 404, "{path}");
    }
}

#[test]
fn a_file_without_read_permission_is_forbidden() {
    let site = Site::with(&[("a.txt", "a")]);
    let path = site.folder.path().join("a.txt");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o0)).unwrap();
    // Root can read every file.
    let expected = if fs::read(&path).is_ok() { 200 } else { 403 };
    assert_eq!(site.get("/a.txt").status, expected);
}

#[test]
fn long_paths_are_not_found() {
    let site = Site::with(&[("a.txt", "a")]);
    assert_eq!(site.get(&format!("/{}", "a".repeat(300))).status, 404);
    assert_eq!(site.get(&"/a".repeat(4000)).status, 404);
    assert_eq!(site.get("/a.txt/b").status, 404);
}

//! Which files and paths an app can name.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use rudy_config::{FilePath, Location};
use rudy_message::Replacement;
use rudy_pipeline::Routes;
use rudy_service::{Body, Client, Peer, Request};

use super::{Replaced, ReplacementTable, Replacements, Target};
use crate::Folders;

#[test]
fn a_file_is_named_by_its_path_or_by_that_of_a_uri() {
    let folder = tempfile::tempdir().unwrap();
    let replacements = sendfile(folder.path());
    let root = folder.path().display().to_string();
    let latin1 = [root.as_bytes(), b"/caf\xe9.pdf"].concat();
    for (name, value, expected) in [
        ("x-accel-redirect", &b"/caf\xc3\xa9.pdf"[..], Some(&b"/caf\xc3\xa9.pdf"[..])),
        ("x-accel-redirect", b"/caf%C3%A9.pdf", Some(b"/caf\xc3\xa9.pdf")),
        ("x-accel-redirect", b"/caf\xe9%FF", Some(b"/caf\xe9\xff")),
        ("x-accel-redirect", b"/a%2Fb%5Cc\\d", Some(b"/a/b\\c\\d")),
        ("x-accel-redirect", b"/%252F", Some(b"/%2F")),
        ("x-accel-redirect", b"/%2Fetc%2F%2fpasswd", Some(b"/etc/passwd")),
        ("x-accel-redirect", b"/..%2Fa.pdf", None),
        ("x-accel-redirect", b"/a%2F..%2F..%2Fb.pdf", None),
        ("x-accel-redirect", b"/a%00b", None),
        ("x-sendfile", &latin1, Some(b"/caf\xe9.pdf")),
        ("x-sendfile", b"caf\xc3\xa9\\%2F%.pdf", Some(b"/caf\xc3\xa9\\%2F%.pdf")),
        ("x-sendfile", b"a\\../../b.pdf", Some(b"/b.pdf")),
        ("x-sendfile", b"\xff/../../b.pdf", None),
    ] {
        assert_eq!(
            path_of(&replacements, name, value).as_deref(),
            expected,
            "{name}: {}",
            value.escape_ascii()
        );
    }
    for (name, value, expected) in [
        ("x-accel-redirect", "/a/b%20c.pdf", Some("/a/b c.pdf")),
        ("x-accel-redirect", "/a.pdf?v=1", Some("/a.pdf")),
        ("x-accel-redirect", "a.pdf", None),
        ("x-accel-redirect", "/../a.pdf", None),
        ("x-accel-redirect", "/%2e%2e/a.pdf", None),
        ("x-sendfile", &format!("{root}/a/b c%.pdf"), Some("/a/b c%.pdf")),
        ("x-sendfile", "a/b.pdf", Some("/a/b.pdf")),
        ("x-sendfile", "../a.pdf", None),
        ("x-sendfile", &format!("{root}/../a.pdf"), None),
        ("x-sendfile", &format!("{root}-other/a.pdf"), None),
        ("x-sendfile", "/etc/passwd", None),
        ("x-lighttpd-send-file", &format!("{root}/a.pdf"), Some("/a.pdf")),
    ] {
        let path = path_of(&replacements, name, value.as_bytes());
        assert_eq!(path.as_deref(), expected.map(str::as_bytes), "{name}: {value}");
    }
}

#[test]
fn files_of_all_names_below_the_root_are_sent_and_no_others() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("private");
    std::fs::create_dir_all(root.join("a")).unwrap();
    let outside = folder.path().join("secret").display().to_string();
    std::fs::write(&outside, "secret").unwrap();
    for name in [&b"caf\xe9"[..], "café".as_bytes(), b"a/b", b"c\\d", b"e%2Ff", b"a/caf\xe9"] {
        std::fs::write(root.join(OsStr::from_bytes(name)), name).unwrap();
    }
    std::os::unix::fs::symlink(&outside, root.join("link")).unwrap();
    std::os::unix::fs::symlink(&outside, root.join(OsStr::from_bytes(b"link\xe9"))).unwrap();
    let replacements = sendfile(&root);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let send = |name: &'static str, value: &[u8]| {
        let (request, client) = (Request::default(), Client::new(Peer::Unix, 1, 1));
        let replaced = Replaced { request: &request, client: &client, routes: &Arc::new(Routes::none()) };
        let (file, fields) = (replacement(name, value), HeaderMap::new());
        let sent = runtime.block_on(replacements.respond(replaced, &file, StatusCode::OK, &fields));
        match sent.map(|response| response.body) {
            Ok(Body::Bytes(bytes)) => bytes.to_vec(),
            Ok(_) => panic!("a small file is in memory"),
            Err(_) => b"(none)".to_vec(),
        }
    };
    let absolute = [root.as_os_str().as_bytes(), b"/a/caf\xe9"].concat();
    for (name, value, expected) in [
        ("x-accel-redirect", &b"/caf\xe9"[..], &b"caf\xe9"[..]),
        ("x-accel-redirect", b"/caf%E9?v=1", b"caf\xe9"),
        ("x-accel-redirect", "/café".as_bytes(), "café".as_bytes()),
        ("x-accel-redirect", b"/a%2Fb", b"a/b"),
        ("x-accel-redirect", b"/c\\d", b"c\\d"),
        ("x-accel-redirect", b"/e%252Ff", b"e%2Ff"),
        ("x-sendfile", b"caf\xe9", b"caf\xe9"),
        ("x-sendfile", "café".as_bytes(), "café".as_bytes()),
        ("x-sendfile", b"c\\d", b"c\\d"),
        ("x-sendfile", b"e%2Ff", b"e%2Ff"),
        ("x-sendfile", &absolute, b"a/caf\xe9"),
        ("x-accel-redirect", b"/none\xe9", b"(none)"),
        ("x-accel-redirect", b"/a", b"(none)"),
        ("x-accel-redirect", b"/link", b"(none)"),
        ("x-accel-redirect", b"/link%E9", b"(none)"),
        ("x-accel-redirect", b"/..%2Fsecret", b"(none)"),
        ("x-accel-redirect", b"/a%2F..%2F..%2Fsecret", b"(none)"),
        ("x-accel-redirect", &[b"/%2F", outside.as_bytes()].concat(), b"(none)"),
        ("x-sendfile", outside.as_bytes(), b"(none)"),
        ("x-sendfile", b"../secret", b"(none)"),
        ("x-sendfile", b"\xe9/../../secret", b"(none)"),
    ] {
        let sent = send(name, value);
        assert_eq!(
            sent.escape_ascii().to_string(),
            expected.escape_ascii().to_string(),
            "{name}: {}",
            value.escape_ascii()
        );
    }
}

#[test]
fn an_app_redirects_to_the_listed_paths_only_and_names_files_by_others() {
    let folder = tempfile::tempdir().unwrap();
    let table = ReplacementTable {
        accel_redirect: Some(
            ["/protected/*", "/one"].map(|pattern| pattern.parse().unwrap()).into_iter().collect(),
        ),
        ..ReplacementTable::default()
    };
    let with_root = ReplacementTable { sendfile_root: Some(FilePath(folder.path().into())), ..table.clone() };
    let [alone, beside] = [&table, &with_root].map(open);
    for (uri, target, file) in [
        ("/protected/a%2Bb//c?d=%7e", Some("/protected/a%2Bb//c?d=%7e"), None),
        ("/protected/caf\u{e9} {}?a b", Some("/protected/caf%C3%A9%20%7B%7D?a%20b"), None),
        ("/protected/caf%25C3%25A9%252F", Some("/protected/caf%25C3%25A9%252F"), None),
        ("/protected/a#/../b", Some("/protected/a%23/../b"), None),
        ("/one/more", None, Some("/one/more")),
        ("/two#/../one", Some("/two%23/../one"), None),
        ("/protected/../secret", None, Some("/secret")),
        ("/protected%2Fa", None, Some("/protected/a")),
        ("/protected/../../one", None, None),
        ("http://a/protected/a", None, None),
        ("//a/protected/a", None, Some("/a/protected/a")),
        ("@named", None, None),
    ] {
        let named = |replacements: &Replacements| match replacements
            .target(&replacement("x-accel-redirect", uri.as_bytes()))
        {
            Ok(Target::Route(target)) => (Some(target), None),
            Ok(Target::File(path)) => (None, Some(String::from_utf8(path.as_bytes().to_vec()).unwrap())),
            Err(_) => (None, None),
        };
        let owned = |text: Option<&str>| text.map(str::to_owned);
        assert_eq!(named(&beside), (owned(target), owned(file)), "{uri}");
        assert_eq!(named(&alone), (owned(target), None), "{uri}");
    }
    let latin1 = alone.target(&replacement("x-accel-redirect", b"/protected/caf\xe9%E9"));
    assert!(matches!(latin1, Ok(Target::Route(target)) if target == "/protected/caf%E9%E9"));
    for (replacements, name, expected) in [
        (&alone, "x-accel-redirect", "which is not among the paths of `accel_redirect`"),
        (&alone, "x-sendfile", "but `sendfile_root` is not set"),
        (
            &Replacements::none(),
            "x-accel-redirect",
            "but neither `sendfile_root` nor `accel_redirect` is set",
        ),
        (&beside, "x-sendfile", "which is not a path below `sendfile_root`"),
    ] {
        let error = replacements.target(&replacement(name, b"/../a")).err().map(|error| error.to_string());
        assert_eq!(error, Some(format!("{name} names \"/../a\", {expected}")));
    }
}

fn open(table: &ReplacementTable) -> Replacements {
    Replacements::open(table, false, &Location::none(), &Folders::default()).unwrap()
}

fn sendfile(root: &Path) -> Replacements {
    open(&ReplacementTable { sendfile_root: Some(FilePath(root.into())), ..ReplacementTable::default() })
}

fn replacement(name: &'static str, value: &[u8]) -> Replacement {
    Replacement { name: HeaderName::from_static(name), value: HeaderValue::from_bytes(value).unwrap() }
}

fn path_of(replacements: &Replacements, name: &'static str, value: &[u8]) -> Option<Vec<u8>> {
    match replacements.target(&replacement(name, value)) {
        Ok(Target::File(path)) => Some(path.as_bytes().to_vec()),
        _ => None,
    }
}

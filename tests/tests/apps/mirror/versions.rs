//! Metadata that belongs together: of one version, also if its files are requested at different times.

use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use rudy_tests::prelude::*;

use crate::mirror::{Mirror, Origin, get, message, request};

/// Starts a repository whose files have the content `PATH VERSION`.
fn with_versions() -> (Origin, Arc<AtomicUsize>) {
    let version = Arc::new(AtomicUsize::new(1));
    let current = version.clone();
    let origin = Origin::start(move |request| {
        let version = current.load(Ordering::SeqCst);
        let tag = format!("ETag: \"{version}\"\r\n");
        if request.field("if-none-match") == Some(&format!("\"{version}\"")) {
            return format!("HTTP/1.1 304 Not Modified\r\n{tag}\r\n").into_bytes();
        }
        message("200 OK", &tag, &format!("{} {version}", request.target()))
    });
    (origin, version)
}

fn sha1(text: &str) -> String {
    let digest = digest(&SHA1_FOR_LEGACY_USE_ONLY, text.as_bytes());
    let digits = digest.as_ref().iter().map(|byte| format!("{byte:02x}"));
    digits.collect::<Vec<_>>().concat()
}

#[test]
fn a_checksum_of_metadata_is_that_of_the_version_that_is_sent() {
    for freshness in ["0s", "1h"] {
        let (origin, version) = with_versions();
        let (_mirror, server) =
            Mirror::with_keys(&origin, "maven", &format!(", metadata_freshness = \"{freshness}\""));
        let path = "/g/a/maven-metadata.xml";
        let matches = || {
            let metadata = get(&server, path, &[]).text().to_owned();
            let checksum = get(&server, &format!("{path}.sha1"), &[]);
            assert_eq!((checksum.status, checksum.text()), (200, sha1(&metadata).as_str()), "{freshness}");
            assert_eq!(checksum.field("content-type"), Some("text/plain"));
            let tag = format!("If-None-Match: {}", checksum.field("etag").expect("it has a tag"));
            assert_eq!(get(&server, &format!("{path}.sha1"), &[&tag]).status, 304);
            let head = request(&server, "HEAD", &format!("{path}.sha1"), &[]);
            assert_eq!(head.field("content-length"), Some("40"));
            assert_eq!(get(&server, &format!("{path}.md5"), &[]).text().len(), 32);
        };
        matches();
        version.store(2, Ordering::SeqCst);
        matches();
        assert_eq!(origin.last().target().strip_suffix(".sha1"), None);
        drop(origin);
        matches();
    }
}

#[test]
fn the_files_of_a_suite_are_updated_together() {
    const IN_RELEASE: &str = "/dists/a/InRelease";
    const PACKAGES: &str = "/dists/a/main/binary-amd64/Packages";
    for (freshness, first, second) in [
        // The head first, and the repository fails before the other file is requested again.
        ("0s", IN_RELEASE, PACKAGES),
        ("0s", PACKAGES, IN_RELEASE),
        ("0s", "/dists/a/Release", "/dists/a/Release.gpg"),
        // A file that is requested for the first time is of a newer version than the head, which is fresh.
        ("1h", "/dists/a/main/binary-arm64/Packages", IN_RELEASE),
        ("1h", "/dists/a/main/binary-arm64/Packages", PACKAGES),
    ] {
        let (origin, version) = with_versions();
        let (_mirror, server) =
            Mirror::with_keys(&origin, "apt", &format!(", metadata_freshness = \"{freshness}\""));
        for path in [IN_RELEASE, PACKAGES, "/dists/a/Release", "/dists/a/Release.gpg"] {
            eventually("it is stored", || {
                let response = get(&server, path, &[]);
                assert_eq!(response.text(), format!("{path} 1"));
                response.field("cache-status").filter(|status| !status.contains("uri-miss")).map(drop)
            });
        }
        version.store(2, Ordering::SeqCst);
        assert_eq!(get(&server, first, &[]).text(), format!("{first} 2"));
        drop(origin);
        assert_eq!(get(&server, second, &[]).text(), format!("{second} 2"), "{freshness} {first}");
    }
}

//! Tests which siblings are written, replaced and removed.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::time::{Duration, SystemTime};

use rudy_message::semantics::negotiation::Coding;
use tempfile::TempDir;

use super::*;

fn folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir_all(folder.path().join("sub/.hidden")).unwrap();
    for name in ["page.html", "sub/app.js", "photo.png", ".secret.html", "sub/.hidden/x.html"] {
        fs::write(folder.path().join(name), "text ".repeat(1000)).unwrap();
    }
    fs::write(folder.path().join("small.html"), "text").unwrap();
    symlink("/etc/passwd", folder.path().join("link.html")).unwrap();
    folder
}

fn options(folder: &TempDir) -> Options {
    Options {
        folder: folder.path().to_owned(),
        codings: vec![Coding::Gzip],
        level: Some(1),
        jobs: Some(2),
        dry_run: false,
        prune: false,
    }
}

/// Returns the names of all siblings, sorted.
fn siblings(folder: &TempDir) -> Vec<String> {
    let mut names = Vec::new();
    for part in ["", "sub", "sub/.hidden"] {
        for entry in fs::read_dir(folder.path().join(part)).unwrap() {
            let name = entry.unwrap().path();
            let name = name.strip_prefix(folder.path()).unwrap().to_str().unwrap().to_owned();
            if [".gz", ".br", ".zst"].iter().any(|end| name.ends_with(end)) || name.contains("precompress-") {
                names.push(name);
            }
        }
    }
    names.sort();
    names
}

fn set_time(path: &Path, seconds: u64) {
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
    File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
}

#[test]
fn text_gets_siblings_that_decode_to_it_with_its_time_and_permissions() {
    let folder = folder();
    let page = folder.path().join("page.html");
    fs::set_permissions(&page, fs::Permissions::from_mode(0o640)).unwrap();
    let codings = Coding::COMPRESSED.to_vec();
    let totals = precompress(&Options { codings, level: None, ..options(&folder) }).unwrap();
    assert_eq!((totals.written, totals.plain_bytes, totals.failed), (6, 30_000, 0));
    let expected =
        ["page.html.br", "page.html.gz", "page.html.zst", "sub/app.js.br", "sub/app.js.gz", "sub/app.js.zst"];
    assert_eq!(siblings(&folder), expected);
    let sibling = folder.path().join("page.html.gz");
    let mut text = String::new();
    flate2::read::GzDecoder::new(File::open(&sibling).unwrap()).read_to_string(&mut text).unwrap();
    assert_eq!(text, "text ".repeat(1000));
    let [ours, original] = [&sibling, &page].map(|path| fs::metadata(path).unwrap());
    assert_eq!(ours.permissions().mode() & 0o777, 0o640);
    assert_eq!(ours.modified().unwrap(), original.modified().unwrap());
}

#[test]
fn only_changed_files_are_compressed_again() {
    let folder = folder();
    assert_eq!(precompress(&options(&folder)).unwrap().written, 2);
    let again = precompress(&options(&folder)).unwrap();
    assert_eq!((again.written, again.current), (0, 2));
    // A rollback: the file is older than its sibling.
    set_time(&folder.path().join("page.html"), 1_000_000_000);
    assert_eq!(precompress(&options(&folder)).unwrap().written, 1);
    // The sibling of a build tool is newer than its file, and stays.
    let by_tool = folder.path().join("sub/app.js.br");
    fs::write(&by_tool, "by a tool").unwrap();
    let brotli = Options { codings: vec![Coding::Brotli], ..options(&folder) };
    let totals = precompress(&brotli).unwrap();
    assert_eq!((totals.written, totals.current), (1, 1));
    assert_eq!(fs::read(&by_tool).unwrap(), b"by a tool");
    set_time(&by_tool, 1_000_000_000);
    assert_eq!(precompress(&brotli).unwrap().written, 1);
}

#[test]
fn a_file_that_does_not_become_smaller_gets_no_sibling_and_loses_an_old_one() {
    let folder = folder();
    let page = folder.path().join("page.html");
    assert_eq!(precompress(&options(&folder)).unwrap().written, 2);
    let mut noise = vec![0; 5000];
    File::open("/dev/urandom").unwrap().read_exact(&mut noise).unwrap();
    fs::write(&page, noise).unwrap();
    set_time(&page, 1_000_000_000);
    let totals = precompress(&options(&folder)).unwrap();
    assert_eq!((totals.written, totals.not_smaller, totals.removed), (0, 1, 1));
    assert_eq!(siblings(&folder), ["sub/app.js.gz"]);
}

#[test]
fn pruning_removes_own_siblings_of_files_that_are_gone() {
    let folder = folder();
    fs::write(folder.path().join("dump.sql.gz"), "a download").unwrap();
    assert_eq!(precompress(&options(&folder)).unwrap().written, 2);
    fs::remove_file(folder.path().join("page.html")).unwrap();
    assert_eq!(precompress(&options(&folder)).unwrap().removed, 0);
    let prune = Options { prune: true, ..options(&folder) };
    assert_eq!(precompress(&Options { dry_run: true, ..prune.clone() }).unwrap().removed, 1);
    assert_eq!(siblings(&folder).len(), 3);
    assert_eq!(precompress(&prune).unwrap().removed, 1);
    assert_eq!(siblings(&folder), ["dump.sql.gz", "sub/app.js.gz"]);
}

#[test]
fn a_dry_run_changes_nothing() {
    let folder = folder();
    let dry = Options { dry_run: true, ..options(&folder) };
    let totals = precompress(&dry).unwrap();
    assert_eq!((totals.written, siblings(&folder).len()), (2, 0));
    assert!(totals.summary(&dry).starts_with("would write 2 compressed files: "), "{}", totals.summary(&dry));
    assert!(!folder.path().join(".rudy-precompress").exists());
}

#[test]
fn a_folder_that_cannot_be_read_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let missing = Options { folder: folder.path().join("none"), ..options(&folder) };
    assert!(precompress(&missing).is_err());
    assert_eq!(run(&missing), Exit::CannotRun);
}

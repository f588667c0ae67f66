//! What is kept, and when a change is seen.

use std::io::Seek;
use std::sync::Arc;

use rudy_net::Head;

use super::*;
use crate::error_log::ErrorLog;

fn head_of(site: &Site, path: &str) -> Arc<rudy_http::h1::PreparedHead> {
    let Reply::Now(response) = site.send_get(path) else { panic!("a file needs no waiting") };
    let Head::Prepared(head) = response.head else { panic!("the head was encoded beforehand") };
    head
}

#[test]
fn a_known_path_is_answered_with_the_same_head() {
    for options in [FilesOptions::default(), on_disk()] {
        let site = Site::with_options(&[("a.png", "x"), ("d/index.html", "x"), ("b c.png", "x")], options);
        for path in ["/a.png", "/d/", "/b%20c.png"] {
            assert!(Arc::ptr_eq(&head_of(&site, path), &head_of(&site, path)), "{path}");
        }
        assert!(
            Arc::ptr_eq(&head_of(&site, "/a.png"), &head_of(&site, "//%61.png")),
            "one entry for every spelling"
        );
    }
}

#[test]
fn nothing_is_kept_where_there_is_no_room() {
    let options = FilesOptions { cache_size: 0, open_files: 0, ..FilesOptions::default() };
    let site = Site::with_options(&[("a.png", "x")], options);
    assert!(!Arc::ptr_eq(&head_of(&site, "/a.png"), &head_of(&site, "/a.png")));
    assert_eq!(site.get("/a.png").brief(), (200, "x"));
}

#[test]
fn a_large_file_fits_with_its_codings_or_is_not_read_into_memory() {
    let text = "some words that shrink well\n".repeat(4000);
    for (cache_size, in_memory) in [(2_000_000, true), (800_000, false)] {
        let options = FilesOptions { cache_size, cache_max_file_size: u64::MAX, ..FilesOptions::default() };
        let site = Site::with_options(&[("a.txt", &text)], options);
        for coding in ["br", "gzip", "zstd"] {
            assert_eq!(
                site.get_with("/a.txt", &[("accept-encoding", coding)]).field("content-encoding"),
                coding
            );
        }
        let Reply::Now(response) = site.send_get("/a.txt") else { panic!("a file needs no waiting") };
        assert_eq!(matches!(response.body, Body::Bytes(_)), in_memory);
        assert!(Arc::ptr_eq(&head_of(&site, "/a.txt"), &head_of(&site, "/a.txt")), "it is kept");
        assert!(site.get_with("/a.txt", &[("accept-encoding", "br")]).at_once);
    }
}

#[test]
fn a_change_is_seen_once_the_time_is_over_and_not_before() {
    let hour = Duration::from_hours(1);
    for (revalidate_after, seen) in [(Duration::ZERO, true), (hour, false)] {
        for cache_max_file_size in [0, 1024] {
            let options = FilesOptions { cache_max_file_size, revalidate_after, ..FilesOptions::default() };
            let site = Site::with_options(&[("a.txt", "old")], options);
            assert_eq!(site.get("/a.txt").text(), "old");
            let new = site.folder.path().join("new");
            fs::write(&new, "new").unwrap();
            fs::rename(new, site.folder.path().join("a.txt")).unwrap();
            assert_eq!(site.get("/a.txt").text(), if seen { "new" } else { "old" });
        }
    }
}

#[test]
fn every_kind_of_change_is_seen() {
    let site = Site::with_options(&[("a.txt", "one"), ("d/index.html", "index")], uncached_time());
    let day = Duration::from_hours(24);
    assert_eq!(site.get("/a.txt").text(), "one");
    site.write_old("a.txt", "two", day);
    assert_eq!(site.get("/a.txt").text(), "two", "the same size, an older time");
    let kept = fs::metadata(site.folder.path().join("a.txt")).unwrap().modified().unwrap();
    fs::write(site.folder.path().join("a.txt"), "six").unwrap();
    let file = fs::File::options().write(true).open(site.folder.path().join("a.txt")).unwrap();
    file.set_modified(kept).unwrap();
    assert_eq!(site.get("/a.txt").text(), "six", "the same size and the same time");
    fs::remove_file(site.folder.path().join("a.txt")).unwrap();
    assert_eq!(site.get("/a.txt").status, 404);
    site.write("a.txt", "back");
    assert_eq!(site.get("/a.txt").text(), "back");
    assert_eq!(site.get("/d/").text(), "index");
    fs::remove_file(site.folder.path().join("d/index.html")).unwrap();
    assert_eq!(site.get("/d/").status, 404);
}

#[test]
fn a_file_changed_within_the_tick_of_the_clock_is_read_again() {
    let site = Site::with_options(&[("a.txt", "one")], uncached_time());
    for content in ["two", "six", "ten"] {
        site.write("a.txt", content);
        assert_eq!(site.get("/a.txt").text(), content);
    }
}

#[test]
fn a_sibling_that_appears_or_goes_is_seen() {
    let site = Site::with_options(&[("a.png", "plain")], uncached_time());
    let get = || {
        let answer = site.get_with("/a.png", &[("accept-encoding", "br")]);
        (answer.text().to_owned(), answer.field("vary").to_owned())
    };
    assert_eq!(get(), ("plain".into(), String::new()));
    site.write("a.png.br", "coded");
    assert_eq!(get(), ("coded".into(), "Accept-Encoding".into()));
    fs::remove_file(site.folder.path().join("a.png.br")).unwrap();
    assert_eq!(get(), ("plain".into(), String::new()));
}

#[test]
fn a_file_that_goes_before_in_the_search_is_seen() {
    let options = FilesOptions { try_files: vec!["{path}".into(), "{path}.html".into()], ..uncached_time() };
    let site = Site::with_options(&[("about.html", "second")], options);
    assert_eq!(site.get("/about").text(), "second");
    site.write("about", "first");
    assert_eq!(site.get("/about").text(), "first");
}

#[test]
fn a_changed_file_is_compressed_anew() {
    let site = Site::with_options(&[("a.css", &"a { color: red }\n".repeat(200))], uncached_time());
    let accept = [("accept-encoding", "gzip")];
    let first = site.get_with("/a.css", &accept);
    assert!(site.get_with("/a.css", &accept).at_once);
    site.write_old("a.css", &"b { color: tan }\n".repeat(200), Duration::from_mins(1));
    let second = site.get_with("/a.css", &accept);
    assert!(first.body != second.body && first.field("etag") != second.field("etag"));
    assert_eq!(second.field("content-encoding"), "gzip");
}

#[test]
fn a_file_replaced_while_it_is_sent_goes_out_as_it_was() {
    let site = Site::with_options(&[("a.bin", "before")], on_disk());
    let Reply::Now(response) = site.send_get("/a.bin") else { panic!("a file needs no waiting") };
    let Body::File(range) = response.body else { panic!("it is not kept in memory") };
    site.write("new", "after it");
    fs::rename(site.folder.path().join("new"), site.folder.path().join("a.bin")).unwrap();
    assert_eq!((read(&range), range.size, range.length), (b"before".to_vec(), 6, 6));
}

#[test]
fn a_root_that_is_a_link_is_followed_when_it_turns() {
    let folder = TempDir::new().unwrap();
    for release in ["one", "two"] {
        write(&folder, &format!("{release}/a.txt"), release, Duration::from_hours(1));
    }
    let current = folder.path().join("current");
    std::os::unix::fs::symlink("one", &current).unwrap();
    let files = Files::open(&current, uncached_time(), &Folders::default()).unwrap();
    let site = Site { folder, files };
    assert_eq!(site.get("/a.txt").text(), "one");
    std::os::unix::fs::symlink("two", site.folder.path().join("next")).unwrap();
    fs::rename(site.folder.path().join("next"), &current).unwrap();
    assert_eq!(site.get("/a.txt").text(), "two");

    let mut said = tempfile::tempfile().unwrap();
    let log = ErrorLog::to(said.try_clone().unwrap()).unwrap();
    site.files.log_to(log.clone());
    fs::remove_file(&current).unwrap();
    assert_eq!(site.get("/a.txt").text(), "two", "the folder that is open is kept");
    log.close();
    said.rewind().unwrap();
    let said = std::io::read_to_string(said).unwrap();
    assert!(said.contains("the open folder is still served"), "{said}");
}

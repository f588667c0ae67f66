//! Tests what is cached, and when a change of a file is detected.

use std::io::Seek;
use std::sync::Arc;

use rudy_log::ErrorLog;
use rudy_service::Head;

use super::*;

fn head_of(site: &Site, path: &str) -> Arc<rudy_message::PreparedHead> {
    let Reply::Now(response) = site.send_get(path) else { panic!("the response is immediate") };
    let Head::Prepared(head) = response.head else { panic!("the head is encoded") };
    head
}

#[test]
fn a_cached_path_has_the_same_head() {
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
fn a_cache_of_size_zero_holds_nothing() {
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
        let Reply::Now(response) = site.send_get("/a.txt") else { panic!("the response is immediate") };
        assert_eq!(matches!(response.body, Body::Bytes(_)), in_memory);
        assert!(Arc::ptr_eq(&head_of(&site, "/a.txt"), &head_of(&site, "/a.txt")), "it is cached");
        assert!(site.get_with("/a.txt", &[("accept-encoding", "br")]).is_immediate);
    }
}

#[test]
fn a_change_is_detected_after_revalidate_after() {
    let hour = Duration::from_hours(1);
    for (revalidate_after, is_detected) in [(Duration::ZERO, true), (hour, false)] {
        for cache_max_file_size in [0, 1024] {
            let options = FilesOptions { cache_max_file_size, revalidate_after, ..FilesOptions::default() };
            let site = Site::with_options(&[("a.txt", "old")], options);
            assert_eq!(site.get("/a.txt").text(), "old");
            let new = site.folder.path().join("new");
            fs::write(&new, "new").unwrap();
            fs::rename(new, site.folder.path().join("a.txt")).unwrap();
            assert_eq!(site.get("/a.txt").text(), if is_detected { "new" } else { "old" });
        }
    }
}

#[test]
fn every_kind_of_change_is_detected() {
    let site = Site::with_options(&[("a.txt", "one"), ("d/index.html", "index")], always_revalidate());
    let day = Duration::from_hours(24);
    assert_eq!(site.get("/a.txt").text(), "one");
    site.write_old("a.txt", "two", day);
    assert_eq!(site.get("/a.txt").text(), "two", "the same size, an older time");
    let modified = fs::metadata(site.folder.path().join("a.txt")).unwrap().modified().unwrap();
    fs::write(site.folder.path().join("a.txt"), "six").unwrap();
    let file = fs::File::options().write(true).open(site.folder.path().join("a.txt")).unwrap();
    file.set_modified(modified).unwrap();
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
fn changes_within_one_clock_tick_are_detected() {
    let site = Site::with_options(&[("a.txt", "one")], always_revalidate());
    for content in ["two", "six", "ten"] {
        site.write("a.txt", content);
        assert_eq!(site.get("/a.txt").text(), content);
    }
}

#[test]
fn a_new_or_removed_sibling_is_detected() {
    let site = Site::with_options(&[("a.png", "plain")], always_revalidate());
    let get = || {
        let response = site.get_with("/a.png", &[("accept-encoding", "br")]);
        (response.text().to_owned(), response.field("vary").to_owned())
    };
    assert_eq!(get(), ("plain".into(), String::new()));
    site.write("a.png.br", "coded");
    assert_eq!(get(), ("coded".into(), "Accept-Encoding".into()));
    fs::remove_file(site.folder.path().join("a.png.br")).unwrap();
    assert_eq!(get(), ("plain".into(), String::new()));
}

#[test]
fn a_new_file_earlier_in_try_files_is_detected() {
    let options = FilesOptions { try_files: tried(&["{path}", "{path}.html"]), ..always_revalidate() };
    let site = Site::with_options(&[("about.html", "second")], options);
    assert_eq!(site.get("/about").text(), "second");
    site.write("about", "first");
    assert_eq!(site.get("/about").text(), "first");
}

#[test]
fn a_changed_file_is_compressed_again() {
    let site = Site::with_options(&[("a.css", &"a { color: red }\n".repeat(200))], always_revalidate());
    let accept = [("accept-encoding", "gzip")];
    let first = site.get_with("/a.css", &accept);
    assert!(site.get_with("/a.css", &accept).is_immediate);
    site.write_old("a.css", &"b { color: tan }\n".repeat(200), Duration::from_mins(1));
    let second = site.get_with("/a.css", &accept);
    assert!(first.body != second.body && first.field("etag") != second.field("etag"));
    assert_eq!(second.field("content-encoding"), "gzip");
}

#[test]
fn a_file_replaced_during_a_response_is_sent_in_its_old_version() {
    let site = Site::with_options(&[("a.bin", "before")], on_disk());
    let Reply::Now(response) = site.send_get("/a.bin") else { panic!("the response is immediate") };
    let Body::File(range) = response.body else { panic!("it is not in memory") };
    site.write("new", "after it");
    fs::rename(site.folder.path().join("new"), site.folder.path().join("a.bin")).unwrap();
    assert_eq!((read(&range), range.size, range.length), (b"before".to_vec(), 6, 6));
}

#[test]
fn a_switched_symbolic_link_of_the_root_is_detected() {
    let folder = TempDir::new().unwrap();
    for release in ["one", "two"] {
        write(&folder, &format!("{release}/a.txt"), release, Duration::from_hours(1));
    }
    let current = folder.path().join("current");
    std::os::unix::fs::symlink("one", &current).unwrap();
    let files = Files::open(&current, always_revalidate(), &Folders::default()).unwrap();
    let site = Site { folder, files };
    assert_eq!(site.get("/a.txt").text(), "one");
    std::os::unix::fs::symlink("two", site.folder.path().join("next")).unwrap();
    fs::rename(site.folder.path().join("next"), &current).unwrap();
    assert_eq!(site.get("/a.txt").text(), "two");

    let mut log_text = tempfile::tempfile().unwrap();
    let log = ErrorLog::to(log_text.try_clone().unwrap()).unwrap();
    site.files.log_to(log.clone());
    fs::remove_file(&current).unwrap();
    assert_eq!(site.get("/a.txt").text(), "two", "the open folder is still served");
    log.close();
    log_text.rewind().unwrap();
    let log_text = std::io::read_to_string(log_text).unwrap();
    assert!(log_text.contains("still serving the folder that is open"), "{log_text}");
}

/// A site with the deployments `one`, which `current` leads to, and `two`. The root was checked, and is not checked again within the hour.
fn deployed(paths: &[&str]) -> Site {
    let folder = TempDir::new().unwrap();
    for path in paths {
        write(&folder, path, path, Duration::from_hours(1));
    }
    let current = folder.path().join("current");
    std::os::unix::fs::symlink("one", &current).unwrap();
    let options = FilesOptions { revalidate_after: Duration::from_hours(1), ..FilesOptions::default() };
    let files = Files::open(&current, options, &Folders::default()).unwrap();
    Site { folder, files }
}

fn switch(site: &Site, to: &str) {
    let next = site.folder.path().join("next");
    std::os::unix::fs::symlink(to, &next).unwrap();
    fs::rename(next, site.folder.path().join("current")).unwrap();
}

#[test]
fn a_file_has_no_sibling_of_a_later_deployment() {
    let site = deployed(&["one/a.txt", "one/b.txt", "two/a.txt", "two/a.txt.gz"]);
    assert_eq!(site.get("/b.txt").text(), "one/b.txt");
    switch(&site, "two");
    assert_eq!(site.get_with("/a.txt", &[("accept-encoding", "gzip")]).text(), "one/a.txt");
}

#[test]
fn a_request_finds_the_new_root_although_the_old_one_was_removed() {
    let site = deployed(&["one/a.txt", "one/b.txt", "two/b.txt", "two/page.html"]);
    assert_eq!(site.get("/a.txt").text(), "one/a.txt");
    switch(&site, "two");
    fs::remove_dir_all(site.folder.path().join("one")).unwrap();
    assert_eq!(site.get("/page.html").text(), "two/page.html");
    assert_eq!(site.get("/b.txt").text(), "two/b.txt");
    assert_eq!(site.get("/missing").status, 404);
    switch(&site, "nowhere");
    assert_eq!(site.get("/missing").status, 404, "the open folder is still served");
}

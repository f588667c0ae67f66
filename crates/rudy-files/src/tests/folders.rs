//! Tests which folders and files are open, for how long, and who shares them.

use std::path::Path;
use std::sync::Arc;

use rudy_log::ErrorLog;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify;

use super::super::clock::monotonic_ms;
use super::*;

const IDLE_MS: u64 = 60_000;
/// The default of `revalidate_after`.
const CHECK_MS: u64 = 1000;

/// Returns the names of the files that this process has open at or below `path`.
fn open_below(path: &Path) -> Vec<String> {
    let links =
        fs::read_dir("/proc/self/fd").unwrap().filter_map(|link| fs::read_link(link.ok()?.path()).ok());
    let below = links.filter(|target| target.starts_with(path));
    let mut names: Vec<_> =
        below.filter_map(|target| Some(target.file_name()?.to_string_lossy().into_owned())).collect();
    names.sort();
    names
}

fn site(folders: &Folders, options: FilesOptions) -> Site {
    Site::in_folders(&[("a.txt", "text"), ("b/b.txt", "text"), ("c/c.txt", "text")], options, folders)
}

#[test]
fn a_folder_is_open_only_while_it_is_used() {
    let folders = Folders::default();
    let site = site(&folders, FilesOptions::default());
    let open = || open_below(site.folder.path()).len();
    assert_eq!(open(), 0, "there was no request");
    assert_eq!(site.get("/a.txt").text(), "text");
    let used_ms = monotonic_ms();
    assert_eq!(open(), 1);
    assert!(folders.sweep(used_ms + IDLE_MS / 2) && open() == 1);
    assert!(!folders.sweep(used_ms + IDLE_MS + 1) && open() == 0);
    assert_eq!((site.get("/b/b.txt").text(), open()), ("text", 1));
    drop(site.files);
    assert_eq!(open_below(site.folder.path()).len(), 0, "no generation uses it");
}

#[test]
fn the_number_of_open_folders_is_limited() {
    let folders = Folders::with_bounds(Duration::from_hours(1), 2);
    let whole = site(&folders, FilesOptions::default());
    let path = whole.folder.path();
    let [b, c] =
        ["b", "c"].map(|name| Files::open(path.join(name), FilesOptions::default(), &folders).unwrap());
    let request = Request::default();
    let is_found = |files: &Files, path: &str| {
        let path = RequestPath::parse(path).unwrap();
        let outcome = files.respond_to(&request, path.below(0), None, Access::Blocking);
        let Ok(Outcome::Reply(Reply::Now(response))) = outcome else { panic!("the response is immediate") };
        response.status() == 200
    };
    assert!(is_found(&b, "/b.txt") && is_found(&c, "/c.txt"));
    assert_eq!(open_below(path), ["b", "c"]);
    assert_eq!(whole.get("/a.txt").status, 200);
    let name = path.file_name().unwrap().to_string_lossy().into_owned();
    let mut expected = vec!["c".to_owned(), name];
    expected.sort();
    assert_eq!(open_below(path), expected, "the least recently used one is closed");
    assert!(b.0.root.stat("b.txt", Access::Blocking).unwrap().is_some(), "and reopened by the next use");
    assert_eq!(open_below(path).len(), 2);
}

#[test]
fn a_deleted_file_is_closed_a_minute_after_its_last_use() {
    let folders = Folders::default();
    let site = site(&folders, on_disk());
    assert_eq!(site.get("/a.txt").text(), "text");
    let used_ms = monotonic_ms();
    let file = site.folder.path().join("a.txt");
    fs::remove_file(&file).unwrap();
    let is_open = || open_below(site.folder.path()).iter().any(|name| name == "a.txt (deleted)");
    assert!(is_open());
    assert!(
        folders.sweep(used_ms + IDLE_MS) && is_open(),
        "it may have been used until `revalidate_after` was over"
    );
    assert!(!folders.sweep(used_ms + IDLE_MS + CHECK_MS + 1) && !is_open());
    assert_eq!(site.get("/a.txt").status, 404);
}

#[test]
fn a_deleted_file_is_closed_without_a_request() {
    let folders = Folders::with_bounds(Duration::from_millis(20), 8);
    let site = site(&folders, FilesOptions { revalidate_after: Duration::ZERO, ..on_disk() });
    assert_eq!(site.get("/a.txt").text(), "text");
    let file = site.folder.path().join("a.txt");
    let events = inotify::init(inotify::CreateFlags::CLOEXEC).unwrap();
    // The kernel sends this event when the last descriptor of a deleted file is closed.
    inotify::add_watch(&events, &file, inotify::WatchFlags::DELETE_SELF).unwrap();
    fs::remove_file(&file).unwrap();
    let patience = Timespec { tv_sec: 30, tv_nsec: 0 };
    assert_eq!(poll(&mut [PollFd::new(&events, PollFlags::IN)], Some(&patience)).unwrap(), 1);
}

#[test]
fn an_error_of_a_shared_folder_is_logged_with_the_route_of_its_request() {
    let mut log_text = tempfile::tempfile().unwrap();
    let log = ErrorLog::to(log_text.try_clone().unwrap()).unwrap();
    let folders = Folders::default();
    let options = || FilesOptions { fallback: Some("missing.html".to_owned()), ..FilesOptions::default() };
    let first = Site::in_folders(&[], options(), &folders);
    let second = Files::open(first.folder.path(), options(), &folders).unwrap();
    for (files, site) in [(&first.files, "a.org"), (&second, "b.org")] {
        files.log_to(log.of_route(site, None));
    }
    let second = Site { folder: TempDir::new().unwrap(), files: second };
    assert_eq!(second.get("/nothing").status, 404);
    log.close();
    std::io::Seek::rewind(&mut log_text).unwrap();
    let log_text = std::io::read_to_string(log_text).unwrap();
    assert!(log_text.contains("missing.html [site=b.org]") && !log_text.contains("a.org"), "{log_text}");
}

#[test]
fn a_missing_root_is_logged_and_served_when_it_is_back() {
    let folders = Folders::default();
    let mut log_text = tempfile::tempfile().unwrap();
    let log = ErrorLog::to(log_text.try_clone().unwrap()).unwrap();
    let folder = TempDir::new().unwrap();
    write(&folder, "site/a.txt", "text", Duration::from_hours(1));
    let files = Files::open(folder.path().join("site"), always_revalidate(), &folders).unwrap();
    files.log_to(log.clone());
    let site = Site { folder, files };
    fs::rename(site.folder.path().join("site"), site.folder.path().join("away")).unwrap();
    assert_eq!(site.get("/a.txt").status, 500, "not 404: whether the file exists is unknown");
    fs::rename(site.folder.path().join("away"), site.folder.path().join("site")).unwrap();
    assert_eq!(site.get("/a.txt").text(), "text");
    log.close();
    std::io::Seek::rewind(&mut log_text).unwrap();
    let log_text = std::io::read_to_string(log_text).unwrap();
    assert!(log_text.contains("/site/: No such file or directory"), "{log_text}");
}

#[test]
fn the_same_folder_with_the_same_options_has_one_cache() {
    let folders = Folders::default();
    let site = site(&folders, FilesOptions::default());
    let path = site.folder.path();
    let open = |path: &Path, options, folders| Files::open(path, options, folders).unwrap();
    let again = open(&path.join("."), FilesOptions::default(), &folders);
    assert!(Arc::ptr_eq(&**site.files.0, &**again.0));
    let browsed = open(path, FilesOptions { browse: Browse::On, ..FilesOptions::default() }, &folders);
    assert!(!Arc::ptr_eq(&**site.files.0, &**browsed.0));
    assert!(Arc::ptr_eq(&site.files.0.root, &browsed.0.root), "the folder is the same");
    let followed = open(path, FilesOptions { follow_symlinks: true, ..FilesOptions::default() }, &folders);
    assert!(!Arc::ptr_eq(&site.files.0.root, &followed.0.root));
    let other_server = open(path, FilesOptions::default(), &Folders::default());
    assert!(!Arc::ptr_eq(&**site.files.0, &**other_server.0));
}

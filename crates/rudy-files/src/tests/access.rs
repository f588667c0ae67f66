//! Tests which requests a worker handles itself, and which the thread pool for blocking work.

use std::os::unix::fs::symlink;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use rustix::fs::{Advice, fadvise};

use super::*;

/// A folder on another file system than the temporary folder, which a worker does not access. Every Linux has it.
const OTHER_FILE_SYSTEM: &str = "/dev/shm";

fn get(site: &Site, path: &str, access: Access) -> Result<u16, WouldBlock> {
    let reply = site.call(&Request::default(), path, access)?;
    let Reply::Now(response) = reply else { panic!("the response is immediate") };
    Ok(response.status().as_u16())
}

/// Returns a site with a symbolic link `far` to a folder with these files on the other file system.
fn site_with_link(contents: &[(&str, &str)], options: FilesOptions) -> (Site, TempDir) {
    let far = TempDir::new_in(OTHER_FILE_SYSTEM).unwrap();
    for (path, content) in contents {
        write(&far, path, content, Duration::from_hours(1));
    }
    let site = Site::with_options(&[], FilesOptions { follow_symlinks: true, ..options });
    symlink(far.path(), site.folder.path().join("far")).unwrap();
    (site, far)
}

/// Returns whether the file system of the temporary folder supports cached reads. Network file systems and overlays do not.
fn reports_cached(site: &Site) -> bool {
    site.write("just written", "text");
    let file = fs::File::open(site.folder.path().join("just written")).unwrap();
    let reports_cached = Access::Cached.read(&file, &mut [0]).is_ok();
    if !reports_cached {
        eprintln!("skipped: {} does not support cached reads", site.folder.path().display());
    }
    reports_cached
}

#[test]
fn a_worker_serves_cached_files() {
    for options in [FilesOptions::default(), on_disk(), always_revalidate()] {
        let site = Site::with_options(&[("a.txt", "text"), ("d/index.html", "page")], options);
        if !reports_cached(&site) {
            return;
        }
        // The thread pool looks for precompressed siblings. Then the kernel has cached that they are missing.
        for path in ["/a.txt", "/d/"] {
            assert_eq!(get(&site, path, Access::Blocking), Ok(200), "{path}");
            site.files.0.entries.remove(path);
            assert_eq!(get(&site, path, Access::Cached), Ok(200), "{path}: looked up");
            assert_eq!(get(&site, path, Access::Cached), Ok(200), "{path}: cached");
        }
    }
}

#[test]
fn a_worker_serves_files_on_tmpfs() {
    let folder = TempDir::new_in(OTHER_FILE_SYSTEM).unwrap();
    write(&folder, "a.txt", "text", Duration::from_hours(1));
    let files = Files::open(folder.path(), always_revalidate(), &Folders::default()).unwrap();
    let site = Site { folder, files };
    for (path, status) in [("/a.txt", 200), ("/a.txt", 200), ("/never/requested.txt", 404)] {
        assert_eq!(get(&site, path, Access::Cached), Ok(status), "{path}");
    }
}

#[test]
fn the_thread_pool_looks_up_a_path_that_is_not_cached() {
    let site = Site::with(&[]);
    assert_eq!(get(&site, "/never/requested.txt", Access::Cached), Err(WouldBlock));
    assert_eq!(get(&site, "/never/requested.txt", Access::Blocking), Ok(404));
    if reports_cached(&site) {
        assert_eq!(get(&site, "/never/requested.txt", Access::Cached), Ok(404));
    }
}

#[test]
fn the_thread_pool_reads_a_file_that_is_not_cached() {
    let options = || FilesOptions { precompressed: false, ..FilesOptions::default() };
    let site = Site::with_options(&[("a.png", "picture")], options());
    let file = fs::File::open(site.folder.path().join("a.png")).unwrap();
    file.sync_all().unwrap();
    // The kernel does not evict a page in use, or one that another core has just added, so try several times.
    let evicts = |tries: usize, is_evicted: &dyn Fn() -> bool| {
        (0..tries).any(|_| {
            std::thread::yield_now();
            // A query for a missing page starts a read, and a page that is being read is not evicted.
            Access::Blocking.read(&file, &mut [0]).unwrap();
            fadvise(&file, 0, None, Advice::DontNeed).unwrap();
            is_evicted()
        })
    };
    if !evicts(20, &|| !rudy_service::file::is_cached(&file, 0, 1)) {
        eprintln!("skipped: {} does not evict pages", site.folder.path().display());
        return;
    }
    assert!(evicts(100_000, &|| {
        site.files.0.entries.remove("/a.png");
        get(&site, "/a.png", Access::Cached) == Err(WouldBlock)
    }));
    assert_eq!(get(&site, "/a.png", Access::Blocking), Ok(200));
    let reopened = Site::with_options(&[], options());
    fs::hard_link(site.folder.path().join("a.png"), reopened.folder.path().join("b.png")).unwrap();
    assert_eq!(get(&reopened, "/b.png", Access::Cached), Ok(200), "the thread pool has read it");
}

#[test]
fn the_thread_pool_serves_another_file_system_in_the_folder() {
    let options = FilesOptions {
        precompressed: false,
        index: vec!["far/index.html".into(), "index.html".into()],
        try_files: tried(&["{path}", "far/default.html"]),
        ..always_revalidate()
    };
    let contents = [("a.txt", "text"), ("index.html", "page"), ("default.html", "page")];
    let (site, _far) = site_with_link(&contents, options);
    for path in ["/far/a.txt", "/far/none.txt", "/", "/other"] {
        for _ in 0..2 {
            assert_eq!(get(&site, path, Access::Cached), Err(WouldBlock), "{path}");
            assert_eq!(get(&site, path, Access::Blocking), Ok(200), "{path}");
        }
    }
}

#[test]
fn the_thread_pool_handles_fallbacks_siblings_and_other_methods_too() {
    let options = FilesOptions { fallback: Some("far/app.html".into()), ..FilesOptions::default() };
    let (site, _far) = site_with_link(&[("app.html", "page"), ("a.txt.gz", "small")], options);
    symlink("far/a.txt.gz", site.folder.path().join("a.txt.gz")).unwrap();
    site.write("a.txt", "text");
    for (path, status) in [("/nothing", 200), ("/a.txt", 200)] {
        assert_eq!(get(&site, path, Access::Cached), Err(WouldBlock), "{path}");
        assert_eq!(get(&site, path, Access::Blocking), Ok(status), "{path}");
    }
    let mut post = Request::default();
    post.set_method(Method::POST);
    let other_routes = |_: &str| None;
    let path = RequestPath::parse("/far/x").unwrap();
    let call = |access| site.files.respond_to(&post, path.below(0), Some(&other_routes), access).map(drop);
    assert_eq!(call(Access::Cached), Err(WouldBlock));
    assert_eq!(call(Access::Blocking), Ok(()));
}

#[test]
fn the_thread_pool_serves_a_folder_on_a_file_system_that_is_not_local() {
    let files = Files::open("/proc", FilesOptions::default(), &Folders::default()).unwrap();
    let root = &files.0.root;
    for _ in 0..2 {
        assert_eq!(root.stat("self/status", Access::Cached), Err(WouldBlock));
        assert!(root.stat("self/status", Access::Blocking).unwrap().is_some());
    }
    assert_eq!(root.kind("version", 0, Access::Cached), Err(rustix::io::Errno::AGAIN));
    assert_eq!(root.kind("version", 0, Access::Blocking), Ok(Some(super::super::Kind::File)));
}

#[test]
fn concurrent_requests_use_the_stale_entry_while_the_thread_pool_revalidates_it() {
    let options = FilesOptions { revalidate_after: Duration::from_secs(2), ..FilesOptions::default() };
    let (site, far) = site_with_link(&[("a.txt", "old")], options);
    assert_eq!(get(&site, "/far/a.txt", Access::Blocking), Ok(200));
    let entry = site.files.0.entries.get("/far/a.txt").unwrap();
    entry.checked_ms.store(0, Ordering::Relaxed);
    write(&far, "a.txt", "changed", Duration::from_hours(2));
    assert_eq!(get(&site, "/far/a.txt", Access::Cached), Err(WouldBlock));
    let cached = || site.files.0.entries.get("/far/a.txt").unwrap();
    assert_eq!(get(&site, "/far/a.txt", Access::Cached), Ok(200));
    assert!(Arc::ptr_eq(&cached(), &entry));
    assert_eq!(get(&site, "/far/a.txt", Access::Blocking), Ok(200));
    assert_eq!(cached().stat.size, 7);
}

#[test]
fn both_threads_send_the_same_file() {
    let (site, _far) = site_with_link(&[("a.txt", "far")], FilesOptions::default());
    site.write("a.txt", "near");
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    for (path, text) in [("/a.txt", "near"), ("/far/a.txt", "far"), ("/far/a.txt", "far")] {
        let path = RequestPath::parse(path).unwrap();
        let response = runtime.block_on(site.files.send(Request::default(), path));
        let Body::Bytes(body) = response.body else { panic!("it is in memory") };
        assert_eq!(body, text);
    }
}

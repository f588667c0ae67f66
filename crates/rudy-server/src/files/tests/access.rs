//! What a worker answers by itself, and what is left to the pool for blocking work.

use std::os::unix::fs::symlink;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use rustix::fs::{Advice, fadvise};

use super::*;

/// A file system other than that of the temporary folder, so that a worker cannot tell what is in it. Every Linux has it.
const ELSEWHERE: &str = "/dev/shm";

fn get(site: &Site, path: &str, access: Access) -> Result<u16, WouldBlock> {
    let reply = site.call(&Request::new(RequestBody::empty()), path, access)?;
    let Reply::Now(response) = reply else { panic!("nothing is read or compressed later") };
    Ok(response.status().as_u16())
}

/// A site with a link `far` to a folder on the other file system, which has these files.
fn site_with_link(contents: &[(&str, &str)], options: FilesOptions) -> (Site, TempDir) {
    let far = TempDir::new_in(ELSEWHERE).unwrap();
    for (path, content) in contents {
        write(&far, path, content, Duration::from_hours(1));
    }
    let site = Site::with_options(&[], FilesOptions { follow_symlinks: true, ..options });
    symlink(far.path(), site.folder.path().join("far")).unwrap();
    (site, far)
}

/// Whether the file system of the temporary folder tells a worker what is in memory; a network's does not, nor an overlay's.
fn tells(site: &Site) -> bool {
    site.write("just written", "text");
    let file = fs::File::open(site.folder.path().join("just written")).unwrap();
    let tells = Access::Cached.read(&file, &mut [0]).is_ok();
    if !tells {
        eprintln!("skipped: {} does not tell what is in memory", site.folder.path().display());
    }
    tells
}

#[test]
fn what_is_in_memory_needs_no_pool() {
    for options in [FilesOptions::default(), on_disk(), uncached_time()] {
        let site = Site::with_options(&[("a.txt", "text"), ("d/index.html", "page")], options);
        if !tells(&site) {
            return;
        }
        // The pool looks for files that may lie beside these; from then on the kernel knows that they do not.
        for path in ["/a.txt", "/d/"] {
            assert_eq!(get(&site, path, Access::Blocking), Ok(200), "{path}");
            site.files.0.entries.remove(path);
            assert_eq!(get(&site, path, Access::Cached), Ok(200), "{path}: looked up");
            assert_eq!(get(&site, path, Access::Cached), Ok(200), "{path}: known");
        }
    }
}

#[test]
fn a_file_system_in_memory_needs_no_pool() {
    let folder = TempDir::new_in(ELSEWHERE).unwrap();
    write(&folder, "a.txt", "text", Duration::from_hours(1));
    let files = Files::open(folder.path(), uncached_time(), &Folders::default()).unwrap();
    let site = Site { folder, files };
    for (path, status) in [("/a.txt", 200), ("/a.txt", 200), ("/never/asked.txt", 404)] {
        assert_eq!(get(&site, path, Access::Cached), Ok(status), "{path}");
    }
}

#[test]
fn a_path_that_the_kernel_does_not_know_is_looked_up_by_the_pool() {
    let site = Site::with(&[]);
    assert_eq!(get(&site, "/never/asked.txt", Access::Cached), Err(WouldBlock));
    assert_eq!(get(&site, "/never/asked.txt", Access::Blocking), Ok(404));
    if tells(&site) {
        assert_eq!(get(&site, "/never/asked.txt", Access::Cached), Ok(404));
    }
}

#[test]
fn a_file_that_is_not_in_memory_is_read_by_the_pool() {
    let options = || FilesOptions { precompressed: false, ..FilesOptions::default() };
    let site = Site::with_options(&[("a.png", "picture")], options());
    let file = fs::File::open(site.folder.path().join("a.png")).unwrap();
    file.sync_all().unwrap();
    // The kernel may keep a page that something else is just looking at.
    let evicts = |is_seen: &dyn Fn() -> bool| {
        (0..20).any(|_| {
            // To ask for a page that is not there begins to read it, and one that is being read is not evicted.
            Access::Blocking.read(&file, &mut [0]).unwrap();
            fadvise(&file, 0, None, Advice::DontNeed).unwrap();
            is_seen()
        })
    };
    if !evicts(&|| !rudy_net::file::is_cached(&file, 0, 1)) {
        eprintln!("skipped: {} keeps its pages", site.folder.path().display());
        return;
    }
    assert!(evicts(&|| {
        site.files.0.entries.remove("/a.png");
        get(&site, "/a.png", Access::Cached) == Err(WouldBlock)
    }));
    assert_eq!(get(&site, "/a.png", Access::Blocking), Ok(200));
    let reopened = Site::with_options(&[], options());
    fs::hard_link(site.folder.path().join("a.png"), reopened.folder.path().join("b.png")).unwrap();
    assert_eq!(get(&reopened, "/b.png", Access::Cached), Ok(200), "the pool has read it");
}

#[test]
fn another_file_system_in_the_folder_is_left_to_the_pool() {
    let options = FilesOptions {
        precompressed: false,
        index: vec!["far/index.html".into(), "index.html".into()],
        try_files: vec!["{path}".into(), "far/default.html".into()],
        ..uncached_time()
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
fn pages_siblings_and_other_methods_are_left_to_the_pool_too() {
    let pages = vec![(StatusCode::NOT_FOUND, "far/404.html".into())];
    let options = FilesOptions { error_pages: pages, ..FilesOptions::default() };
    let (site, _far) = site_with_link(&[("404.html", "page"), ("a.txt.gz", "small")], options);
    symlink("far/a.txt.gz", site.folder.path().join("a.txt.gz")).unwrap();
    site.write("a.txt", "text");
    for (path, status) in [("/nothing", 404), ("/a.txt", 200)] {
        assert_eq!(get(&site, path, Access::Cached), Err(WouldBlock), "{path}");
        assert_eq!(get(&site, path, Access::Blocking), Ok(status), "{path}");
    }
    let mut post = Request::new(RequestBody::empty());
    *post.method_mut() = Method::POST;
    let elsewhere = |_: &str| None;
    let path = RequestPath::parse("/far/x").unwrap();
    let call = |access| site.files.respond_to(&post, path.below(0), Some(&elsewhere), access).map(drop);
    assert_eq!(call(Access::Cached), Err(WouldBlock));
    assert_eq!(call(Access::Blocking), Ok(()));
}

#[test]
fn a_folder_on_a_file_system_that_is_not_local_is_left_to_the_pool() {
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
fn while_the_pool_looks_whether_a_file_has_changed_others_get_it_as_it_was() {
    let options = FilesOptions { revalidate_after: Duration::from_secs(2), ..FilesOptions::default() };
    let (site, far) = site_with_link(&[("a.txt", "old")], options);
    assert_eq!(get(&site, "/far/a.txt", Access::Blocking), Ok(200));
    let entry = site.files.0.entries.get("/far/a.txt").unwrap();
    entry.checked_ms.store(0, Ordering::Relaxed);
    write(&far, "a.txt", "changed", Duration::from_hours(2));
    assert_eq!(get(&site, "/far/a.txt", Access::Cached), Err(WouldBlock));
    let kept = || site.files.0.entries.get("/far/a.txt").unwrap();
    assert_eq!(get(&site, "/far/a.txt", Access::Cached), Ok(200));
    assert!(Arc::ptr_eq(&kept(), &entry));
    assert_eq!(get(&site, "/far/a.txt", Access::Blocking), Ok(200));
    assert_eq!(kept().stat.size, 7);
}

#[test]
fn a_file_is_sent_whichever_thread_finds_it() {
    let (site, _far) = site_with_link(&[("a.txt", "far")], FilesOptions::default());
    site.write("a.txt", "near");
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    for (path, text) in [("/a.txt", "near"), ("/far/a.txt", "far"), ("/far/a.txt", "far")] {
        let path = RequestPath::parse(path).unwrap();
        let response = runtime.block_on(site.files.send(Request::new(RequestBody::empty()), path));
        let Body::Bytes(body) = response.body else { panic!("it is in memory") };
        assert_eq!(body, text);
    }
}

//! Compares [`walk`] with `openat2` on random trees, and both with what may be opened while a thread exchanges files and links.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use proptest::prelude::*;
use rustix::fs::{RenameFlags, fstat, renameat_with};
use rustix::process::geteuid;
use tempfile::TempDir;

use super::*;

const BENEATH: ResolveFlags = ResolveFlags::BENEATH.union(ResolveFlags::NO_MAGICLINKS);
const ANYWHERE: ResolveFlags = ResolveFlags::NO_MAGICLINKS;
const NO_SYMLINKS: ResolveFlags = ResolveFlags::NO_SYMLINKS;
const READ: OFlags = OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::CLOEXEC);
const STAT: OFlags = OFlags::PATH.union(OFlags::CLOEXEC);
/// What this crate opens files with.
const USES: [(OFlags, ResolveFlags); 9] = [
    (READ, BENEATH),
    (STAT, BENEATH),
    (READ, ANYWHERE),
    (STAT, ANYWHERE),
    (READ.union(OFlags::DIRECTORY), BENEATH),
    (STAT.union(OFlags::DIRECTORY), ANYWHERE),
    (STAT.union(OFlags::NOFOLLOW), NO_SYMLINKS),
    (READ.union(OFlags::NOFOLLOW).union(OFlags::DIRECTORY), NO_SYMLINKS),
    (OFlags::WRONLY.union(OFlags::APPEND).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC), NO_SYMLINKS),
];

/// A folder `root`, and files outside it.
struct Tree(TempDir);

#[derive(Debug, Clone)]
enum Node {
    File,
    Folder,
    Symlink(String),
}

impl Tree {
    fn new(nodes: &[(String, Node)]) -> Self {
        let tree = Self(tempfile::tempdir().unwrap());
        for folder in ["root", "a", "b"] {
            fs::create_dir(tree.path(folder)).unwrap();
        }
        for secret in ["c", "a/a", "a/b", "b/c"] {
            fs::write(tree.path(secret), "secret").unwrap();
        }
        for (path, node) in nodes {
            let path = tree.path("root").join(path);
            // A node that exists, or that has no folder, is left out.
            let _ = match node {
                Node::File => fs::File::create_new(path).map(drop),
                Node::Folder => fs::create_dir(path),
                Node::Symlink(target) => symlink(target.replace('@', tree.0.path().to_str().unwrap()), path),
            };
        }
        tree
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn root(&self) -> fs::File {
        fs::File::open(self.path("root")).unwrap()
    }

    /// Whether both ways open the same file below `root`, or fail with the same error.
    fn agree(&self, path: &str) {
        let root = self.root();
        let identity = |file: OwnedFd| fstat(file).map(|stat| (stat.st_dev, stat.st_ino));
        for (flags, resolve) in USES {
            // EAGAIN: a rename elsewhere on the machine.
            let expected =
                std::iter::repeat_with(|| rustix::fs::openat2(&root, path, flags, Mode::empty(), resolve))
                    .find(|opened| !matches!(opened, Err(Errno::AGAIN)))
                    .expect("the attempts do not end");
            let found = walk::open(root.as_fd(), Path::new(path), flags, Mode::empty(), resolve);
            assert_eq!(
                found.and_then(identity),
                expected.and_then(identity),
                "{path:?} {flags:?} {resolve:?}"
            );
        }
    }
}

fn names() -> impl Strategy<Value = String> {
    let name = prop_oneof![6 => Just("a"), 6 => Just("b"), 6 => Just("c"), 4 => Just(".."), 1 => Just("."), 1 => Just("")];
    prop::collection::vec(name, 1..6).prop_map(|names| names.join("/"))
}

fn path() -> impl Strategy<Value = String> {
    prop_oneof![8 => names(), 1 => names().prop_map(|path| format!("@/{path}")), 1 => Just("@/root/a".to_owned())]
}

fn node() -> impl Strategy<Value = (String, Node)> {
    let place = prop::collection::vec(prop_oneof![Just("a"), Just("b"), Just("c")], 1..4);
    let node = prop_oneof![
        1 => Just(Node::File),
        3 => Just(Node::Folder),
        3 => path().prop_map(|target| Node::Symlink(if target.is_empty() { ".".into() } else { target })),
    ];
    (place.prop_map(|names| names.join("/")), node)
}

fn nodes() -> impl Strategy<Value = Vec<(String, Node)>> {
    prop::collection::vec(node(), 0..16)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]
    #[test]
    fn both_ways_open_the_same_in_a_still_tree(nodes in nodes(), paths in prop::collection::vec(path(), 1..20)) {
        if !is_available() {
            return Ok(());
        }
        let tree = Tree::new(&nodes);
        for path in paths {
            tree.agree(&path.replace('@', tree.0.path().to_str().unwrap()));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn nothing_outside_is_opened_while_files_and_links_are_exchanged(
        nodes in nodes(),
        paths in prop::collection::vec(path(), 1..20),
        exchanges in prop::collection::vec((0_usize..16, 0_usize..20), 4..12),
    ) {
        let tree = Tree::new(&nodes);
        let secrets: Vec<_> = ["", "a", "b", "c", "a/a", "a/b", "b/c"]
            .map(|name| fstat(fs::File::open(tree.path(name)).unwrap()).unwrap().st_ino)
            .into();
        // By the descriptors of their folders: no link leads an exchange to the outside.
        let root = tree.root();
        let place = |path: &str| {
            let (folder, name) = path.rsplit_once('/').unwrap_or((".", path));
            let folder = walk::open(root.as_fd(), Path::new(folder), STAT, Mode::empty(), NO_SYMLINKS);
            Some((folder.ok()?, name.to_owned()))
        };
        let places: Vec<_> = nodes.iter().filter_map(|(path, _)| place(path)).collect();
        let top = fs::File::open(tree.0.path()).unwrap().into();
        let outside = ["a/c", "b/a", "d", "e"];
        let is_done = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                while !is_done.load(Ordering::Relaxed) {
                    for &(one, other) in &exchanges {
                        let Some(one) = places.get(one) else { continue };
                        // Also to the outside and back: then `..` leads elsewhere.
                        let (folder, name, how) = match places.get(other) {
                            Some((folder, name)) => (folder, &**name, RenameFlags::EXCHANGE),
                            None => (&top, outside[other % outside.len()], RenameFlags::NOREPLACE),
                        };
                        let moved = renameat_with(&one.0, &one.1, folder, name, how);
                        if moved.is_ok() && how == RenameFlags::NOREPLACE {
                            let _ = renameat_with(folder, name, &one.0, &one.1, how);
                        }
                    }
                }
            });
            let mut opened = vec![];
            for path in paths.iter().cycle().take(400) {
                let path = Path::new(path);
                opened.extend(walk::open(root.as_fd(), path, STAT, Mode::empty(), BENEATH));
                let nofollow = STAT | OFlags::NOFOLLOW;
                // No link, and no `..`: the file is below the root.
                if !path.to_str().is_some_and(|path| path.contains("..")) {
                    opened.extend(walk::open(root.as_fd(), path, nofollow, Mode::empty(), NO_SYMLINKS));
                }
            }
            is_done.store(true, Ordering::Relaxed);
            for file in opened {
                let found = fstat(file).unwrap().st_ino;
                assert!(!secrets.contains(&found), "inode {found} is outside");
            }
        });
    }
}

#[test]
fn both_ways_agree_on_the_corners() {
    if !is_available() {
        return;
    }
    let long = format!("{}/", "n".repeat(255)).repeat(17);
    let mut nodes: Vec<(String, Node)> = vec![
        ("folder".into(), Node::Folder),
        ("folder/file".into(), Node::File),
        ("file".into(), Node::File),
        ("0".into(), Node::Symlink("file".into())),
        ("to folder".into(), Node::Symlink("folder/".into())),
        ("to file/".into(), Node::Symlink("file/".into())),
        ("to root".into(), Node::Symlink("folder/..".into())),
        ("dangling".into(), Node::Symlink("nothing".into())),
        ("/".into(), Node::Symlink("/".into())),
        ("absolute".into(), Node::Symlink("@/root/file".into())),
        ("long".into(), Node::Symlink(long[..4000].into())),
    ];
    // Links of /proc: ordinary ones, and those to open files.
    for target in [
        "mounts",
        "self/status",
        "self/cwd/Cargo.toml",
        "self/exe",
        "self/root/etc",
        "self/fd/0",
        "self/ns/net",
    ] {
        nodes.push((target.replace('/', "-"), Node::Symlink(format!("/proc/{target}"))));
    }
    for number in 1..60 {
        nodes.push((number.to_string(), Node::Symlink((number - 1).to_string())));
    }
    let tree = Tree::new(&nodes);
    let name = "n".repeat(256);
    let paths = [
        "",
        ".",
        "./",
        "..",
        "../",
        "/",
        "//",
        "file/",
        "file/.",
        "file/..",
        "folder/../file",
        "folder/../../c",
        "to folder/",
        "to folder/file",
        "to folder/../file",
        "to file",
        "to root",
        "to root/file",
        "dangling",
        "dangling/",
        "absolute",
        "long",
        "38",
        "39",
        "40",
        "41",
        "59",
        "folder//file",
        "a\0b",
        &name,
        &long,
        &"folder/../".repeat(409),
        &"./".repeat(2100),
        "/etc/passwd",
        "/proc/self/fd/0",
        "/proc/thread-self/status",
    ];
    let links = nodes.iter().map(|(place, _)| place.as_str());
    paths.into_iter().chain(links).for_each(|path| tree.agree(path));
}

#[test]
fn a_file_is_created_only_where_no_link_leads() {
    let tree = Tree::new(&[
        ("folder".into(), Node::Folder),
        ("link".into(), Node::Symlink("folder".into())),
        ("new".into(), Node::Symlink("nothing".into())),
    ]);
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let create = |path: &str| {
        walk::open(CWD, &tree.path("root").join(path), flags, Mode::from_raw_mode(0o640), NO_SYMLINKS)
            .map(drop)
    };
    assert_eq!(create("folder/log"), Ok(()));
    assert_eq!(fs::metadata(tree.path("root/folder/log")).unwrap().permissions().mode() & 0o137, 0);
    for path in ["link/other", "new", "folder/../link/other"] {
        assert_eq!(create(path), Err(Errno::LOOP), "{path}");
    }
    assert!(!tree.path("root/folder/other").exists() && !tree.path("root/nothing").exists());
}

#[test]
fn a_link_of_another_user_in_a_shared_folder_is_not_followed() {
    // Only root can make such a link.
    if !geteuid().is_root() {
        return;
    }
    let tree = Tree::new(&[
        ("shared".into(), Node::Folder),
        ("file".into(), Node::File),
        ("shared/theirs".into(), Node::Symlink("../file".into())),
        ("shared/own".into(), Node::Symlink("../file".into())),
    ]);
    fs::set_permissions(tree.path("root/shared"), fs::Permissions::from_mode(0o1777)).unwrap();
    std::os::unix::fs::lchown(tree.path("root/shared/theirs"), Some(4_000_123), None).unwrap();
    let open =
        |path: &str| walk::open(tree.root().as_fd(), Path::new(path), STAT, Mode::empty(), BENEATH).map(drop);
    assert_eq!((open("shared/own"), open("shared/theirs")), (Ok(()), Err(Errno::ACCESS)));
    // The owner of the folder can replace what it contains anyway.
    chown(tree.path("root/shared"), Some(4_000_123), None).unwrap();
    assert_eq!(open("shared/theirs"), Ok(()));
}

#[test]
fn the_work_for_parents_in_links_is_limited() {
    let depth = 400;
    let tree = Tree::new(&[]);
    let deep = tree.path("root").join("d/".repeat(depth));
    fs::create_dir_all(&deep).unwrap();
    let down_and_up = "e/../".repeat(800);
    fs::create_dir(deep.join("e")).unwrap();
    symlink(&down_and_up, deep.join("l")).unwrap();
    let path = format!("{}{}", "d/".repeat(depth), "l/".repeat(2));
    let root = tree.root();
    let open = |path: &str| walk::open(root.as_fd(), Path::new(path), STAT, Mode::empty(), BENEATH).map(drop);
    assert_eq!(open(&"d/".repeat(depth)), Ok(()));
    assert_eq!(open(&path), Err(Errno::LOOP));
}

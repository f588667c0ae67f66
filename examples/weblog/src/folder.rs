//! The folder of posts, which is read again when a file in it changes.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use arc_swap::ArcSwap;
use notify::{RecommendedWatcher, RecursiveMode, Watcher};

use crate::blog::{Blog, Problem};
use crate::cache::Changes;
use crate::post::Post;
use crate::report;

/// Editors save a file in several steps. After the first change, all within this time are read together.
const SETTLES: Duration = Duration::from_millis(50);

/// The largest file that is read as a post.
const POST_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// A folder of posts.
#[derive(Debug)]
pub(crate) struct Folder {
    blog: Arc<ArcSwap<Blog>>,
    /// Ends when it is dropped.
    _watcher: RecommendedWatcher,
}

impl Folder {
    /// Reads the posts, and again after each change, which is added to `changes`.
    pub(crate) fn watch(path: PathBuf, changes: Arc<Changes>) -> Result<Self, String> {
        let error = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
        if !path.is_dir() {
            return Err(error(&"this folder does not exist; create it, with a Markdown file for each post"));
        }
        let (sender, events) = mpsc::sync_channel(1);
        let mut watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            if is_change(&event) {
                // If the channel is full, a change is waiting, and the read after it finds this one too.
                let _ = sender.try_send(());
            }
        })
        .map_err(|cause| error(&cause))?;
        // Before the first read, so that no change is missed.
        watcher.watch(&path, RecursiveMode::NonRecursive).map_err(|cause| error(&cause))?;
        let first = read(&path, &Blog::default()).map_err(|cause| error(&cause))?;
        report_problems(&first, &Blog::default());
        let blog = Arc::new(ArcSwap::from_pointee(first));
        let shared = blog.clone();
        thread::Builder::new()
            .name("posts".into())
            .spawn(move || follow(&path, &events, &shared, &changes))
            .map_err(|error| format!("no thread for the posts: {error}"))?;
        Ok(Self { blog, _watcher: watcher })
    }

    /// The posts as they are now.
    pub(crate) fn blog(&self) -> Arc<Blog> {
        self.blog.load_full()
    }
}

/// Whether a file has changed, or may have: reading a file is an event too.
fn is_change(event: &notify::Result<notify::Event>) -> bool {
    !event.as_ref().is_ok_and(|event| event.kind.is_access())
}

/// Reads the folder again after each change.
fn follow(path: &Path, events: &Receiver<()>, blog: &ArcSwap<Blog>, changes: &Changes) {
    while events.recv().is_ok() {
        thread::sleep(SETTLES);
        // The channel has space for one: there is nothing left from before the read.
        let _ = events.try_recv();
        let before = blog.load_full();
        match read(path, &before) {
            Ok(now) => {
                report_problems(&now, &before);
                blog.store(Arc::new(now));
                changes.add();
            }
            Err(error) => report(&format!("{}: {error}; the posts of before stay", path.display())),
        }
    }
}

/// Reads all posts. A file with an error leaves its post as it was `before`.
fn read(folder: &Path, before: &Blog) -> io::Result<Blog> {
    let names: io::Result<BTreeSet<_>> = fs::read_dir(folder)?.map(|entry| Ok(entry?.file_name())).collect();
    let (mut posts, mut problems) = (Vec::new(), Vec::new());
    for name in names? {
        let file = name.to_string_lossy().into_owned();
        let Some(slug) = slug(&file) else {
            problems.extend(ignored(folder, &file).map(|message| Problem { file, message }));
            continue;
        };
        match read_post(&folder.join(&name), slug, folder) {
            Ok(post) => posts.push(Arc::new(post)),
            Err(message) => {
                posts.extend(before.post(slug).cloned());
                problems.push(Problem { file, message });
            }
        }
    }
    Ok(Blog::new(posts, problems))
}

/// The name of the post in a file; `None` for other files.
fn slug(file: &str) -> Option<&str> {
    let slug = file.strip_suffix(".md")?;
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    (!slug.is_empty() && slug.bytes().all(is_plain)).then_some(slug)
}

/// Why a file is ignored, unless it is one of an editor.
fn ignored(folder: &Path, file: &str) -> Option<String> {
    let is_of_an_editor = file.starts_with('.') || file.ends_with('~') || file.starts_with('#');
    let message = "the file is ignored: a post is named with letters, digits, - and _, and ends in .md";
    (!is_of_an_editor && !folder.join(file).is_dir()).then(|| message.to_owned())
}

fn read_post(path: &Path, slug: &str, folder: &Path) -> Result<Post, String> {
    let size = fs::metadata(path).map_err(|error| error.to_string())?.len();
    if size > POST_BYTES_MAX {
        return Err(format!("the file has {size} bytes, and a post at most {POST_BYTES_MAX}"));
    }
    let text = fs::read_to_string(path).map_err(|error| error.to_string())?;
    Post::parse(slug, &text, folder)
}

/// Writes new problems to the log.
fn report_problems(now: &Blog, before: &Blog) {
    for problem in now.problems.iter().filter(|problem| !before.problems.contains(problem)) {
        report(&format!("{}: {}", problem.file, problem.message));
    }
}

#[cfg(test)]
mod tests {
    use notify::event::{AccessKind, AccessMode, CreateKind, ModifyKind, RemoveKind};
    use notify::{Event, EventKind};

    use super::*;

    const POST: &str = "+++\ntitle = \"One\"\ndate = 2026-11-25\n+++\nText.\n";

    #[test]
    fn a_program_that_reads_files_is_no_change() {
        let event = |kind| Ok(Event::new(kind));
        for access in
            [AccessKind::Any, AccessKind::Open(AccessMode::Read), AccessKind::Close(AccessMode::Read)]
        {
            assert!(!is_change(&event(EventKind::Access(access))), "{access:?}");
        }
        for change in [
            EventKind::Create(CreateKind::File),
            EventKind::Modify(ModifyKind::Any),
            EventKind::Remove(RemoveKind::File),
            EventKind::Other,
        ] {
            assert!(is_change(&event(change)), "{change:?}");
        }
        assert!(is_change(&Err(notify::Error::generic("the queue is full"))));
    }

    #[test]
    fn a_post_appears_while_changes_go_on() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("one.md"), POST).unwrap();
        let (sender, events) = mpsc::sync_channel(1);
        let blog = Arc::new(ArcSwap::from_pointee(Blog::default()));
        let shared = blog.clone();
        // Changes files until the post is there. Then the channel ends, and `follow` with it.
        let program = thread::spawn(move || {
            while shared.load().post("one").is_none() {
                sender.send(()).unwrap();
            }
        });
        follow(folder.path(), &events, &blog, &Changes::default());
        program.join().unwrap();
        assert_eq!(blog.load().post("one").unwrap().title, "One");
    }

    #[test]
    fn a_broken_file_leaves_its_post_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("one.md"), POST).unwrap();
        let first = read(folder.path(), &Blog::default()).unwrap();
        fs::write(folder.path().join("one.md"), "broken").unwrap();
        fs::write(folder.path().join("my notes.txt"), "").unwrap();
        fs::write(folder.path().join("one.md~"), "").unwrap();
        let second = read(folder.path(), &first).unwrap();
        assert_eq!(second.post("one").unwrap().title, "One");
        let files: Vec<_> = second.problems.iter().map(|problem| problem.file.as_str()).collect();
        assert_eq!(files, ["my notes.txt", "one.md"]);
        fs::remove_file(folder.path().join("one.md")).unwrap();
        assert!(read(folder.path(), &second).unwrap().post("one").is_none());
    }
}

//! The comments of readers, in a database of `SQLite`.
//!
//! A thread has the database, so that no task waits for the disk. Pages read a copy in memory, which the thread replaces after each change.

use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use arc_swap::ArcSwap;
use jiff::Timestamp;
use rusqlite::{Connection, params};
use serde::Serialize;
use tokio::sync::mpsc::{self, Receiver};
use tokio::sync::oneshot;

use crate::cache::Changes;

/// Comments that may wait for the author, so that they do not fill the disk. Further ones are rejected.
const WAITING_MAX: i64 = 100;

/// Changes that wait for the database. Further requests wait before they queue one.
const QUEUE: usize = 16;

/// How long a change waits for another program that has locked the database, such as a backup.
const LOCKED: Duration = Duration::from_secs(5);

/// A number is never used again: a decision on a page from before must not meet another comment.
const SCHEMA: &str = "
    PRAGMA journal_mode = WAL;
    CREATE TABLE IF NOT EXISTS comment (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        post TEXT NOT NULL,
        name TEXT NOT NULL,
        text TEXT NOT NULL,
        seconds INTEGER NOT NULL,
        is_approved INTEGER NOT NULL DEFAULT 0
    ) STRICT;";

/// A comment.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Comment {
    pub(crate) id: i64,
    /// The name of the post in the URL.
    pub(crate) post: String,
    /// The reader.
    pub(crate) name: String,
    pub(crate) text: String,
    /// `2026-11-25`.
    pub(crate) date: String,
    /// Whether readers see it.
    pub(crate) is_approved: bool,
}

/// A change of the comments.
#[derive(Debug)]
pub(crate) enum Change {
    Add { post: String, name: String, text: String },
    Approve(i64),
    Delete(i64),
}

/// A change, and where its result goes.
type Job = (Change, oneshot::Sender<rusqlite::Result<bool>>);

/// All comments, and the thread that changes them.
#[derive(Debug)]
pub(crate) struct Comments {
    all: Arc<ArcSwap<Vec<Comment>>>,
    jobs: mpsc::Sender<Job>,
    /// A random name for this process.
    pub(crate) session: String,
}

impl Comments {
    /// Opens the database, or creates it. Decisions are added to `changes`. The error is a message for the operator.
    pub(crate) fn open(path: &Path, changes: Arc<Changes>) -> Result<Self, String> {
        let error = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
        let (database, first, session) = prepare(path).map_err(|cause| error(&cause))?;
        let all = Arc::new(ArcSwap::from_pointee(first));
        let (jobs, received) = mpsc::channel(QUEUE);
        let shared = all.clone();
        thread::Builder::new()
            .name("comments".into())
            .spawn(move || work(&database, received, &shared, &changes))
            .map_err(|cause| error(&cause))?;
        Ok(Self { all, jobs, session })
    }

    /// The comments as they are now, the oldest first.
    pub(crate) fn all(&self) -> Arc<Vec<Comment>> {
        self.all.load_full()
    }

    /// Makes a change, which is on the disk and in [`Self::all`] afterwards. Returns false if there is no such comment, or if too many
    /// wait. The error is for the log.
    pub(crate) async fn change(&self, change: Change) -> Result<bool, String> {
        let (sender, result) = oneshot::channel();
        // Both fail if the thread has ended.
        let sent = self.jobs.send((change, sender)).await.is_ok();
        match result.await {
            Ok(result) if sent => result.map_err(|error| format!("comments: {error}")),
            _ => Err("the thread of the comments has ended".into()),
        }
    }
}

fn prepare(path: &Path) -> rusqlite::Result<(Connection, Vec<Comment>, String)> {
    let database = Connection::open(path)?;
    database.busy_timeout(LOCKED)?;
    database.execute_batch(SCHEMA)?;
    let first = read(&database)?;
    let session = database.query_row("SELECT hex(randomblob(16))", [], |row| row.get(0))?;
    Ok((database, first, session))
}

/// Makes the changes, one after the other.
fn work(database: &Connection, mut jobs: Receiver<Job>, all: &ArcSwap<Vec<Comment>>, changes: &Changes) {
    while let Some((change, result)) = jobs.blocking_recv() {
        let changed = apply(database, &change).and_then(|changed| {
            all.store(Arc::new(read(database)?));
            // Here, because a handler ends when its client leaves. New comments are on no page.
            if changed && !matches!(change, Change::Add { .. }) {
                changes.add();
            }
            Ok(changed)
        });
        // The client may have left.
        let _ = result.send(changed);
    }
}

fn apply(database: &Connection, change: &Change) -> rusqlite::Result<bool> {
    let rows = match change {
        Change::Add { post, name, text } => database.execute(
            "INSERT INTO comment (post, name, text, seconds) SELECT ?1, ?2, ?3, ?4
             WHERE (SELECT count(*) FROM comment WHERE NOT is_approved) < ?5",
            params![post, name, text, Timestamp::now().as_second(), WAITING_MAX],
        ),
        Change::Approve(id) => database.execute("UPDATE comment SET is_approved = 1 WHERE id = ?1", [id]),
        Change::Delete(id) => database.execute("DELETE FROM comment WHERE id = ?1", [id]),
    };
    Ok(rows? > 0)
}

fn read(database: &Connection) -> rusqlite::Result<Vec<Comment>> {
    let columns = "id, post, name, text, date(seconds, 'unixepoch'), is_approved";
    let mut rows = database.prepare(&format!("SELECT {columns} FROM comment ORDER BY id"))?;
    let comments = rows.query_map([], |row| {
        Ok(Comment {
            id: row.get(0)?,
            post: row.get(1)?,
            name: row.get(2)?,
            text: row.get(3)?,
            date: row.get(4)?,
            is_approved: row.get(5)?,
        })
    })?;
    comments.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(text: &str) -> Change {
        Change::Add { post: "p".into(), name: "Ann".into(), text: text.into() }
    }

    #[tokio::test]
    async fn comments_are_approved_and_deleted_and_stay_after_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("comments.db");
        let comments = Comments::open(&path, Arc::default()).unwrap();
        for text in ["one", "two"] {
            assert!(comments.change(add(text)).await.unwrap());
        }
        let first = comments.all();
        assert!(first.iter().all(|comment| !comment.is_approved && comment.date.len() == 10));
        assert!(comments.change(Change::Approve(first[0].id)).await.unwrap());
        assert!(comments.change(Change::Delete(first[1].id)).await.unwrap());
        assert!(comments.change(add("three")).await.unwrap());
        assert!(!comments.change(Change::Delete(first[1].id)).await.unwrap(), "a number is not used again");
        let session = comments.session.clone();
        drop(comments);
        let comments = Comments::open(&path, Arc::default()).unwrap();
        assert_ne!(comments.session, session);
        let all = comments.all();
        let all: Vec<_> = all.iter().map(|comment| (comment.text.as_str(), comment.is_approved)).collect();
        assert_eq!(all, [("one", true), ("three", false)]);
    }

    #[tokio::test]
    async fn only_so_many_comments_wait_for_the_author() {
        let folder = tempfile::tempdir().unwrap();
        let comments = Comments::open(&folder.path().join("comments.db"), Arc::default()).unwrap();
        for _ in 0..WAITING_MAX {
            assert!(comments.change(add("one")).await.unwrap());
        }
        assert!(!comments.change(add("too many")).await.unwrap());
        let id = comments.all()[0].id;
        assert!(comments.change(Change::Approve(id)).await.unwrap());
        assert!(comments.change(add("fits")).await.unwrap());
    }

    #[test]
    fn a_file_that_is_no_database_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("comments.db");
        std::fs::write(&path, "x".repeat(200)).unwrap();
        let error = Comments::open(&path, Arc::default()).unwrap_err();
        assert!(error.contains("comments.db: file is not a database"), "{error}");
    }
}

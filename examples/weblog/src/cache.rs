//! The cache of Rudy in front. It uses a page without asking the app, until the app purges it after a change.

use std::env;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, HeaderValue};
use rudy_fastcgi_app::purge;
use tokio::sync::watch;
use tokio::time::sleep;

use crate::report;

/// The tag of all pages: each has the sidebar.
const TAG: &str = "weblog";

/// Further attempts of a purge that has failed, with a pause before each: the server may be busy with others.
const RETRIES: usize = 3;
const PAUSE: Duration = Duration::from_secs(1);

/// Names the tag of a page, and lets Rudy use it for ten minutes. Only Rudy obeys, and only if this process can purge its cache.
pub(crate) fn mark(fields: &mut HeaderMap) {
    if has_socket() {
        fields.insert("cache-tag", HeaderValue::from_static(TAG));
        fields.insert("rudy-cache-control", HeaderValue::from_static("max-age=600"));
    }
}

fn has_socket() -> bool {
    env::var_os("RUDY_PURGE_SOCKET").is_some()
}

/// The changes of posts, comments and sidebar, after each of which the pages are purged.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    /// The number of changes.
    made: watch::Sender<u64>,
    /// The number of those after which there was a purge.
    purged: watch::Sender<u64>,
}

impl Changes {
    /// Adds a change, which new pages already have.
    pub(crate) fn add(&self) {
        self.made.send_modify(|made| *made += 1);
    }

    /// Waits until the first attempt of a purge after the changes so far.
    pub(crate) async fn purged(&self) {
        let made = *self.made.borrow();
        // It does not fail, because the sender exists.
        drop(self.purged.subscribe().wait_for(|purged| *purged >= made).await);
    }

    /// Purges after each change, and at first: what is stored may be of a process before this one.
    pub(crate) async fn follow(self: Arc<Self>) {
        let mut changes = self.made.subscribe();
        changes.mark_changed();
        while changes.changed().await.is_ok() {
            let made = *changes.borrow_and_update();
            for retries in (0..=RETRIES).rev() {
                let result = purge::tag(TAG).await;
                self.purged.send_replace(made);
                match result {
                    Err(error) if has_socket() && retries == 0 => {
                        report(&format!("purge: {error}; readers may get old pages for ten minutes"));
                    }
                    Err(_) if has_socket() => sleep(PAUSE).await,
                    _ => break,
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use crate::comments::{Change, Comments};

    use super::*;

    #[tokio::test]
    async fn a_decision_is_a_change_although_the_author_leaves() {
        let folder = tempfile::tempdir().unwrap();
        let changes = Arc::<Changes>::default();
        let comments = Comments::open(&folder.path().join("comments.db"), changes.clone()).unwrap();
        let add = Change::Add { post: "p".into(), name: "Ann".into(), text: "one".into() };
        assert!(comments.change(add).await.unwrap());
        let id = comments.all()[0].id;
        for (number, decision) in [(1, Change::Approve(id)), (2, Change::Delete(id))] {
            assert_eq!(*changes.made.borrow(), number - 1, "only decisions change a page");
            let handler = async {
                drop(comments.change(decision).await);
                pending::<()>().await;
            };
            // Polls the handler once, which sends the decision, and drops it.
            tokio::select! {
                biased;
                () = handler => {}
                () = ready(()) => {}
            }
            let mut made = changes.made.subscribe();
            assert_eq!(*made.wait_for(|made| *made >= number).await.unwrap(), number);
        }
    }
}

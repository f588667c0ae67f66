//! A pool whose members are processes that Rudy starts: they come and go, and are told when nothing is under way at them.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use super::{MemberId, Pool};
use crate::fastcgi::failure::Failure;
use crate::fastcgi::processes::{Members, Processes};
use crate::fastcgi::upstream::Upstream;

impl Members for Pool {
    fn up(&self, id: MemberId, socket: &Path) {
        let most = self.options.connections;
        self.lock().members.add(id, Upstream::Unix(socket.to_owned()), most, Instant::now());
        if let Some(pool) = self.itself.upgrade() {
            pool.serve();
        }
        self.grow_if_wanted();
    }

    fn retire(&self, id: MemberId) {
        self.lock().members.retire(id);
        self.tell_drained(id);
    }

    fn down(&self, id: MemberId, _why: &str) {
        self.lock().members.remove(id);
        self.grow_if_wanted();
    }

    fn unavailable(&self, _why: &str) {
        // Whoever waits is sent away, and asks why.
        let waiting = std::mem::take(&mut self.lock().waiting);
        drop(waiting);
    }

    fn requests(&self, id: MemberId) -> u64 {
        self.lock().members.requests(id)
    }

    fn idle_since(&self, id: MemberId) -> Option<Instant> {
        self.lock().members.idle_since(id)
    }
}

impl Pool {
    /// Why nobody can be asked, where that is known.
    pub(super) fn not_running(&self) -> Option<Failure> {
        self.processes().and_then(Processes::failure).map(Failure::NotRunning)
    }

    /// A request is over: its place is another's, and its process may have had enough.
    pub(super) fn has_ended(self: &Arc<Self>, member: MemberId) {
        if let Some(processes) = self.processes() {
            let is_worn_out = self.lock().members.is_worn_out(member);
            if is_worn_out {
                processes.replace(member);
            }
        }
        self.tell_drained(member);
        self.serve();
    }

    fn tell_drained(&self, member: MemberId) {
        let Some(processes) = self.processes() else { return };
        let is_drained = self.lock().members.is_drained(member);
        if is_drained {
            processes.drained(member);
        }
    }

    /// Asks for one more process where requests wait. That was asked before, and is forgotten while one is started.
    fn grow_if_wanted(&self) {
        let is_wanted = !self.lock().waiting.is_empty();
        if let Some(processes) = self.processes().filter(|_| is_wanted) {
            processes.grow();
        }
    }
}

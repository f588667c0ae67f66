//! The thread of a store, or its task in a simulation: it builds the index from the files, and applies purges to them.

use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rudy_cache::index::ObjectId;
use rudy_runtime::{blocking, clock};

use crate::disk::Access;
use crate::failure::DiskFailure;
use crate::inner::{Counters, Inner, Role};
use crate::layout::{OBJECTS, TEMPORARY, parse_name};
use crate::load::{Absent, Read, load};
use crate::purge::list::{self, State};
use crate::purge::{Effect, Entry, Purge, Target};
use crate::signal::Task;
use crate::sync::atomic::Ordering;

/// After an error of the disk, the thread waits before it tries again to apply purges, or to forget them.
const RETRY: Duration = Duration::from_secs(10);

/// How often a process that only reads tries to take the lock of the folder.
const LOCK_INTERVAL: Duration = Duration::from_secs(1);

/// Runs until [`Signal::stop`](crate::signal::Signal::stop).
pub(crate) fn run(inner: &Arc<Inner>) {
    let mut retry_at = None;
    while let ControlFlow::Continue(next) = step(inner, &inner.signal.next(deadline(inner, retry_at))) {
        retry_at = next;
    }
}

/// As [`run`], as a task of a simulated process.
pub(crate) async fn run_in_task(inner: Arc<Inner>) {
    let mut retry_at = None;
    loop {
        let (task, inner) = (inner.signal.next_in_task(deadline(&inner, retry_at)).await, inner.clone());
        match blocking(move || step(&inner, &task)).await {
            Ok(ControlFlow::Continue(next)) => retry_at = next,
            Ok(ControlFlow::Break(())) | Err(_) => return,
        }
    }
}

/// Does a task. Returns when to try again what has failed.
fn step(inner: &Arc<Inner>, task: &Task) -> ControlFlow<(), Option<Instant>> {
    match task {
        Task::Stop => return ControlFlow::Break(()),
        Task::Resize => resize(inner),
        Task::Scan => scan(inner),
        Task::Apply | Task::Sweep => {}
    }
    let (mut retry_at, is_requested) = (None, matches!(task, Task::Sweep));
    if inner.health.probe_at().is_some_and(|due| due <= clock::now()) {
        inner.probe();
    }
    if inner.become_writer() {
        // A file that cannot be removed does not keep purges waiting.
        let are_removed = remove_hidden(inner) && remove_met(inner);
        let is_done = apply(inner, is_requested) && forget(inner).is_ok() && are_removed;
        retry_at = (!is_done).then(|| clock::now() + RETRY);
    }
    if is_requested {
        inner.signal.end_of_sweep(inner.is_writer() && retry_at.is_none());
    }
    inner.signal.end_of_task();
    ControlFlow::Continue(retry_at)
}

/// Returns when there is something to do without a signal.
fn deadline(inner: &Inner, retry_at: Option<Instant>) -> Option<Instant> {
    let of_role = match *inner.role.read() {
        Role::Reader => clock::now().checked_add(LOCK_INTERVAL),
        Role::Writer { .. } => {
            let purges = inner.purges.read();
            let dates = [purges.forget_at(inner.options.purge_memory), purges.sweep_at(clock::now())];
            dates.into_iter().flatten().min().max(retry_at)
        }
        Role::Released => None,
    };
    of_role.into_iter().chain(inner.health.probe_at()).min()
}

/// Gives the index its new capacity, and removes what has no room in it.
fn resize(inner: &Inner) {
    let (capacity, writing) = (inner.limits.lock().0, inner.writing());
    inner.index.resize(capacity, |evicted| {
        if writing.is_some() {
            inner.evict(evicted);
        }
    });
}

/// Adds the objects in the folder to the index, and removes other files.
///
/// It reads names, and the sizes of what is not in the snapshot. The metadata is read and verified by the first hit: opening a million
/// files takes many times as long as listing them.
fn scan(inner: &Arc<Inner>) {
    clear_temporary(inner);
    if let Some(writing) = inner.writing() {
        inner.snapshot(writing.run).restore(&|evicted| inner.evict(evicted));
    }
    let result = walk(inner, &mut |path, id| {
        if inner.is_writer() && id.is_some_and(|id| inner.index.confirm(id)) {
            return ControlFlow::Continue(());
        }
        let Some(_writing) = inner.writing() else { return ControlFlow::Break(()) };
        let Some(id) = id else {
            Counters::add(&inner.counters.damaged);
            // A file that cannot be removed uses space, and nothing else.
            let _ = inner.disk.remove(path);
            return ControlFlow::Continue(());
        };
        let mut evicted = Vec::new();
        {
            let _changes = inner.lock(id);
            let size = inner.disk.stat(path);
            if let Some((bytes, _)) = size.filter(|_| !inner.index.contains(id)) {
                inner.index.insert(id, bytes, &mut evicted);
            }
        }
        inner.evict(evicted);
        ControlFlow::Continue(())
    });
    if result == ControlFlow::Continue(true) {
        inner.index.remove_unconfirmed();
    }
    if result.is_continue() {
        inner.signal.end_of_scan();
    }
}

/// Removes what transfers of other processes and folders with another seed have left.
fn clear_temporary(inner: &Inner) {
    let Some(writing) = inner.writing() else { return };
    let own = format!("{}-", writing.run);
    for (name, is_folder) in inner.disk.names(TEMPORARY).unwrap_or_default() {
        let path = format!("{TEMPORARY}/{name}");
        // A file that cannot be removed uses space, and nothing else.
        if is_folder {
            let _ = inner.disk.remove_folder(&path);
        } else if !name.starts_with(&own) && name != crate::layout::STATE {
            let _ = inner.disk.remove(&path);
        }
    }
}

/// Calls `each` with every file in the folders of objects, and with its id if it is at the place of an object. Returns whether all
/// folders could be read, or the break.
pub(crate) fn walk(
    inner: &Inner,
    each: &mut dyn FnMut(&str, Option<ObjectId>) -> ControlFlow<()>,
) -> ControlFlow<(), bool> {
    walk_folder(inner, OBJECTS, inner.layout.depth(), each)
}

fn walk_folder(
    inner: &Inner,
    folder: &str,
    depth: usize,
    each: &mut dyn FnMut(&str, Option<ObjectId>) -> ControlFlow<()>,
) -> ControlFlow<(), bool> {
    let names = match inner.disk.names(folder) {
        Ok(names) => names,
        Err(error) => {
            inner.failed(DiskFailure::Read, &error);
            return ControlFlow::Continue(false);
        }
    };
    let (mut is_complete, digits) = (true, inner.layout.digits(folder));
    for (name, is_folder) in names {
        if inner.signal.is_stopped() {
            return ControlFlow::Break(());
        }
        let path = format!("{folder}/{name}");
        if is_folder {
            // Folders of other levels have only files that are not at their places.
            is_complete &= walk_folder(inner, &path, depth.saturating_sub(1), each)?;
        } else {
            let is_here = digits.as_ref().is_some_and(|digits| name.starts_with(digits));
            let id = parse_name(&name).filter(|_| is_here);
            each(&path, id)?;
        }
    }
    ControlFlow::Continue(is_complete)
}

/// Removes the objects that were hidden while this process only read. Returns whether they are gone.
fn remove_hidden(inner: &Arc<Inner>) -> bool {
    let hidden = inner.purges.read().hidden.ids();
    let mut is_done = true;
    for id in hidden {
        if inner.apply_purges(id) {
            inner.change_purges(|purges| purges.hidden.remove(id));
        } else {
            is_done = false;
        }
    }
    is_done
}

/// Removes purged objects that lookups have found. Returns whether they are gone.
fn remove_met(inner: &Arc<Inner>) -> bool {
    let met = std::mem::take(&mut *inner.met.lock());
    met.into_iter().filter(|id| !inner.apply_purges(*id)).count() == 0
}

/// Applies the purges of keys, and all of them to all objects if that is requested or due. Returns whether they are applied.
fn apply(inner: &Arc<Inner>, is_requested: bool) -> bool {
    let (keys, sweep_at) = {
        let purges = inner.purges.read();
        (purges.pending_keys(), purges.sweep_at(clock::now()))
    };
    inner.apply_to_keys(&keys);
    let is_due = sweep_at.is_some_and(|due| due <= clock::now());
    if is_due || is_requested { sweep(inner) } else { inner.purges.read().pending() == 0 }
}

/// Applies all purges to all objects. Returns whether they are applied.
fn sweep(inner: &Arc<Inner>) -> bool {
    let next = inner.purges.read().next;
    // A transfer that ends now may have been compared with the purges before.
    inner.wait_for_changes();
    let mut is_applied = true;
    let walked = walk(inner, &mut |path, id| {
        is_applied &= match id.map(|id| load(&inner.disk, path, id, Read::Metadata, Access::Blocking)) {
            Some(Ok(object)) if inner.effect(&object) != Effect::None => inner.apply_purges(object.id),
            Some(Err(Absent::Failed(_) | Absent::WouldBlock)) => false,
            // It is not concerned, or cannot be used anyway.
            _ => true,
        };
        if inner.is_writer() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
    is_applied &= walked == ControlFlow::Continue(true);
    if is_applied {
        // Those whose files are lost were not found by their files.
        inner.memory.retain(|_, object| inner.effect(object) == Effect::None);
        inner.change_purges(|purges| purges.swept(next, clock::now()));
        inner.state.lock().is_swept = true;
    }
    is_applied
}

/// Forgets purges that were applied long enough ago, and writes the file of the state again when most of it is of no use any more.
fn forget(inner: &Inner) -> io::Result<()> {
    let count = inner.purges.read().forgettable(clock::now(), inner.options.purge_memory);
    if count > 0 {
        // Those whose files are lost were not found by their files.
        inner.memory.retain(|_, object| inner.effect(object) == Effect::None);
        inner.change_purges(|purges| purges.forget(count));
    }
    let Some(writing) = inner.writing() else { return Ok(()) };
    if !inner.state.lock().is_outdated() {
        return Ok(());
    }
    // The removals have to be on the disk before the purges leave it. Only this thread forgets.
    inner.disk.sync_all()?;
    let mut state = inner.state.lock();
    let bytes = State::encode(&inner.ids.0, writing.run, &inner.purges.read());
    *state = list::write(&inner.disk, &bytes)?;
    Ok(())
}

impl Inner {
    /// Applies purges to an object. Returns whether they are applied.
    pub(crate) fn apply_purges(self: &Arc<Self>, id: ObjectId) -> bool {
        let Some(writing) = self.writing() else { return false };
        let mut changes = self.lock(id);
        *changes += 1;
        let current = match load(&self.disk, &self.layout.path(id), id, Read::Body, Access::Blocking) {
            Ok(current) if current.record.stored.is_some() => current,
            result => return !matches!(result, Err(Absent::Failed(_) | Absent::WouldBlock)),
        };
        let is_applied = match self.effect(&current) {
            Effect::None => return true,
            Effect::Gone => self.delete(&writing, &current),
            Effect::Stale => {
                let stale = current.invalidated().record;
                if stale == current.record {
                    return true;
                }
                self.rewrite(&current, stale).is_ok() || self.delete(&writing, &current)
            }
        };
        self.counters.purged.fetch_add(is_applied.into(), Ordering::Relaxed);
        is_applied
    }

    /// Applies purges of keys. The background thread does for those that fail.
    pub(crate) fn apply_to_keys(self: &Arc<Self>, purges: &[Purge]) {
        let next = self.purges.read().next;
        for purge in purges {
            let Target::Key(key) = &purge.target else { continue };
            // A transfer that ends now may have been compared with the purges before.
            drop(self.lock(self.ids.base(key)));
            // All of them, also after a failure.
            let applied = |ids: Vec<_>| ids.into_iter().filter(|id| !self.apply_purges(*id)).count() == 0;
            if self.ids_of(key).is_ok_and(applied) {
                let is_applied = |entry: &Entry| entry.number < next && entry.purge == *purge;
                self.change_purges(|known| known.applied(is_applied, clock::now()));
            }
        }
    }
}

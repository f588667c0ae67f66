//! Checks all files of a store.

use std::io;
use std::ops::ControlFlow;
use std::path::PathBuf;

use rudy_cache::index::ObjectId;
use rudy_cache::{Key, Variant};

use crate::background::walk;
use crate::disk::{Access, Disk};
use crate::inner::Inner;
use crate::layout::{OBJECTS, STATE, TEMPORARY};
use crate::load::{Absent, Damage, Read, load};
use crate::object::Object;
use crate::open::{self, OpenError};
use crate::options::Options;
use crate::purge::list::State;

/// A file that is not a valid object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dropped {
    /// The file.
    pub path: PathBuf,
    /// What is wrong.
    pub reason: Damage,
    /// Whether it was removed.
    pub removed: bool,
}

/// The result of a check.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Verified {
    /// Valid objects.
    pub objects: u64,
    /// The bytes of their bodies.
    pub bytes: u64,
    /// Files that are not valid objects.
    pub dropped: u64,
}

/// Checks every file: its place, its metadata, and the checksum of its body. Calls `report` for each that is not valid, after its
/// removal. While another process has the lock, nothing is removed.
pub fn verify(options: &Options, mut report: impl FnMut(&Dropped)) -> Result<Verified, OpenError> {
    let exists = |name: &str| options.folder.join(name).exists();
    if !exists(STATE) && !exists(OBJECTS) {
        return Err(OpenError::NotAStore(options.folder.clone()));
    }
    let has_state = Disk::open(&options.folder, None).is_ok_and(|disk| State::read(&disk).is_some());
    let inner = open::open(options.clone())?;
    if let Some(writing) = inner.writing() {
        // For the next process, which would not accept it after this run. It removes those that have no file.
        inner.snapshot(writing.run).restore(&|_| {});
    }
    let mut verified = Verified::default();
    let mut drop_file =
        |verified: &mut Verified, path: &str, reason, removed: &dyn Fn() -> io::Result<()>| {
            let is_own = inner.is_writer() && reason != Damage::Unreadable;
            let removed = is_own && removed().is_ok();
            verified.dropped += 1;
            report(&Dropped { path: inner.disk.path().join(path), reason, removed });
        };
    if !has_state {
        // It has been replaced, so the objects are unknown.
        drop_file(&mut verified, STATE, Damage::Head, &|| Ok(()));
    }
    let temporary = inner.disk.names(TEMPORARY).unwrap_or_default().into_iter();
    for (name, is_folder) in temporary.filter(|_| inner.is_writer()) {
        let path = format!("{TEMPORARY}/{name}");
        if is_folder {
            drop_file(&mut verified, &path, Damage::Foreign, &|| inner.disk.remove_folder(&path));
        } else {
            drop_file(&mut verified, &path, Damage::Unfinished, &|| inner.disk.remove(&path));
        }
    }
    let _ = walk(&inner, &mut |path, id| {
        match check(&inner, path, id) {
            Ok(Some(object)) => {
                verified.objects += 1;
                verified.bytes += object.slot.body_bytes;
            }
            Ok(None) => {}
            Err(reason) => drop_file(&mut verified, path, reason, &|| inner.disk.remove(path)),
        }
        ControlFlow::Continue(())
    });
    inner.release();
    Ok(verified)
}

/// Checks a file. `None` if it was removed meanwhile, or has no response.
fn check(inner: &Inner, path: &str, id: Option<ObjectId>) -> Result<Option<Object>, Damage> {
    let id = id.ok_or(Damage::Foreign)?;
    match load(&inner.disk, path, id, Read::Verified, Access::Blocking) {
        Ok(object) if expected_id(inner, &object) != Some(id) => Err(Damage::Foreign),
        Ok(object) => Ok(Some(object).filter(|object| object.record.stored.is_some())),
        Err(Absent::Damaged(damage)) => Err(damage),
        Err(Absent::Failed(_)) => Err(Damage::Unreadable),
        Err(Absent::Missing | Absent::WouldBlock) => Ok(None),
    }
}

/// Returns the id by the key and the variant in the metadata.
fn expected_id(inner: &Inner, object: &Object) -> Option<ObjectId> {
    let key = Key::from_bytes(object.key())?;
    let none = Variant::default();
    let variant = object.record.stored.as_ref().map_or(&none, |stored| stored.variant());
    Some(inner.ids.variant(&key, variant))
}

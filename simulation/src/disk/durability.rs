//! What is on a disk, and what of it a power failure may leave.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rudy_store::Change;

/// What a disk writes as a whole.
const SECTOR: usize = 512;

/// The number of a file, which no other file has later.
type Number = u64;

/// The contents of a folder.
#[derive(Debug)]
pub(super) struct Contents {
    folder: PathBuf,
    files: BTreeMap<Number, Content>,
    names: BTreeMap<String, Name>,
    /// The files by their inodes, which the kernel uses again.
    by_inode: BTreeMap<u64, Number>,
    /// Files whose inodes are not known yet.
    created: Vec<(String, Number)>,
    next: Number,
}

/// What a name is: the synced value, and all that it has been since.
#[derive(Debug, Default)]
struct Name {
    synced: Option<Number>,
    since: Vec<Option<Number>>,
}

impl Name {
    fn current(&self) -> Option<Number> {
        self.since.last().copied().unwrap_or(self.synced)
    }
}

/// The bytes of a file: the synced ones, and the writes since.
#[derive(Debug, Default)]
struct Content {
    synced: Vec<u8>,
    since: Vec<(usize, Vec<u8>)>,
}

impl Content {
    fn len(&self) -> usize {
        let ends = self.since.iter().map(|(offset, data)| offset + data.len());
        ends.fold(self.synced.len(), usize::max)
    }

    fn sync(&mut self) {
        for (offset, data) in self.since.drain(..) {
            write(&mut self.synced, offset, &data);
        }
    }

    /// Loses any of the sectors that were written since the last sync.
    fn lose(&mut self, random: &mut fastrand::Rng) {
        let most = self.len();
        let keeps = random.u32(..=4);
        for (offset, data) in std::mem::take(&mut self.since) {
            let mut at = 0;
            while at < data.len() {
                let end = (SECTOR - (offset + at) % SECTOR + at).min(data.len());
                if random.u32(..4) < keeps {
                    write(&mut self.synced, offset + at, &data[at..end]);
                }
                at = end;
            }
        }
        let length = if random.bool() { most } else { random.usize(self.synced.len()..=most) };
        self.synced.resize(length, 0);
    }
}

fn write(bytes: &mut Vec<u8>, offset: usize, data: &[u8]) {
    if bytes.len() < offset + data.len() {
        bytes.resize(offset + data.len(), 0);
    }
    bytes[offset..offset + data.len()].copy_from_slice(data);
}

impl Contents {
    /// An empty folder, which may not exist yet.
    pub(super) fn new(folder: PathBuf) -> Self {
        Self {
            folder,
            files: BTreeMap::new(),
            names: BTreeMap::new(),
            by_inode: BTreeMap::new(),
            created: Vec::new(),
            next: 1,
        }
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Learns the inodes of the files that the last changes have created.
    pub(super) fn find_created(&mut self) {
        for (name, number) in std::mem::take(&mut self.created) {
            if let Ok(metadata) = fs::metadata(self.folder.join(name)) {
                self.by_inode.insert(metadata.ino(), number);
            }
        }
    }

    /// Returns how many bytes a write to a file can add.
    pub(super) fn room(&self, file: &File, length: usize, offset: u64, capacity: u64) -> usize {
        let named = self.names.values().filter_map(Name::current);
        let used: usize = named.filter_map(|number| self.files.get(&number)).map(Content::len).sum();
        let own = self.number(file).and_then(|number| self.files.get(&number)).map_or(0, Content::len);
        let offset = usize::try_from(offset).unwrap_or(usize::MAX);
        let free = usize::try_from(capacity).unwrap_or(usize::MAX).saturating_sub(used);
        // What replaces bytes of the file needs none.
        length.min(own.saturating_sub(offset).saturating_add(free))
    }

    fn number(&self, file: &File) -> Option<Number> {
        self.by_inode.get(&file.metadata().ok()?.ino()).copied()
    }

    /// Notes a change that is about to be made. One that fails only has what was `written` before.
    pub(super) fn note(&mut self, change: Change<'_>, failed_after: Option<usize>) {
        match change {
            Change::Write { file, data, offset } => {
                let data = &data[..failed_after.unwrap_or(data.len())];
                let offset = usize::try_from(offset).expect("files are small");
                if let Some(content) = self.number(file).and_then(|number| self.files.get_mut(&number)) {
                    content.since.push((offset, data.to_vec()));
                }
            }
            _ if failed_after.is_some() => {}
            Change::Create(name) => {
                let number = self.next;
                self.next += 1;
                self.files.insert(number, Content::default());
                self.created.push((name.to_owned(), number));
                self.set(name, Some(number));
            }
            Change::CreateFolder(_) => {}
            Change::Rename { from, to } => self.rename(from, to),
            Change::Remove(name) => self.set(name, None),
            Change::RemoveFolder(folder) => {
                for (name, _) in self.below(folder) {
                    self.set(&name, None);
                }
            }
            Change::Sync(file) => {
                if let Some(content) = self.number(file).and_then(|number| self.files.get_mut(&number)) {
                    content.sync();
                }
            }
            Change::SyncNames => self.sync_names(|name| !name.contains('/')),
            Change::SyncAll => {
                self.files.values_mut().for_each(Content::sync);
                self.sync_names(|_| true);
            }
        }
    }

    fn set(&mut self, name: &str, number: Option<Number>) {
        let name = self.names.entry(name.to_owned()).or_default();
        if name.current() != number {
            name.since.push(number);
        }
    }

    /// Returns the files below a folder.
    fn below(&self, folder: &str) -> Vec<(String, Number)> {
        let is_below = |name: &str| name.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'));
        let files = self.names.iter().filter_map(|(name, value)| Some((name.clone(), value.current()?)));
        files.filter(|(name, _)| is_below(name)).collect()
    }

    fn rename(&mut self, from: &str, to: &str) {
        let parent = to.rsplit_once('/').map_or("", |(parent, _)| parent);
        if !self.folder.join(parent).is_dir() {
            return;
        }
        match self.names.get(from).and_then(Name::current) {
            Some(number) => {
                self.set(to, Some(number));
                self.set(from, None);
            }
            None => {
                for (name, number) in self.below(from) {
                    self.set(&format!("{to}{}", &name[from.len()..]), Some(number));
                    self.set(&name, None);
                }
            }
        }
    }

    fn sync_names(&mut self, concerns: impl Fn(&str) -> bool) {
        for (_, name) in self.names.iter_mut().filter(|(name, _)| concerns(name)) {
            name.synced = name.current();
            name.since.clear();
        }
        self.names.retain(|_, name| name.synced.is_some() || !name.since.is_empty());
        self.forget_unnamed();
    }

    /// Forgets files that no name can be again. They may still be open, so their inodes are not used again.
    fn forget_unnamed(&mut self) {
        let names = self.names.values();
        let named: BTreeSet<_> =
            names.flat_map(|name| name.since.iter().copied().chain([name.synced])).collect();
        self.files.retain(|number, _| named.contains(&Some(*number)));
    }

    /// Loses any part of what was not synced: the machine stops and starts again.
    pub(super) fn lose(&mut self, random: &mut fastrand::Rng) -> io::Result<()> {
        for name in self.names.values_mut() {
            let values: Vec<_> = name.since.drain(..).chain([name.synced]).collect();
            name.synced = values[random.usize(..values.len())];
        }
        self.names.retain(|_, name| name.synced.is_some());
        self.files.values_mut().for_each(|content| content.lose(random));
        self.forget_unnamed();
        self.write_all()
    }

    /// Replaces the real files by what is left.
    fn write_all(&mut self) -> io::Result<()> {
        super::empty(&self.folder)?;
        self.by_inode.clear();
        self.created.clear();
        for (name, value) in &self.names {
            let Some((number, content)) = value.synced.and_then(|number| self.files.get_key_value(&number))
            else {
                continue;
            };
            let path = self.folder.join(name);
            fs::create_dir_all(path.parent().unwrap_or(&self.folder))?;
            fs::write(&path, &content.synced)?;
            self.by_inode.insert(fs::metadata(&path)?.ino(), *number);
        }
        Ok(())
    }
}

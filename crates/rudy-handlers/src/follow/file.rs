//! A followed file: stays open, and is read from where the last read ended.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Instant;

use rudy_log::Lines;
use rustix::fs::OFlags;

use super::decide::{Identity, Progress, Step, decide};
use super::last::start_of_last_lines;
use super::pattern::{identity, unsupported};
use super::{Event, Line, OnEvent};

/// The number of bytes that one system call reads.
const BLOCK_BYTES: usize = 64 * 1024;
/// The number of bytes that are read from one file before the other files get their turn.
const TURN_BYTES: u64 = 1024 * 1024;

#[derive(Debug)]
pub(super) struct FollowedFile {
    file: File,
    identity: Identity,
    name: PathBuf,
    read_to: u64,
    lines: Lines,
    is_listed: bool,
    /// When it last changed; `None` before the first read.
    changed_at: Option<Instant>,
    /// Why the last read failed.
    error: Option<String>,
}

/// The state of a file after it was read.
pub(super) struct ReadStatus {
    /// There is more to read than [`TURN_BYTES`].
    pub(super) has_more: bool,
    /// The file can be dropped.
    pub(super) is_done: bool,
}

impl FollowedFile {
    /// Opens a file to read its last `last` lines and what follows, or all of it. The error is a reason for
    /// the log.
    pub(super) fn open(name: &Path, last: Option<u64>) -> Result<Self, String> {
        // If a FIFO has taken the name since the listing, the open must not wait for its writer.
        let flags = OFlags::NONBLOCK.bits().cast_signed();
        let file = File::options().read(true).custom_flags(flags).open(name).map_err(|e| e.to_string())?;
        let metadata = file.metadata().map_err(|error| error.to_string())?;
        if let Some(why) = unsupported(&metadata) {
            return Err(why.to_owned());
        }
        let read_to = match last {
            Some(count) => start_of_last_lines(&file, metadata.len(), count).map_err(|e| e.to_string())?,
            None => 0,
        };
        Ok(Self {
            file,
            identity: identity(&metadata),
            name: name.to_owned(),
            read_to,
            lines: Lines::default(),
            is_listed: true,
            changed_at: None,
            error: None,
        })
    }

    pub(super) fn identity(&self) -> Identity {
        self.identity
    }

    pub(super) fn name(&self) -> &Path {
        &self.name
    }

    pub(super) fn set_name(&mut self, name: &Path, on_event: &mut OnEvent<'_>) {
        self.is_listed = true;
        if self.name != name {
            name.clone_into(&mut self.name);
            on_event(Event::Name(name));
        }
    }

    pub(super) fn mark_unlisted(&mut self) {
        if self.is_listed {
            self.is_listed = false;
            self.changed_at = None;
        }
    }

    /// Passes the new lines to `on_event`.
    pub(super) fn read(&mut self, now: Instant, on_event: &mut OnEvent<'_>) -> ReadStatus {
        match self.try_read(now, on_event) {
            Ok(status) => {
                self.error = None;
                status
            }
            Err(error) => {
                let why = error.to_string();
                if self.error.as_ref() != Some(&why) {
                    on_event(Event::Error(&format!("cannot read {}: {why}", self.name.display())));
                    self.error = Some(why);
                }
                ReadStatus { has_more: false, is_done: !self.is_listed }
            }
        }
    }

    /// Passes an unfinished last line to `on_event`.
    pub(super) fn finish(&mut self, on_event: &mut OnEvent<'_>) {
        let Self { lines, name, .. } = self;
        lines.finish(&mut |text, is_cut| on_event(Event::Line(Line { file: name, text, is_cut })));
    }

    fn try_read(&mut self, now: Instant, on_event: &mut OnEvent<'_>) -> io::Result<ReadStatus> {
        let size = self.file.metadata()?.len();
        let changed_at = *self.changed_at.get_or_insert(now);
        let progress = Progress { read_to: self.read_to, is_listed: self.is_listed, changed_at };
        let mut has_more = false;
        match decide(&progress, size, now) {
            Step::Wait => return Ok(ReadStatus { has_more: false, is_done: false }),
            Step::Close => {
                self.finish(on_event);
                return Ok(ReadStatus { has_more: false, is_done: true });
            }
            Step::Restart => {
                let old_size = self.read_to;
                on_event(Event::Notice(&format!(
                    "{} was truncated from {old_size} to {size} bytes: reading it from the start",
                    self.name.display()
                )));
                // The unfinished line that was read is part of the log too.
                self.finish(on_event);
                self.read_to = 0;
                has_more = self.read_range(size, on_event)?;
            }
            Step::Read => has_more |= self.read_range(size, on_event)?,
        }
        self.changed_at = Some(now);
        Ok(ReadStatus { has_more, is_done: false })
    }

    /// Reads up to `end`, or as much as one turn allows. Returns whether there is more.
    fn read_range(&mut self, end: u64, on_event: &mut OnEvent<'_>) -> io::Result<bool> {
        // A file without a name is read to its end at once, because it comes before the file that took its
        // name.
        let stop = if self.is_listed { end.min(self.read_to + TURN_BYTES) } else { end };
        let mut block = vec![0; BLOCK_BYTES];
        let Self { file, name, lines, read_to, .. } = self;
        let mut on_line = |text: &[u8], is_cut| on_event(Event::Line(Line { file: name, text, is_cut }));
        while *read_to < stop {
            let wanted = usize::try_from(stop - *read_to).unwrap_or(BLOCK_BYTES).min(BLOCK_BYTES);
            match file.read_at(&mut block[..wanted], *read_to) {
                // The file was truncated just now; the next read handles that.
                Ok(0) => return Ok(false),
                Ok(read) => {
                    lines.push(&block[..read], &mut on_line);
                    *read_to += read as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(stop < end)
    }
}

//! One file that is followed: held open, read from where the last look ended.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Instant;

use rustix::fs::OFlags;

use super::decide::{Identity, Progress, Step, decide};
use super::last::start_of_last_lines;
use super::lines::Lines;
use super::pattern::{identity, unfit};
use super::{Event, Line, OnEvent};

/// Read at once.
const BLOCK_BYTES: usize = 64 * 1024;
/// Read of one file before the others have their turn.
const TURN_BYTES: u64 = 1024 * 1024;

#[derive(Debug)]
pub(super) struct Followed {
    file: File,
    identity: Identity,
    name: PathBuf,
    read_to: u64,
    lines: Lines,
    is_listed: bool,
    /// When it was last found changed; not known before the first look.
    changed_at: Option<Instant>,
    /// Why it could not be read when that was last tried.
    trouble: Option<String>,
}

/// What a look at a file showed.
pub(super) struct Look {
    /// There is more to read than its turn allowed.
    pub(super) has_more: bool,
    /// Nothing will come of it any more.
    pub(super) is_over: bool,
}

impl Followed {
    /// Opens a file, to be read from its last `last` lines on, or from its start. The error says why it cannot be.
    pub(super) fn open(name: &Path, last: Option<u64>) -> Result<Self, String> {
        // Not to wait for a writer, should a pipe have taken the name since it was listed.
        let flags = OFlags::NONBLOCK.bits().cast_signed();
        let file = File::options().read(true).custom_flags(flags).open(name).map_err(|e| e.to_string())?;
        let metadata = file.metadata().map_err(|error| error.to_string())?;
        if let Some(why) = unfit(&metadata) {
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
            trouble: None,
        })
    }

    pub(super) fn identity(&self) -> Identity {
        self.identity
    }

    pub(super) fn name(&self) -> &Path {
        &self.name
    }

    pub(super) fn is_called(&mut self, name: &Path, on_event: &mut OnEvent<'_>) {
        self.is_listed = true;
        if self.name != name {
            name.clone_into(&mut self.name);
            on_event(Event::Name(name));
        }
    }

    pub(super) fn has_lost_its_name(&mut self) {
        if self.is_listed {
            self.is_listed = false;
            self.changed_at = None;
        }
    }

    /// Hands out what is new of it.
    pub(super) fn read(&mut self, now: Instant, on_event: &mut OnEvent<'_>) -> Look {
        match self.try_read(now, on_event) {
            Ok(look) => {
                self.trouble = None;
                look
            }
            Err(error) => {
                let why = error.to_string();
                if self.trouble.as_ref() != Some(&why) {
                    on_event(Event::Trouble(&format!("{} cannot be read: {why}", self.name.display())));
                    self.trouble = Some(why);
                }
                Look { has_more: false, is_over: !self.is_listed }
            }
        }
    }

    /// Hands out a last line that has no newline.
    pub(super) fn finish(&mut self, on_event: &mut OnEvent<'_>) {
        let Self { lines, name, .. } = self;
        lines.finish(&mut |text, is_cut| on_event(Event::Line(Line { file: name, text, is_cut })));
    }

    fn try_read(&mut self, now: Instant, on_event: &mut OnEvent<'_>) -> io::Result<Look> {
        let size = self.file.metadata()?.len();
        let changed_at = *self.changed_at.get_or_insert(now);
        let progress = Progress { read_to: self.read_to, is_listed: self.is_listed, changed_at };
        let mut has_more = false;
        match decide(&progress, size, now) {
            Step::Wait => return Ok(Look { has_more: false, is_over: false }),
            Step::Close => {
                self.finish(on_event);
                return Ok(Look { has_more: false, is_over: true });
            }
            Step::Restart => {
                let was = self.read_to;
                on_event(Event::Notice(&format!(
                    "{} was emptied ({was} bytes were read of it, {size} are there): it is read again from its start",
                    self.name.display()
                )));
                // What was read of an unfinished line was written all the same.
                self.finish(on_event);
                self.read_to = 0;
                has_more = self.read_range(size, on_event)?;
            }
            Step::Read => has_more |= self.read_range(size, on_event)?,
        }
        self.changed_at = Some(now);
        Ok(Look { has_more, is_over: false })
    }

    /// Reads up to `end`, for one turn. Says whether there is more.
    fn read_range(&mut self, end: u64, on_event: &mut OnEvent<'_>) -> io::Result<bool> {
        // A file that lost its name is read to its end before its successor is: it has no turn to give up.
        let stop = if self.is_listed { end.min(self.read_to + TURN_BYTES) } else { end };
        let mut block = vec![0; BLOCK_BYTES];
        let Self { file, name, lines, read_to, .. } = self;
        let mut on_line = |text: &[u8], is_cut| on_event(Event::Line(Line { file: name, text, is_cut }));
        while *read_to < stop {
            let wanted = usize::try_from(stop - *read_to).unwrap_or(BLOCK_BYTES).min(BLOCK_BYTES);
            match file.read_at(&mut block[..wanted], *read_to) {
                // It was emptied this very moment: the next look sees that.
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

//! Rotation of a log file by its own writer: by size, and by time.
//!
//! The file is renamed between two batches, so a line is in one file or the other. Several processes may write to the file, as in an
//! upgrade, and other programs may rename it: the writer notices that its file has left its place, and continues with the new one.

use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use jiff::Timestamp;
use jiff::tz::TimeZone;
use rudy_config::{Int, Location, Problem, Table, Words};
use rudy_runtime::clock;
use rudy_units::{Size, Time};
use rustix::fs::{CWD, OFlags, RenameFlags, fcntl_getfl, fcntl_setfl, renameat_with};
use rustix::io::Errno;

use super::tidy::{Compression, Tidy};

/// How long after a failure the rotated files are tidied again.
const TIDY_AGAIN_AFTER: Duration = Duration::from_mins(1);

/// The length of a day in milliseconds.
const DAY_MS: u64 = 86_400_000;

/// The size at which a file is rotated if nothing else is set.
const SIZE: u64 = 100 * 1024 * 1024;

/// Rotation of a log file. Without `size` and `every`, the file is rotated at 100 MiB.
#[derive(Debug, Clone, PartialEq, Eq, Table)]
#[setting(default)]
pub struct RotationOptions {
    /// Size at which the file is rotated, at most once a second.
    #[setting(read = Size, example = "100M")]
    pub size: Option<u64>,
    /// Time after which the file is rotated, counted from midnight: `1d` rotates at midnight, `6h` four times a day. It divides 24 hours, or
    /// is a number of days, counted from 1 January 1970, which was a Thursday: `7d` rotates at the start of each Thursday.
    #[setting(read = Time<1000, { 365 * DAY_MS }>, example = "1d")]
    pub every: Option<Duration>,
    /// Number of rotated files to keep.
    #[setting(read = Int<1, 10_000>, default = Int(14))]
    pub keep: usize,
    /// Compression of rotated files. The newest rotated file is not compressed.
    #[setting(name = "compress", read = RotatedFiles, default = RotatedFiles::Zstd)]
    pub compression: Option<Compression>,
}

/// How rotated files are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Words)]
enum RotatedFiles {
    /// Compressed with `zstd`.
    Zstd,
    /// Compressed with `gzip`.
    Gzip,
    /// Not compressed.
    None,
}

impl From<RotatedFiles> for Option<Compression> {
    fn from(files: RotatedFiles) -> Self {
        match files {
            RotatedFiles::Zstd => Some(Compression::Zstd),
            RotatedFiles::Gzip => Some(Compression::Gzip),
            RotatedFiles::None => None,
        }
    }
}

impl RotationOptions {
    /// The size at which the file is rotated.
    fn size(&self) -> Option<u64> {
        self.size.or(self.every.is_none().then_some(SIZE))
    }

    /// Rejects a time that neither divides a day nor is a number of days: it would begin at another time each day.
    pub(super) fn problem(&self, location: &Location) -> Option<Problem> {
        let every = self.every?;
        let day = DAY_MS / 1000;
        let fits = |seconds: &u64| day.is_multiple_of(*seconds) || seconds.is_multiple_of(day);
        let seconds = every.as_secs();
        if every.subsec_nanos() == 0 && fits(&seconds) {
            return None;
        }
        // A second fits, and so does each number of days.
        let near = [(1..=seconds).rev().find(fits), (seconds + 1..=seconds + day).find(fits)];
        let near = near.map(|seconds| <Time>::from(Duration::from_secs(seconds.unwrap_or(day))));
        let title = format!("{} neither divides 24 hours nor is a number of days", <Time>::from(every));
        let problem = Problem::value(&location.key("every"), title);
        Some(problem.label(format!("expected for example \"{}\" or \"{}\"", near[0], near[1])))
    }
}

/// The rotation of an open file.
pub(crate) struct Rotation {
    path: PathBuf,
    options: RotationOptions,
    zone: TimeZone,
    /// The period of the lines in the file; `None` for an empty file.
    period: Option<i64>,
    tidy: Tidy,
    /// When the rotated files are tidied without another rotation.
    tidy_at: Option<Instant>,
}

impl Rotation {
    /// Rotates the file at `path`, which is open as `file`.
    pub(crate) fn new(path: &Path, options: RotationOptions, file: &File) -> Self {
        let tidy = Tidy::new(path, options.keep, options.compression);
        let (path, zone, tidy_at) = (path.to_owned(), TimeZone::system(), Some(clock::now()));
        let mut rotation = Self { path, options, zone, period: None, tidy, tidy_at };
        rotation.opened(file);
        rotation
    }

    /// Starts to rotate another file that was opened at the path.
    pub(super) fn opened(&mut self, file: &File) {
        let metadata = file.metadata().ok().filter(|metadata| metadata.len() > 0);
        let modified = metadata.and_then(|metadata| metadata.modified().ok());
        self.period = modified.and_then(|modified| self.period_of(modified));
    }

    /// Prepares the file for a batch of lines: rotates it if the time has come. Returns whether `file` is another file then.
    ///
    /// # Errors
    ///
    /// The file was not rotated. `file` can be written to nevertheless.
    pub(super) fn before_write(
        &mut self,
        file: &mut File,
        bytes: usize,
        now: SystemTime,
    ) -> io::Result<bool> {
        let metadata = file.metadata()?;
        // A device or a pipe has no size and no other name.
        if !metadata.is_file() {
            return Ok(false);
        }
        if !self.is_in_place(&metadata) {
            *file = open_log(&self.path)?;
            self.opened(file);
            return Ok(true);
        }
        let period = self.period_of(now);
        let started = *self.period.get_or_insert(period.unwrap_or_default());
        let is_over = period.is_some_and(|period| period > started);
        let is_full = self.options.size().is_some_and(|most| metadata.len() + bytes as u64 > most);
        if metadata.len() == 0 || !(is_over || is_full) {
            return Ok(false);
        }
        if !self.rename(now)? {
            return Ok(false);
        }
        *file = open_log(&self.path)?;
        self.period = period;
        self.tidy.start();
        Ok(true)
    }

    /// Tidies the rotated files before the first batch, since a killed process or a larger `keep` may have left some, and again after
    /// a failure.
    ///
    /// # Errors
    ///
    /// What failed since the last call.
    pub(super) fn tidy_when_due(&mut self, now: Instant) -> io::Result<()> {
        if let Some(failure) = self.tidy.take_failure() {
            self.tidy_at = Some(now + TIDY_AGAIN_AFTER);
            return Err(failure);
        }
        if self.tidy_at.take_if(|at| now >= *at).is_some() {
            self.tidy.start();
        }
        Ok(())
    }

    /// Whether the open file still has its name.
    fn is_in_place(&self, open: &Metadata) -> bool {
        fs::metadata(&self.path).is_ok_and(|named| (named.dev(), named.ino()) == (open.dev(), open.ino()))
    }

    /// Renames the file. Returns `false` if it was rotated in this second already.
    fn rename(&self, now: SystemTime) -> io::Result<bool> {
        let time = Timestamp::try_from(now).map_err(io::Error::other)?;
        let mut name = self.path.clone().into_os_string();
        name.push(time.strftime(".%Y%m%dT%H%M%SZ").to_string());
        match renameat_with(CWD, &self.path, CWD, &name, RenameFlags::NOREPLACE) {
            Ok(()) => Ok(true),
            Err(Errno::EXIST) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the number of the period that contains a time; `None` without rotation by time.
    fn period_of(&self, time: SystemTime) -> Option<i64> {
        let seconds = i64::try_from(self.options.every?.as_secs()).ok()?.max(1);
        let time = Timestamp::try_from(time).ok()?;
        let offset = i64::from(self.zone.to_offset(time).seconds());
        Some((time.as_second() + offset).div_euclid(seconds))
    }
}

/// Opens a log file, and creates it if it is missing. IP addresses are personal data: by default, other users of this machine cannot
/// read them.
pub(crate) fn open_log(path: &Path) -> io::Result<File> {
    open_to_append(path, 0o640)
}

/// Opens a file to append to it, and creates it with this mode if it is missing. Opening a FIFO that has no reader would wait for one
/// (fifo(7)), and the thread that opens logs handles signals: Rudy opens such a FIFO for reading, too, so that it keeps the first
/// 64 KiB for its reader.
pub fn open_to_append(path: &Path, mode: u32) -> io::Result<File> {
    let mut options = File::options();
    options.append(true).create(true).mode(mode).custom_flags(OFlags::NONBLOCK.bits().cast_signed());
    let file = match options.open(path) {
        Err(error) if Errno::from_io_error(&error) == Some(Errno::NXIO) => options.read(true).open(path),
        opened => opened,
    }?;
    // Writes wait: they are on a thread of their own.
    fcntl_setfl(&file, fcntl_getfl(&file)? - OFlags::NONBLOCK)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::time::UNIX_EPOCH;

    use rustix::fs::{FileType, Mode, mknodat};

    use super::*;

    fn options() -> RotationOptions {
        RotationOptions { size: None, every: None, keep: 100, compression: None }
    }

    /// Writes a line as the thread does.
    fn write(rotation: &mut Rotation, file: &mut File, line: &str, seconds: u64) {
        let now = UNIX_EPOCH + Duration::from_secs(1_795_230_306 + seconds);
        rotation.before_write(file, line.len(), now).unwrap();
        file.write_all(line.as_bytes()).unwrap();
    }

    /// The texts of all files, the oldest first.
    fn texts(folder: &Path) -> Vec<String> {
        let mut paths: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        paths.sort();
        paths.rotate_left(1);
        paths.iter().map(|path| fs::read_to_string(path).unwrap()).collect()
    }

    #[test]
    fn a_file_is_rotated_by_size_at_most_once_a_second() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let mut file = open_log(&path).unwrap();
        let mut rotation = Rotation::new(&path, RotationOptions { size: Some(8), ..options() }, &file);
        for (line, second) in
            [("aaaa\n", 0), ("bbbb\n", 0), ("cccc\n", 0), ("dddd\n", 1), ("eeeeeeeeee\n", 2)]
        {
            write(&mut rotation, &mut file, line, second);
        }
        assert_eq!(texts(folder.path()), ["aaaa\n", "bbbb\ncccc\n", "dddd\n", "eeeeeeeeee\n"]);
        assert!(folder.path().join("log.20261121T030506Z").exists());
    }

    #[test]
    fn a_file_is_rotated_when_its_period_is_over_also_after_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let options = RotationOptions { every: Some(Duration::from_hours(1)), ..options() };
        let mut file = open_log(&path).unwrap();
        let mut rotation = Rotation::new(&path, options.clone(), &file);
        write(&mut rotation, &mut file, "a\n", 0);
        write(&mut rotation, &mut file, "b\n", 60);
        write(&mut rotation, &mut file, "c\n", 3600);
        // A file from long ago.
        file.set_modified(UNIX_EPOCH).unwrap();
        let mut rotation = Rotation::new(&path, options, &file);
        write(&mut rotation, &mut file, "d\n", 3601);
        assert_eq!(texts(folder.path()), ["a\nb\n", "c\n", "d\n"]);
    }

    #[test]
    fn rotated_files_are_tidied_at_the_start_and_a_minute_after_a_failure() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let file = open_log(&path).unwrap();
        // A folder, which cannot be removed as a file, and a file that a larger `keep` has left.
        let [oldest, old, newest] =
            [1, 2, 3].map(|day| folder.path().join(format!("log.2026010{day}T000000Z")));
        fs::create_dir(&oldest).unwrap();
        fs::write(&old, "a\n").unwrap();
        fs::write(newest, "b\n").unwrap();
        let mut rotation = Rotation::new(&path, RotationOptions { keep: 1, ..options() }, &file);
        let start = Instant::now();
        rotation.tidy_when_due(start).unwrap();
        rotation.tidy.wait();
        assert!(!old.exists());
        let failure = rotation.tidy_when_due(start).unwrap_err().to_string();
        assert!(failure.contains(oldest.to_str().unwrap()), "{failure}");
        fs::remove_dir(&oldest).unwrap();
        fs::write(&oldest, "c\n").unwrap();
        for (seconds, exists) in [(59, true), (60, false)] {
            rotation.tidy_when_due(start + Duration::from_secs(seconds)).unwrap();
            rotation.tidy.wait();
            assert_eq!(oldest.exists(), exists, "after {seconds} s");
        }
    }

    #[test]
    fn a_writer_follows_a_file_that_another_program_has_renamed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let options = RotationOptions { size: Some(1000), ..options() };
        let (mut one, mut two) = (open_log(&path).unwrap(), open_log(&path).unwrap());
        let [mut first, mut second] = [&one, &two].map(|file| Rotation::new(&path, options.clone(), file));
        write(&mut first, &mut one, "a\n", 0);
        fs::rename(&path, folder.path().join("log.1")).unwrap();
        write(&mut first, &mut one, "b\n", 0);
        write(&mut second, &mut two, "c\n", 0);
        assert_eq!(texts(folder.path()), ["a\n", "b\nc\n"]);
    }

    #[test]
    fn a_fifo_opens_without_a_reader_and_keeps_the_lines_for_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        let mut file = open_log(&path).unwrap();
        file.write_all(b"a\n").unwrap();
        let mut line = [0; 2];
        File::open(&path).unwrap().read_exact(&mut line).unwrap();
        assert_eq!(&line, b"a\n");
        assert!(!fcntl_getfl(&file).unwrap().contains(OFlags::NONBLOCK), "a slow reader loses no line");
    }

    #[test]
    fn a_folder_that_is_not_writable_is_an_error_and_the_file_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let mut file = open_log(&path).unwrap();
        file.write_all(b"a\n").unwrap();
        let mut rotation = Rotation::new(&path, RotationOptions { size: Some(1), ..options() }, &file);
        // Root may write to every folder, but not find a file below a file.
        rotation.path = folder.path().join("log/../log");
        assert!(rotation.before_write(&mut file, 1, UNIX_EPOCH).is_err());
        file.write_all(b"b\n").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "a\nb\n");
    }
}

//! `rudy tail`: the lines of files on standard output, as they are written.

mod show;

use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Instant, SystemTime};

pub use regex::bytes::Regex;
use rustix::event::{PollFd, PollFlags, poll};

use self::show::{Reader, Show};
use crate::config::visible;
use crate::follow::{Event, Follower, Pattern, Stopper};
use crate::run::Exit;

/// What `rudy tail` is asked to do.
#[derive(Debug, Clone)]
pub struct Options {
    /// The files, by name or pattern.
    pub files: Vec<PathBuf>,
    /// Lines of each file to begin with.
    pub last: u64,
    /// Whether to wait for more.
    pub follows: bool,
    /// Only lines in which this is found.
    pub grep: Option<Regex>,
    /// A JSON object for each line, instead of the line.
    pub json: bool,
}

/// Writes lines until whoever reads them has gone, or, not following, until there are no more.
#[must_use]
pub fn run(options: &Options) -> Exit {
    let patterns: Result<Vec<_>, _> = options.files.iter().map(|path| pattern(path)).collect();
    let patterns = match patterns {
        Ok(patterns) => patterns,
        Err(why) => {
            say("error", &why);
            return Exit::BadInput;
        }
    };
    let has_names = patterns.len() > 1 || patterns.iter().any(Pattern::is_glob);
    let mut follower = Follower::new(patterns, options.last);
    let mut output = match Output::new(options, has_names) {
        Ok(output) => output,
        Err(error) => {
            say("error", &format!("cannot write to standard output: {error}"));
            return Exit::CannotRun;
        }
    };
    if !options.follows {
        loop {
            let has_more = follower.read_to_end(Instant::now(), &mut |event| output.take(event));
            if let Some(exit) = output.flush() {
                return exit;
            }
            if !has_more {
                return if follower.has_errors() { Exit::CannotRun } else { Exit::Done };
            }
        }
    }
    if let Err(error) = stop_with_the_reader(follower.stopper()) {
        say("notice", &format!("it will not be noticed at once when standard output is closed: {error}"));
    }
    loop {
        follower.read(Instant::now(), &mut |event| output.take(event));
        if let Some(exit) = output.flush() {
            return exit;
        }
        if !follower.wait() {
            return Exit::Done;
        }
    }
}

fn pattern(path: &Path) -> Result<Pattern, String> {
    let shown = path.display();
    if path == Path::new("-") {
        return Err("cannot follow standard input: give the name of a file".to_owned());
    }
    Pattern::new(path).map_err(|why| format!("cannot follow \"{shown}\": {why}"))
}

/// Where the lines go.
struct Output {
    stdout: File,
    show: Show,
    grep: Option<Regex>,
    lines: Vec<u8>,
    error: Option<io::Error>,
}

/// So many bytes are written at once.
const BATCH_BYTES: usize = 64 * 1024;

impl Output {
    fn new(options: &Options, has_names: bool) -> io::Result<Self> {
        let no_color = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let reader = match io::stdout().is_terminal() {
            true if no_color => Reader::Terminal,
            true => Reader::ColourTerminal,
            false => Reader::Program,
        };
        Ok(Self {
            // Without the line buffer of `io::stdout`, which would write each line by itself.
            stdout: File::from(io::stdout().as_fd().try_clone_to_owned()?),
            show: Show::new(options.json, has_names, reader),
            grep: options.grep.clone(),
            lines: Vec::new(),
            error: None,
        })
    }

    fn take(&mut self, event: Event<'_>) {
        match event {
            Event::Line(line) => {
                if self.grep.as_ref().is_none_or(|grep| grep.is_match(line.text)) {
                    self.show.line(&line, SystemTime::now(), &mut self.lines);
                }
                if self.lines.len() >= BATCH_BYTES {
                    self.write();
                }
            }
            Event::Name(name) => self.show.note_name(name),
            Event::Notice(what) => self.say("notice", what),
            Event::Error(what) => self.say("error", what),
        }
    }

    /// Between the lines before and after it, where both go to the same terminal.
    fn say(&mut self, kind: &str, what: &str) {
        self.write();
        say(kind, what);
    }

    /// Writes what has gathered. Says how to end where nobody takes it.
    fn flush(&mut self) -> Option<Exit> {
        self.write();
        let error = self.error.as_ref()?;
        // Whoever read has what they wanted: `rudy tail log | head`.
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Some(Exit::Done);
        }
        say("error", &format!("cannot write to standard output: {error}"));
        Some(Exit::CannotRun)
    }

    fn write(&mut self) {
        if self.error.is_none() {
            self.error = self.stdout.write_all(&self.lines).err();
        }
        self.lines.clear();
    }
}

/// Stops following when the reader of standard output goes away. Otherwise only the next line would show that, and it may
/// never come.
fn stop_with_the_reader(stopper: Stopper) -> io::Result<()> {
    let stdout = io::stdout().as_fd().try_clone_to_owned()?;
    let wait = move || {
        // Asked for nothing, poll returns at an error or a hang-up; of a file, where there is neither, never.
        let mut watched = [PollFd::new(&stdout, PollFlags::empty())];
        while poll(&mut watched, None).is_err_and(|error| error == rustix::io::Errno::INTR) {}
        stopper.stop();
    };
    thread::Builder::new().name("stdout".to_owned()).spawn(wait).map(drop)
}

/// A line on stderr. What a file is called may hold what a terminal obeys.
fn say(kind: &str, what: &str) {
    // Nobody is left to tell if stderr cannot be written to.
    let _ = writeln!(io::stderr(), "{kind}: {}", visible(what));
}

//! `rudy tail`: prints the lines of files as they are written.

mod flags;
mod format;

use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Instant, SystemTime};

use rudy_handlers::follow::{Event, Follower, Pattern, Stopper};
use rudy_server::run::Exit;
use rudy_units::visible;
use rustix::event::{PollFd, PollFlags, poll};

pub(crate) use self::flags::Tail;
use self::format::{Destination, LineFormatter};
pub(crate) use regex::bytes::Regex;

/// The options of `rudy tail`.
#[derive(Debug, Clone)]
pub(crate) struct Options {
    /// The files, as names or patterns.
    pub(crate) files: Vec<PathBuf>,
    /// The number of last lines of each file to start with.
    pub(crate) last: u64,
    /// Whether to wait for more lines.
    pub(crate) follows: bool,
    /// Print only lines that match this.
    pub(crate) grep: Option<Regex>,
    /// Print a JSON object for each line, instead of the line.
    pub(crate) json: bool,
}

/// Prints lines until the reader of standard output has gone, or without `follows` until the last line.
pub(crate) fn run(options: &Options) -> Exit {
    let patterns: Result<Vec<_>, _> = options.files.iter().map(|path| pattern(path)).collect();
    let patterns = match patterns {
        Ok(patterns) => patterns,
        Err(why) => {
            print_message("error", &why);
            return Exit::BadInput;
        }
    };
    let has_names = patterns.len() > 1 || patterns.iter().any(Pattern::is_glob);
    let mut follower = Follower::new(patterns, options.last);
    let mut output = match Output::new(options, has_names) {
        Ok(output) => output,
        Err(error) => {
            print_message("error", &format!("cannot write to standard output: {error}"));
            return Exit::CannotRun;
        }
    };
    if !options.follows {
        loop {
            let has_more = follower.read_to_end(Instant::now(), &mut |event| output.handle(event));
            if let Some(exit) = output.flush() {
                return exit;
            }
            if !has_more {
                return if follower.has_errors() { Exit::CannotRun } else { Exit::Done };
            }
        }
    }
    if let Err(error) = stop_when_stdout_closes(follower.stopper()) {
        print_message(
            "notice",
            &format!(
                "cannot watch standard output, so a closed reader is noticed only at the next line: {error}"
            ),
        );
    }
    loop {
        follower.read(Instant::now(), &mut |event| output.handle(event));
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

/// The output of the lines.
struct Output {
    stdout: File,
    formatter: LineFormatter,
    grep: Option<Regex>,
    lines: Vec<u8>,
    error: Option<io::Error>,
}

/// The number of bytes that are written at once.
const BATCH_BYTES: usize = 64 * 1024;

impl Output {
    fn new(options: &Options, has_names: bool) -> io::Result<Self> {
        let no_color = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let destination = match io::stdout().is_terminal() {
            true if no_color => Destination::Terminal,
            true => Destination::ColorTerminal,
            false => Destination::Program,
        };
        Ok(Self {
            // Without the line buffer of `io::stdout`, which writes each line separately.
            stdout: File::from(io::stdout().as_fd().try_clone_to_owned()?),
            formatter: LineFormatter::new(options.json, has_names, destination),
            grep: options.grep.clone(),
            lines: Vec::new(),
            error: None,
        })
    }

    fn handle(&mut self, event: Event<'_>) {
        match event {
            Event::Line(line) => {
                if self.grep.as_ref().is_none_or(|grep| grep.is_match(line.text)) {
                    self.formatter.line(&line, SystemTime::now(), &mut self.lines);
                }
                if self.lines.len() >= BATCH_BYTES {
                    self.write();
                }
            }
            Event::Name(name) => self.formatter.add_name(name),
            Event::Notice(what) => self.print_message("notice", what),
            Event::Error(what) => self.print_message("error", what),
        }
    }

    /// Prints a message in order with the lines, which may go to the same terminal.
    fn print_message(&mut self, kind: &str, what: &str) {
        self.write();
        print_message(kind, what);
    }

    /// Writes the buffered lines. Returns the exit status if standard output cannot be written to.
    fn flush(&mut self) -> Option<Exit> {
        self.write();
        let error = self.error.as_ref()?;
        // The reader has read enough: `rudy tail log | head`.
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Some(Exit::Done);
        }
        print_message("error", &format!("cannot write to standard output: {error}"));
        Some(Exit::CannotRun)
    }

    fn write(&mut self) {
        if self.error.is_none() {
            self.error = self.stdout.write_all(&self.lines).err();
        }
        self.lines.clear();
    }
}

/// Stops following when the reader of standard output has gone. Otherwise only the next line would reveal
/// that, and there may never be one.
fn stop_when_stdout_closes(stopper: Stopper) -> io::Result<()> {
    let stdout = io::stdout().as_fd().try_clone_to_owned()?;
    let wait = move || {
        // Without requested events, poll returns only for an error or a hang-up. A file has neither, so this
        // then waits forever.
        let mut watched = [PollFd::new(&stdout, PollFlags::empty())];
        while poll(&mut watched, None).is_err_and(|error| error == rustix::io::Errno::INTR) {}
        stopper.stop();
    };
    thread::Builder::new().name("stdout".to_owned()).spawn(wait).map(drop)
}

/// Prints a message to stderr. A file name may contain control sequences of a terminal.
fn print_message(kind: &str, what: &str) {
    // If stderr cannot be written to, there is nothing else to do.
    let _ = writeln!(io::stderr(), "{kind}: {}", visible(what));
}

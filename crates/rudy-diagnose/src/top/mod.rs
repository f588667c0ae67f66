//! `rudy top`: the threads of a process by CPU usage.

mod java;
mod json;
mod order;
mod runtime;
mod settings;
mod stacks;
mod table;
mod verdict;
mod view;

use std::time::Duration;

use rudy_command::Exit;
use rudy_observe::{Difference, Error, Processes, Sample, Target};

use self::java::Java;
pub use self::order::Sort;
use self::settings::{Effect, Settings};
use self::view::View;
use crate::Dumps;
use crate::jvm::DUMPS;
use crate::watch::{Destination, Keyboard, Output, Stop, Ticker, Wake, alone, write};

/// The options of `rudy top`.
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command")]
#[derive(Debug, Clone)]
pub struct Options {
    /// The process, or several with this name.
    pub target: Target,
    /// The time between updates.
    pub interval: Duration,
    /// The number of updates; without it, the command ends with the process or a signal.
    pub count: Option<u64>,
    /// The number of threads to show; by default as many as fit on the screen, or [`THREADS`].
    pub threads: Option<usize>,
    /// The order of threads.
    pub sort: Sort,
    /// Whether threads whose names differ in numbers only are one row.
    pub sums_names: bool,
    /// Whether the stacks of the busiest threads are shown.
    pub shows_stacks: bool,
    /// Where the thread dumps of a JVM come from, if they are wanted.
    pub dumps: Option<Dumps>,
    /// Whether idle threads are shown too.
    pub shows_idle: bool,
    /// Prints a JSON object per interval instead of a table.
    pub json: bool,
    /// Appends updates instead of redrawing, even on a terminal.
    pub plain: bool,
}

/// The default number of threads: more are rarely useful, and a process may have thousands.
pub const THREADS: usize = 20;

/// Shows the threads at each interval.
#[must_use]
pub fn run(options: &Options) -> Exit {
    match watch(options) {
        Ok(()) => Exit::Done,
        Err(stop) => stop.print(),
    }
}

fn watch(options: &Options) -> Result<(), Stop> {
    if options.dumps.is_some() {
        // Dumps are of one JVM.
        options.target.pid()?;
    }
    let mut processes = Processes::open(&options.target)?;
    let java = options.dumps.as_ref().map(|dumps| Java::new(dumps, processes.first())).transpose()?;
    let parts = java.as_ref().filter(|java| java.attaches()).map_or(1, |_| DUMPS);
    let mut ticker = Ticker::start(options.interval / parts, alone(&processes)).map_err(Stop::Waiting)?;
    let mut output = Output::new(options.plain || options.json);
    let is_screen = output.destination == Destination::Screen;
    // Restores the terminal when the watch ends.
    let keyboard = is_screen.then(Keyboard::open).flatten();
    if keyboard.is_some() {
        ticker.read_keys();
    }
    let before = processes.sample()?;
    if is_screen {
        output.update(&table::beginning(&processes, &before, options.interval))?;
    }
    let mut watch = Watch {
        processes,
        java,
        before,
        latest: None,
        settings: Settings::new(options),
        output,
        json: options.json,
    };
    watch.run(&mut ticker, parts, options.count)
}

/// A running `rudy top`.
struct Watch {
    processes: Processes,
    java: Option<Java>,
    /// The sample at the start of the interval.
    before: Sample,
    /// The sample at the end of the last interval, and the activity until then.
    latest: Option<(Sample, Difference)>,
    settings: Settings,
    output: Output,
    json: bool,
}

impl Watch {
    /// Shows an update every `parts` ticks.
    fn run(&mut self, ticker: &mut Ticker, parts: u32, count: Option<u64>) -> Result<(), Stop> {
        let (mut shown, mut ticks) = (0, 0);
        while count.is_none_or(|count| shown < count) {
            match ticker.wait().map_err(Stop::Waiting)? {
                Wake::Stop => break,
                Wake::Key(key) => match self.settings.key(key) {
                    Effect::Quit => break,
                    Effect::Redraw => self.draw()?,
                    Effect::Nothing => {}
                },
                Wake::Due => {
                    ticks += 1;
                    self.processes.check_runs()?;
                    self.dump(ticks % parts == 1 % parts)?;
                    if ticks % parts == 0 {
                        self.update()?;
                        shown += 1;
                    }
                }
            }
        }
        Ok(())
    }

    fn dump(&mut self, is_first: bool) -> Result<(), Stop> {
        let Some(java) = &mut self.java else { return Ok(()) };
        if is_first {
            java.begin();
        }
        java.take()
    }

    /// Takes a sample and shows the activity since the last one.
    fn update(&mut self) -> Result<(), Stop> {
        let now = self.processes.sample()?;
        let mut difference = now.since(&self.before);
        if let Some(java) = &self.java {
            java.name(&mut self.processes, &mut difference)?;
        }
        self.before = now.clone();
        self.latest = Some((now, difference));
        self.draw()
    }

    /// Shows the last interval with the settings of now.
    fn draw(&mut self) -> Result<(), Stop> {
        if self.settings.shows_help {
            return self.output.update(settings::HELP);
        }
        let is_json = self.json;
        let Some(view) = self.view()? else { return Ok(()) };
        let text = if is_json { json::line(&view) } else { table::table(&view) };
        if is_json { write(&text) } else { self.output.update(&text) }
    }

    /// `None` before the end of the first interval.
    fn view(&mut self) -> Result<Option<View<'_>>, Error> {
        let Some((sample, difference)) = &self.latest else { return Ok(None) };
        let rows = self.output.rows();
        View::new(&mut self.processes, sample, difference, self.java.as_ref(), &self.settings, rows).map(Some)
    }
}

#[cfg(test)]
mod tests;

//! Samples the sockets of a process at each interval, and judges at the end.

use std::fs::{self, File};
use std::time::Duration;

use rudy_command::Exit;
use rudy_observe::{Processes, Sockets};

use super::counts::Counts;
use super::history::History;
use super::verdict::Verdict;
use super::{Options, WatchOptions, json, plot, sentence, table};
use crate::text::title;
use crate::watch::{Output, Stop, Ticker, Wake, alone, say, write};

/// Watches until the end, and prints the verdict, whatever ends the watch.
pub(super) fn run(options: &Options, settings: &WatchOptions) -> Exit {
    let mut watch = match Watch::start(options, settings) {
        Ok(watch) => watch,
        Err(stop) => return stop.print(),
    };
    let ended = watch.run();
    if watch.first.is_none() {
        return ended.map_or_else(|stop| stop.print(), |()| Exit::Done);
    }
    let verdict = watch.verdict();
    let drawn = watch.draw(&verdict);
    let printed = watch.conclude(&verdict);
    // Why the watch ended comes after the conclusion.
    let exit = ended.and(drawn).and(printed).map_or_else(|stop| stop.print(), |()| Exit::Done);
    if exit == Exit::Done && verdict.is_leak() { Exit::Leak } else { exit }
}

struct Watch<'a> {
    options: &'a Options,
    settings: &'a WatchOptions,
    processes: Processes,
    ticker: Ticker,
    output: Output,
    history: History,
    first: Option<Counts>,
    last: Option<Counts>,
    /// Whether a line about a leak was printed.
    has_printed_leak: bool,
}

impl<'a> Watch<'a> {
    fn start(options: &'a Options, settings: &'a WatchOptions) -> Result<Self, Stop> {
        let processes = Processes::open(&options.target)?;
        // A file that cannot be written is an error now, and not after an hour. An older chart stays until the end.
        if let Some(path) = &settings.plot {
            let opened = File::options().append(true).create(true).open(path);
            opened.map_err(|error| Stop::Plot(path.clone(), error))?;
        }
        let ticker = Ticker::start(settings.interval, alone(&processes)).map_err(Stop::Waiting)?;
        Ok(Self {
            options,
            settings,
            processes,
            ticker,
            output: Output::new(options.plain || options.json || options.by.is_none()),
            history: History::default(),
            first: None,
            last: None,
            has_printed_leak: false,
        })
    }

    fn run(&mut self) -> Result<(), Stop> {
        loop {
            let sockets = self.processes.sockets()?;
            let counts = Counts::of(&sockets);
            self.history.push(&sockets, &counts);
            let leak = self.leak();
            self.show(&sockets, &counts, leak.as_ref())?;
            self.last = Some(counts);
            if self.is_over(leak.is_some()) || self.ticker.wait().map_err(Stop::Waiting)? == Wake::Stop {
                return Ok(());
            }
        }
    }

    /// The verdict so far if it is a leak.
    fn leak(&self) -> Option<Verdict> {
        Some(self.verdict()).filter(Verdict::is_leak)
    }

    fn verdict(&self) -> Verdict {
        Verdict::of(&self.history, self.settings.time_min)
    }

    fn is_over(&self, is_leak: bool) -> bool {
        let elapsed = Duration::try_from_secs_f64(self.history.seconds()).unwrap_or_default();
        self.settings.count.is_some_and(|count| self.history.samples >= count)
            || self.settings.time.is_some_and(|time| elapsed >= time)
            || (self.settings.until_leak && is_leak)
    }

    fn show(&mut self, sockets: &Sockets, counts: &Counts, leak: Option<&Verdict>) -> Result<(), Stop> {
        let is_first = self.first.is_none();
        let first = self.first.get_or_insert_with(|| counts.clone());
        let leaks = leak.map(sentence::leaks).unwrap_or_default();
        match self.options.by {
            _ if self.options.json => {
                write(&json::sample(&self.processes, sockets, Some(&counts.since(first)), self.options))
            }
            None if is_first => write(&table::beginning(&self.processes, counts)),
            None => {
                write(&table::line(counts, first))?;
                // In a long watch, the end may be far away, and each further line would repeat the same.
                let is_news = leak.is_some() && !self.has_printed_leak && !self.settings.until_leak;
                self.has_printed_leak |= leak.is_some();
                if is_news { write(&leaks) } else { Ok(()) }
            }
            Some(by) => {
                let rows = self.output.rows().map_or(self.options.rows, table::groups_that_fit);
                let groups = table::groups(&self.processes, sockets, by, rows.min(self.options.rows));
                self.output.update(&(groups + &leaks))
            }
        }
    }

    fn draw(&self, verdict: &Verdict) -> Result<(), Stop> {
        let Some(path) = &self.settings.plot else { return Ok(()) };
        let title = format!("Sockets of {}", title(&self.processes));
        let svg = plot::svg(&title, &self.history, verdict);
        fs::write(path, svg).map_err(|error| Stop::Plot(path.clone(), error))?;
        say("chart", &path.display().to_string());
        Ok(())
    }

    fn conclude(&self, verdict: &Verdict) -> Result<(), Stop> {
        if self.options.json {
            return write(&json::verdict(&self.processes, verdict, &self.history));
        }
        let change = match (&self.first, &self.last) {
            (Some(first), Some(last)) => table::conclusion(first, last),
            _ => String::new(),
        };
        let time_min_s = self.settings.time_min.as_secs_f64();
        write(&(change + &sentence::conclusion(verdict, self.history.descriptors, time_min_s)))
    }
}

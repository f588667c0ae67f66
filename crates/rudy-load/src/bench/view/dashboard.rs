//! The dashboard of a running load test.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Gauge, Paragraph, RenderDirection, Sparkline, Widget, Wrap};

use super::totals::Totals;
use crate::bench::plan::Until;
use crate::bench::prepare::Prepared;
use crate::bench::report::Config;
use crate::bench::run::Interval;
use crate::units;

/// Minimum size in characters, for a table of three columns and charts of two lines.
pub(super) const WIDTH_MIN: u16 = 40;
pub(super) const HEIGHT_MIN: u16 = 24;

/// Width of a column of the table, with the space after it.
const COLUMN: usize = 14;

/// Minimum height for blank lines between the parts.
const BLANK_LINES_HEIGHT_MIN: u16 = 30;

/// Number of intervals in the history: as many as the widest window shows, one per character.
const HISTORY_INTERVALS: usize = 512;

/// The time span of the first column of the table.
const RECENT_DURATION: Duration = Duration::from_secs(1);

/// The state of the dashboard.
pub(super) struct Dashboard {
    target: String,
    config: String,
    connections: u32,
    until: Until,
    warm_up: Duration,
    /// The length of a whole interval.
    interval: Duration,
    has_colours: bool,
    phase: Phase,
    /// Open connections.
    open: u32,
    /// The intervals of the last second, the latest first.
    recent: VecDeque<Totals>,
    /// Responses per second and p99 in nanoseconds of each interval, the latest first.
    history: VecDeque<(u64, u64)>,
    total: Totals,
}

/// The phase of the run.
enum Phase {
    /// Connections are being opened.
    Opening { open: u32, total: u32 },
    /// Requests are sent, from this time on.
    Running(Instant),
}

impl Dashboard {
    pub(super) fn new(prepared: &Prepared, has_colours: bool) -> Self {
        Self {
            target: prepared.url.to_string(),
            config: Config::new(prepared, &prepared.plan.remote).to_string(),
            connections: prepared.plan.connections.get(),
            until: prepared.plan.until,
            warm_up: prepared.plan.warm_up,
            interval: prepared.plan.interval,
            has_colours,
            phase: Phase::Opening { open: 0, total: prepared.plan.connections.get() },
            open: 0,
            recent: VecDeque::new(),
            history: VecDeque::new(),
            total: Totals::default(),
        }
    }

    pub(super) fn opening(&mut self, open: u32, total: u32) {
        self.phase = Phase::Opening { open, total };
    }

    pub(super) fn start(&mut self, start: Instant) {
        self.phase = Phase::Running(start);
    }

    pub(super) fn interval(&mut self, interval: &Interval) {
        let totals = Totals::new(interval);
        self.total.add(&totals);
        self.open = interval.open;
        // The responses after the last whole interval count in the total only; as a rate, they would look
        // like a drop.
        if interval.length < self.interval {
            return;
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a rate, which is drawn in eighths of a line"
        )]
        let rate = totals.responses_per_s() as u64;
        let p99 = u64::try_from(totals.latency.quantile(0.99).as_nanos()).unwrap_or(u64::MAX);
        self.history.push_front((rate, p99));
        self.history.truncate(HISTORY_INTERVALS);
        self.recent.push_front(totals);
        let intervals = RECENT_DURATION.as_nanos().div_ceil(self.interval.as_nanos().max(1));
        self.recent.truncate(usize::try_from(intervals).unwrap_or(usize::MAX));
    }

    /// Draws the dashboard. If the window is small, the bottom is cut off.
    pub(super) fn render(&self, now: Instant, area: Rect, buffer: &mut Buffer) {
        let table = self.table();
        let height = u16::try_from(table.len()).unwrap_or(u16::MAX);
        let blank = u16::from(area.height >= BLANK_LINES_HEIGHT_MIN);
        let rows = [1, 2, 1, blank, height, blank].map(Constraint::Length);
        let charts = [Constraint::Fill(3), Constraint::Fill(2), Constraint::Length(1)];
        let [target, config, progress, _, metrics, _, rates, latencies, help] =
            Layout::vertical(rows.into_iter().chain(charts)).areas(area);
        Line::styled(self.target.as_str(), Modifier::BOLD).render(target, buffer);
        let text = Paragraph::new(self.config.as_str()).wrap(Wrap { trim: true });
        text.style(Modifier::DIM).render(config, buffer);
        let (part, text) = self.progress(now);
        let gauge = Gauge::default().ratio(part).label(text);
        gauge.gauge_style(self.style(Color::Green)).render(progress, buffer);
        Paragraph::new(table).render(metrics, buffer);
        self.rates(rates, buffer);
        self.latencies(latencies, buffer);
        let line = "Ctrl-C ends the run with its report";
        Line::styled(line, Modifier::DIM).render(help, buffer);
    }

    /// The progress as a fraction and as text.
    fn progress(&self, now: Instant) -> (f64, String) {
        let start = match self.phase {
            Phase::Opening { open, total } => {
                return (0.0, format!("opening connections: {open} of {total} open"));
            }
            Phase::Running(start) => start,
        };
        let elapsed = now.saturating_duration_since(start);
        let Some(counted) = elapsed.checked_sub(self.warm_up) else {
            let left = units::duration(self.warm_up.saturating_sub(elapsed));
            return (0.0, format!("warming up, {left} left; not counted"));
        };
        match self.until {
            Until::Time(time) if counted < time => {
                let [done, all, left] =
                    [counted, time, round_up(time.saturating_sub(counted))].map(units::rough);
                (counted.as_secs_f64() / time.as_secs_f64(), format!("{done} of {all}, {left} left"))
            }
            Until::Time(_) => (1.0, "waiting for the last responses".to_owned()),
            Until::Requests(requests) => {
                let part = (units::float(self.total.requests) / units::float(requests.max(1))).min(1.0);
                let left = Duration::try_from_secs_f64(counted.as_secs_f64() * (1.0 / part - 1.0));
                let left = left
                    .map_or(String::new(), |left| format!(", about {} left", units::rough(round_up(left))));
                let [done, all] = [self.total.requests, requests].map(units::count);
                (part, format!("{done} of {all} requests{left}"))
            }
        }
    }

    fn style(&self, colour: Color) -> Style {
        if self.has_colours { Style::new().fg(colour) } else { Style::new() }
    }

    /// The metrics of the last second and of the whole run, side by side.
    fn table(&self) -> Vec<Line<'static>> {
        let Some(first) = self.recent.front() else { return Vec::new() };
        let mut recent = first.clone();
        self.recent.iter().skip(1).for_each(|totals| recent.add(totals));
        let name = format!("last {}", units::Unit::Time.tick(recent.length.as_secs_f64()));
        let mut rows = vec![Line::styled(format!("{:<COLUMN$}{name:<COLUMN$}whole run", ""), Modifier::DIM)];
        for ((name, recent), (_, all)) in recent.rows().into_iter().zip(self.total.rows()) {
            rows.push(Line::from(vec![
                label(name),
                Span::styled(format!("{recent:<COLUMN$}"), self.style(Color::Cyan)),
                Span::styled(all, self.style(Color::Yellow)),
            ]));
        }
        let open =
            format!("{} of {} open", units::count(self.open.into()), units::count(self.connections.into()));
        rows.push(Line::from(vec![label("connections"), Span::raw(open)]));
        rows.push(Line::from(vec![label("statuses"), Span::raw(self.total.statuses())]));
        let errors = self.total.errors();
        let style =
            if errors == "none" { Style::new() } else { self.style(Color::Red).add_modifier(Modifier::BOLD) };
        rows.push(Line::from(vec![label("errors"), Span::styled(errors, style)]));
        rows
    }

    fn rates(&self, area: Rect, buffer: &mut Buffer) {
        let rates: Vec<_> = self.history.iter().map(|(rate, _)| *rate).collect();
        let format = |rate| units::digits(units::float(rate));
        self.chart("requests/s", &rates, format, Color::Cyan, area, buffer);
    }

    fn latencies(&self, area: Rect, buffer: &mut Buffer) {
        let latencies: Vec<_> = self.history.iter().map(|(_, p99)| *p99).collect();
        let format = |nanoseconds| units::duration(Duration::from_nanos(nanoseconds));
        self.chart("latency p99", &latencies, format, Color::Yellow, area, buffer);
    }

    /// A chart with a column per interval, the latest on the right, with its name, time span and maximum.
    fn chart(
        &self,
        name: &str,
        values: &[u64],
        format: impl Fn(u64) -> String,
        colour: Color,
        area: Rect,
        buffer: &mut Buffer,
    ) {
        let shown = &values[..values.len().min(area.width.into())];
        let step = units::Unit::Time.tick(self.interval.as_secs_f64());
        let title = match shown.iter().max() {
            Some(max) => format!("{name} in steps of {step}, up to {}", format(*max)),
            None => name.to_owned(),
        };
        let [above, below] = Layout::vertical([Constraint::Length(1), Constraint::Fill(1)]).areas(area);
        Line::styled(title, Modifier::DIM).render(above, buffer);
        let sparkline = Sparkline::default().data(shown).direction(RenderDirection::RightToLeft);
        sparkline.style(self.style(colour)).render(below, buffer);
    }
}

/// Rounds up to seconds, so that 0 s are left only at the end.
fn round_up(time: Duration) -> Duration {
    Duration::from_secs(time.as_secs() + u64::from(time.subsec_nanos() > 0))
}

fn label(name: &'static str) -> Span<'static> {
    Span::styled(format!("{name:<COLUMN$}"), Modifier::DIM)
}

#[cfg(test)]
mod tests {
    use rudy_request::Failure;

    use super::*;
    use crate::bench::Recorder;

    const INTERVAL: Duration = Duration::from_millis(100);

    fn dashboard(until: Until) -> Dashboard {
        Dashboard {
            target: "http://127.0.0.1:8080/".to_owned(),
            config: "64 connections, 1 thread, closed loop, 10 s to 127.0.0.1:8080".to_owned(),
            connections: 64,
            until,
            warm_up: Duration::from_secs(1),
            interval: INTERVAL,
            has_colours: false,
            phase: Phase::Opening { open: 12, total: 64 },
            open: 0,
            recent: VecDeque::new(),
            history: VecDeque::new(),
            total: Totals::default(),
        }
    }

    fn interval(responses: u32, latency: Duration) -> Interval {
        let mut recorder = Recorder::default();
        for _ in 0..responses {
            recorder.record_status(200);
            recorder.succeeded += 1;
            recorder.latency.record(latency);
        }
        Interval { index: 0, length: INTERVAL, recorder: Box::new(recorder), open: 64 }
    }

    fn render(dashboard: &Dashboard, now: Instant, width: u16, height: u16) -> Vec<String> {
        let area = Rect::new(0, 0, width, height);
        let mut buffer = Buffer::empty(area);
        dashboard.render(now, area, &mut buffer);
        let row = |y| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>().trim_end().to_owned();
        (0..height).map(row).collect()
    }

    /// 2 s of a run whose last second is slower, with two errors in the first one.
    fn run() -> Dashboard {
        let mut dashboard = dashboard(Until::Time(Duration::from_secs(10)));
        let mut first = interval(1000, Duration::from_micros(640));
        first.recorder.record_status(503);
        first.recorder.record_failure(&Failure::Timeout, Duration::ZERO);
        dashboard.interval(&first);
        (1..10).for_each(|_| dashboard.interval(&interval(1000, Duration::from_micros(640))));
        (0..10).for_each(|_| dashboard.interval(&interval(500, Duration::from_millis(2))));
        dashboard
    }

    #[test]
    fn the_table_has_the_last_second_and_the_whole_run() {
        let mut dashboard = run();
        let start = Instant::now();
        dashboard.start(start);
        for (width, height) in [(110, 36), (40, 24)] {
            let rows = render(&dashboard, start + Duration::from_millis(3100), width, height);
            let at = rows.iter().position(|row| row.contains("whole run")).unwrap();
            let expected = [
                "              last 1 s      whole run",
                "requests      5,000         15,002",
                "requests/s    5,000         7,500",
                "received/s    0 B           0 B",
                "latency p50   2.00 ms       641 µs",
                "latency p90   2.00 ms       2.00 ms",
                "latency p99   2.00 ms       2.00 ms",
                "latency p99.9 2.00 ms       2.00 ms",
                "latency max   2.00 ms       2.00 ms",
                "error rate    0 %           0.0133 %",
                "connections   64 of 64 open",
                "statuses      200: 15,000, 503: 1",
                "errors        status 1, timeout 1",
            ];
            assert_eq!(rows[at..at + expected.len()], expected);
            assert!(rows.iter().any(|row| row.contains("2 s of 10 s, 8 s left")), "{rows:#?}");
            assert_eq!(rows[usize::from(height) - 1], "Ctrl-C ends the run with its report");
        }
    }

    #[test]
    fn the_history_has_a_column_per_interval() {
        let rows = render(&run(), Instant::now(), 110, 36);
        let title = rows.iter().position(|row| row == "requests/s in steps of 100 ms, up to 10,000").unwrap();
        assert_eq!(
            rows[title + 1].trim_start().chars().count(),
            20 - 10,
            "the first ten are the highest: {rows:#?}"
        );
        assert!(rows.iter().any(|row| row == "latency p99 in steps of 100 ms, up to 2.00 ms"), "{rows:#?}");
    }

    #[test]
    fn the_progress_has_the_time_left() {
        let mut by_time = dashboard(Until::Time(Duration::from_secs(10)));
        let start = Instant::now();
        assert_eq!(by_time.progress(start), (0.0, "opening connections: 12 of 64 open".to_owned()));
        by_time.start(start);
        let at = |dashboard: &Dashboard, ms| dashboard.progress(start + Duration::from_millis(ms));
        assert_eq!(at(&by_time, 250), (0.0, "warming up, 750 ms left; not counted".to_owned()));
        assert_eq!(at(&by_time, 6000), (0.5, "5 s of 10 s, 5 s left".to_owned()));
        assert_eq!(at(&by_time, 11_001), (1.0, "waiting for the last responses".to_owned()));
        let mut by_number = dashboard(Until::Requests(1000));
        by_number.start(start);
        assert_eq!(at(&by_number, 2000), (0.0, "0 of 1,000 requests".to_owned()));
        by_number.interval(&interval(250, Duration::from_millis(1)));
        assert_eq!(at(&by_number, 2000), (0.25, "250 of 1,000 requests, about 3 s left".to_owned()));
    }

    #[test]
    fn responses_after_the_last_whole_interval_are_not_in_the_history() {
        let mut dashboard = dashboard(Until::Requests(300));
        dashboard.interval(&interval(250, Duration::from_millis(1)));
        let rest = Interval { length: Duration::from_millis(1), ..interval(50, Duration::from_millis(1)) };
        dashboard.interval(&rest);
        assert_eq!((dashboard.history.len(), dashboard.total.requests), (1, 300));
    }

    #[test]
    fn any_window_size_is_drawn() {
        let mut dashboard = dashboard(Until::Requests(10));
        dashboard.start(Instant::now());
        for _ in 0..600 {
            dashboard.interval(&interval(1, Duration::from_millis(1)));
        }
        for (width, height) in [(0, 0), (1, 1), (7, 5), (60, 3), (600, 100)] {
            render(&dashboard, Instant::now(), width, height);
        }
    }
}

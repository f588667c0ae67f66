//! The dashboard of a running load test.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Gauge, Paragraph, RenderDirection, Sparkline, Widget, Wrap};

use crate::FailureKind;
use crate::bench::Recorder;
use crate::bench::plan::Until;
use crate::bench::prepare::Prepared;
use crate::bench::report::Config;
use crate::bench::run::Interval;
use crate::units;

/// Minimum size in characters.
pub(super) const WIDTH_MIN: u16 = 60;
pub(super) const HEIGHT_MIN: u16 = 18;

/// Number of intervals to remember: as many as the widest window shows, one per character.
const HISTORY: usize = 512;

/// The state of the dashboard.
pub(super) struct Dashboard {
    target: String,
    config: String,
    connections: u32,
    until: Until,
    warm_up: Duration,
    has_colours: bool,
    stage: Stage,
    /// The last whole interval.
    last: Option<Interval>,
    /// Responses per second and p99 in nanoseconds of each interval, the latest first.
    history: VecDeque<(u64, u64)>,
    totals: Totals,
}

/// The phase of the run.
enum Stage {
    /// Connections are being opened.
    Opening(u32, u32),
    /// Requests are sent from this time on.
    Running(Instant),
}

/// The totals of all intervals.
#[derive(Default)]
struct Totals {
    requests: u64,
    right: u64,
    wrong_status: u64,
    unexpected: u64,
    failures: [u64; FailureKind::ALL.len()],
}

impl Totals {
    fn add(&mut self, seen: &Recorder) {
        self.requests += seen.requests();
        self.right += seen.right;
        self.unexpected += seen.unexpected;
        self.wrong_status += seen.answers() - seen.right - seen.unexpected;
        for (all, more) in self.failures.iter_mut().zip(&seen.failures) {
            *all += more;
        }
    }

    /// Errors by kind: `statuses 12, read 3`.
    fn wrong(&self) -> String {
        let kinds = FailureKind::ALL.iter().zip(self.failures).map(|(kind, count)| (kind.name(), count));
        let all = [("status", self.wrong_status), ("body", self.unexpected)].into_iter().chain(kinds);
        let named: Vec<_> =
            all.filter(|(_, count)| *count > 0).map(|(name, count)| format!("{name} {count}")).collect();
        if named.is_empty() { "none".to_owned() } else { named.join(", ") }
    }
}

impl Dashboard {
    pub(super) fn new(prepared: &Prepared, has_colours: bool) -> Self {
        Self {
            target: prepared.url.to_string(),
            config: Config::new(prepared, &prepared.plan.remote).to_string(),
            connections: prepared.plan.connections.get(),
            until: prepared.plan.until,
            warm_up: prepared.plan.warm_up,
            has_colours,
            stage: Stage::Opening(0, prepared.plan.connections.get()),
            last: None,
            history: VecDeque::new(),
            totals: Totals::default(),
        }
    }

    pub(super) fn opening(&mut self, open: u32, of: u32) {
        self.stage = Stage::Opening(open, of);
    }

    pub(super) fn start(&mut self, start: Instant) {
        self.stage = Stage::Running(start);
    }

    pub(super) fn interval(&mut self, interval: &Interval) {
        self.totals.add(&interval.seen);
        // The responses after the last whole interval count in the totals only; as a rate, they would look
        // like a drop.
        if self.last.as_ref().is_some_and(|last| interval.length < last.length) {
            return;
        }
        let rate = units::per_second(interval.seen.answers(), interval.length);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a rate, drawn in eighths of a line"
        )]
        let rate = rate as u64;
        let p99 = u64::try_from(interval.seen.latency.quantile(0.99).as_nanos()).unwrap_or(u64::MAX);
        self.history.push_front((rate, p99));
        self.history.truncate(HISTORY);
        self.last = Some(interval.clone());
    }

    /// Draws the dashboard; cuts it at the bottom if the window is small.
    pub(super) fn render(&self, now: Instant, area: Rect, buffer: &mut Buffer) {
        let rows = [1, 2, 1, 1, 5, 1].map(Constraint::Length);
        let courses = [Constraint::Fill(3), Constraint::Fill(2), Constraint::Length(1)];
        let [target, config, progress, _, figures, _, rates, latencies, help] =
            Layout::vertical(rows.into_iter().chain(courses)).areas(area);
        Line::styled(self.target.as_str(), Modifier::BOLD).render(target, buffer);
        let said = Paragraph::new(self.config.as_str()).wrap(Wrap { trim: true });
        said.style(Modifier::DIM).render(config, buffer);
        let (part, said) = self.progress(now);
        let gauge = Gauge::default().ratio(part).label(said);
        gauge.gauge_style(self.style(Color::Green)).render(progress, buffer);
        Paragraph::new(self.figures()).render(figures, buffer);
        self.rates(rates, buffer);
        self.latencies(latencies, buffer);
        let line = "Ctrl-C ends the run and prints the report so far";
        Line::styled(line, Modifier::DIM).render(help, buffer);
    }

    /// The progress as a fraction and as text.
    fn progress(&self, now: Instant) -> (f64, String) {
        let start = match self.stage {
            Stage::Opening(open, of) => {
                return (0.0, format!("opening connections: {open} of {of} open"));
            }
            Stage::Running(start) => start,
        };
        let begun = now.saturating_duration_since(start);
        let Some(counted) = begun.checked_sub(self.warm_up) else {
            let left = units::duration(self.warm_up.saturating_sub(begun));
            return (0.0, format!("warming up, {left} left; not counted"));
        };
        match self.until {
            Until::Time(time) if counted < time => {
                let part = counted.as_secs_f64() / time.as_secs_f64();
                (part, format!("{} s of {}", counted.as_secs(), units::duration(time)))
            }
            Until::Time(_) => (1.0, "waiting for the last responses".to_owned()),
            Until::Requests(requests) => {
                let part = units::float(self.totals.requests) / units::float(requests.max(1));
                (part.min(1.0), format!("{} of {requests} requests", self.totals.requests))
            }
        }
    }

    fn style(&self, colour: Color) -> Style {
        if self.has_colours { Style::new().fg(colour) } else { Style::new() }
    }

    fn figures(&self) -> Vec<Line<'static>> {
        let Some(last) = &self.last else { return Vec::new() };
        let seen = &last.seen;
        let at = |quantile| units::duration(seen.latency.quantile(quantile));
        let received = units::Unit::Bytes.text(units::per_second(seen.received_bytes, last.length));
        let open = format!("{} of {}", last.open, self.connections);
        let mut rows = vec![
            self.row(
                ("requests/s", &units::digits(units::per_second(seen.answers(), last.length))),
                ("p50", &at(0.5)),
            ),
            self.row(("received/s", &format!("{received}/s")), ("p90", &at(0.9))),
            self.row(("open", &open), ("p99", &at(0.99))),
            self.row(("right", &self.totals.right.to_string()), ("p99.9", &at(0.999))),
        ];
        let lag = if seen.lag.is_empty() {
            String::new()
        } else {
            format!("   sent late at p99 {}", units::duration(seen.lag.quantile(0.99)))
        };
        let wrong = self.totals.wrong();
        let style =
            if wrong == "none" { Style::new() } else { self.style(Color::Red).add_modifier(Modifier::BOLD) };
        rows.push(Line::from(vec![label("wrong"), Span::styled(wrong, style), Span::raw(lag)]));
        rows
    }

    /// Two figures in a row with their names.
    fn row(&self, left: (&'static str, &str), right: (&'static str, &str)) -> Line<'static> {
        Line::from(vec![
            label(left.0),
            Span::styled(format!("{:<18}", left.1), self.style(Color::Cyan)),
            label(right.0),
            Span::styled(right.1.to_owned(), self.style(Color::Yellow)),
        ])
    }

    fn rates(&self, area: Rect, buffer: &mut Buffer) {
        let rates: Vec<_> = self.history.iter().map(|(rate, _)| *rate).collect();
        let say = |rate: u64| rate.to_string();
        course("requests/s", &rates, say, self.style(Color::Cyan), area, buffer);
    }

    fn latencies(&self, area: Rect, buffer: &mut Buffer) {
        let latencies: Vec<_> = self.history.iter().map(|(_, p99)| *p99).collect();
        let say = |nanoseconds| units::duration(Duration::from_nanos(nanoseconds));
        course("latency at p99", &latencies, say, self.style(Color::Yellow), area, buffer);
    }
}

/// A sparkline of an interval figure, the latest on the right, with its name and its maximum.
fn course(
    name: &str,
    figures: &[u64],
    say: impl Fn(u64) -> String,
    style: Style,
    area: Rect,
    buffer: &mut Buffer,
) {
    let shown = &figures[..figures.len().min(area.width.into())];
    let title = match shown.iter().max() {
        Some(most) => format!("{name}, up to {}", say(*most)),
        None => name.to_owned(),
    };
    let [above, below] = Layout::vertical([Constraint::Length(1), Constraint::Fill(1)]).areas(area);
    Line::styled(title, Modifier::DIM).render(above, buffer);
    let sparkline = Sparkline::default().data(shown).direction(RenderDirection::RightToLeft);
    sparkline.style(style).render(below, buffer);
}

fn label(name: &'static str) -> Span<'static> {
    Span::styled(format!("{name:<12}"), Modifier::DIM)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dashboard(until: Until) -> Dashboard {
        Dashboard {
            target: "http://127.0.0.1:8080/".to_owned(),
            config: "64 connections, 1 thread, closed loop, 10 s to 127.0.0.1:8080".to_owned(),
            connections: 64,
            until,
            warm_up: Duration::from_secs(1),
            has_colours: false,
            stage: Stage::Opening(12, 64),
            last: None,
            history: VecDeque::new(),
            totals: Totals::default(),
        }
    }

    fn second(answers: u32, latency: Duration) -> Interval {
        let mut seen = Recorder::default();
        for _ in 0..answers {
            seen.status(200);
            seen.right += 1;
            seen.latency.record(latency);
        }
        Interval { index: 0, length: Duration::from_secs(1), seen, open: 64 }
    }

    fn picture(dashboard: &Dashboard, now: Instant, width: u16, height: u16) -> Vec<String> {
        let area = Rect::new(0, 0, width, height);
        let mut buffer = Buffer::empty(area);
        dashboard.render(now, area, &mut buffer);
        let row = |y| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>().trim_end().to_owned();
        (0..height).map(row).collect()
    }

    #[test]
    fn a_run_is_seen_as_figures_and_their_course() {
        let mut dashboard = dashboard(Until::Time(Duration::from_secs(10)));
        let start = Instant::now();
        dashboard.start(start);
        dashboard.interval(&second(500, Duration::from_micros(640)));
        let mut worse = second(1000, Duration::from_micros(640));
        worse.seen.status(503);
        dashboard.interval(&worse);
        let rows = picture(&dashboard, start + Duration::from_millis(3100), 60, 18);
        let expected = [
            "http://127.0.0.1:8080/",
            "64 connections, 1 thread, closed loop, 10 s to",
            "127.0.0.1:8080",
            "████████████             2 s of 10.0 s",
            "",
            "requests/s  1,001             p50         641 µs",
            "received/s  0 B/s             p90         641 µs",
            "open        64 of 64          p99         641 µs",
            "right       1500              p99.9       641 µs",
            "wrong       status 1",
            "",
            "requests/s, up to 1001",
            "                                                           █",
            "                                                           █",
            "                                                          ██",
            "latency at p99, up to 641 µs",
        ];
        assert_eq!(rows[..3], expected[..3]);
        assert!(rows[3].contains("2 s of 10.0 s"), "{rows:#?}");
        assert_eq!(rows[4..12], expected[4..12]);
        assert!(
            rows[12].ends_with('█') && rows[13].ends_with("█"),
            "the last interval is the highest: {rows:#?}"
        );
        assert_eq!(rows[17], "Ctrl-C ends the run and prints the report so far");
    }

    #[test]
    fn it_is_said_how_far_it_has_come() {
        let mut by_time = dashboard(Until::Time(Duration::from_secs(10)));
        let start = Instant::now();
        assert_eq!(by_time.progress(start), (0.0, "opening connections: 12 of 64 open".to_owned()));
        by_time.start(start);
        let at = |dashboard: &Dashboard, ms| dashboard.progress(start + Duration::from_millis(ms));
        assert_eq!(at(&by_time, 250), (0.0, "warming up, 750 ms left; not counted".to_owned()));
        assert_eq!(at(&by_time, 6000), (0.5, "5 s of 10.0 s".to_owned()));
        assert_eq!(at(&by_time, 11_001), (1.0, "waiting for the last responses".to_owned()));
        let mut by_number = dashboard(Until::Requests(1000));
        by_number.start(start);
        by_number.interval(&second(250, Duration::from_millis(1)));
        assert_eq!(at(&by_number, 2000), (0.25, "250 of 1000 requests".to_owned()));
    }

    #[test]
    fn what_comes_after_the_last_whole_interval_is_no_dip() {
        let mut dashboard = dashboard(Until::Requests(300));
        dashboard.interval(&second(250, Duration::from_millis(1)));
        let rest = Interval { length: Duration::from_millis(1), ..second(50, Duration::from_millis(1)) };
        dashboard.interval(&rest);
        assert_eq!((dashboard.history.len(), dashboard.totals.requests), (1, 300));
    }

    #[test]
    fn no_window_is_too_small_or_too_large() {
        let mut dashboard = dashboard(Until::Requests(10));
        dashboard.start(Instant::now());
        for _ in 0..600 {
            dashboard.interval(&second(1, Duration::from_millis(1)));
        }
        for (width, height) in [(0, 0), (1, 1), (7, 5), (60, 3), (600, 100)] {
            picture(&dashboard, Instant::now(), width, height);
        }
    }
}

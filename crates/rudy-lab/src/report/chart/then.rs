//! Older and new figures on one axis.

use super::Chart;
use super::data::{Rounds, drawable, float, legend_of_dagger, slug};
use super::frame::{Axis, Frame};
use super::legend::{self, Entry, Key};
use super::mark::{Fill, Look, Shape, look, mark};
use super::sheet::{Anchor, EDGE, Sheet, WIDTH, fitted, width};
use super::table::{Table, cell};
use super::unit::Figure;
use crate::experiment::Experiment;
use crate::plan::{Load, Then};

/// An older or a new value.
#[derive(Debug, PartialEq)]
struct Row {
    name: String,
    look: Look,
    is_then: bool,
    /// `None` if all rounds failed.
    value: Option<f64>,
    /// The formatted value, or why it is missing.
    text: String,
    /// Whether it includes a suspect run.
    is_doubtful: bool,
    /// An additional remark.
    said: Option<String>,
    /// Whether it belongs to the row above.
    belongs: bool,
}

/// The height of a row.
const ROW: f64 = 22.0;

/// The maximum width of names.
const NAME_MAX: f64 = 190.0;

/// The charts of a load: one for each older figure.
pub(super) fn charts(experiment: &Experiment, load: &Load) -> Vec<Chart> {
    let plan = experiment.plan();
    let mut names: Vec<&String> =
        plan.then.iter().filter(|then| then.load == load.name).flat_map(|then| then.figures.keys()).collect();
    names.sort_unstable();
    names.dedup();
    names.into_iter().filter_map(|name| chart(experiment, &load.name, &Figure::named(name))).collect()
}

/// Each older value above that of its subject of today; new values without an older one come last.
fn rows(experiment: &Experiment, load: &str, figure: &Figure) -> Vec<Row> {
    let plan = experiment.plan();
    let mut rows = Vec::new();
    let mut left: Vec<usize> = (0..plan.subjects.len()).collect();
    for then in plan.then.iter().filter(|then| then.load == load) {
        let Some(value) = then.figures.get(&figure.name).and_then(|value| drawable(value * figure.factor))
        else {
            continue;
        };
        let subject = plan.subjects.iter().position(|subject| then.beside.as_ref() == Some(&subject.name));
        rows.push(then_row(then, subject, value, figure));
        // Two older results may belong to one subject of today, which is shown below the first of them.
        if let Some(place) = left.iter().position(|index| Some(*index) == subject) {
            left.remove(place);
            rows.extend(subject.and_then(|subject| now_row(experiment, load, figure, subject, true)));
        }
    }
    if !rows.is_empty() {
        rows.extend(left.into_iter().filter_map(|subject| now_row(experiment, load, figure, subject, false)));
    }
    rows
}

fn then_row(then: &Then, subject: Option<usize>, value: f64, figure: &Figure) -> Row {
    let class = subject.map_or("soft", |subject| look(subject).class);
    Row {
        name: then.subject.clone(),
        look: Look { class, shape: Shape::Square, is_dashed: false },
        is_then: true,
        value: Some(value),
        text: figure.unit.text(value),
        is_doubtful: false,
        said: then.said.clone(),
        belongs: false,
    }
}

/// The value of a subject; `None` if it did not run or lacks the figure.
fn now_row(
    experiment: &Experiment,
    load: &str,
    figure: &Figure,
    subject: usize,
    belongs: bool,
) -> Option<Row> {
    let name = &experiment.plan().subjects[subject].name;
    let rounds = Rounds::of(experiment, name, load, figure, false);
    let number = rounds.seen.len();
    let median = (number > 1).then(|| format!("the median of {number} rounds"));
    let said: Vec<String> = median.into_iter().chain(rounds.failures()).collect();
    (number > 0 || rounds.failed > 0).then(|| Row {
        name: name.clone(),
        look: Look { shape: Shape::Circle, ..look(subject) },
        is_then: false,
        value: rounds.median().map(|median| median.value),
        text: rounds.text(figure.unit),
        is_doubtful: rounds.is_doubtful,
        said: (!said.is_empty()).then(|| said.join(", ")),
        belongs,
    })
}

fn chart(experiment: &Experiment, load: &str, figure: &Figure) -> Option<Chart> {
    let rows = rows(experiment, load, figure);
    if rows.is_empty() {
        return None;
    }
    let source = &experiment.plan().source;
    let then = year(source).map_or("then".to_owned(), |year| format!("then, {year}"));
    let title = format!("{load}, then and now: {}", figure.title);
    let mut sheet = Sheet::new(&title);
    let plain = |shape| Look { class: "soft", shape, is_dashed: false };
    let entry = |shape, fill, name: &str| Entry { key: Key::Mark(plain(shape), fill), name: name.to_owned() };
    let is_doubtful = rows.iter().any(|row| row.value.is_some() && row.is_doubtful);
    let mut entries =
        vec![entry(Shape::Square, Fill::Hollow, &then), entry(Shape::Circle, Fill::Full, "today, median")];
    entries.extend(is_doubtful.then(|| entry(Shape::Circle, Fill::Hollow, "doubtful")));
    legend::draw(&mut sheet, &entries);
    draw(&mut sheet, &rows, figure, &then);
    let from = if source.is_empty() { String::new() } else { format!(" Then: {source}.") };
    Some(Chart {
        id: format!("then-{}-{}", slug(&figure.name), slug(load)),
        title,
        caption: format!(
            "What was shown then, and below it what the subject that it belongs to does today.{from}{}",
            legend_of_dagger(is_doubtful)
        ),
        svg: sheet.finish(),
        csv: csv(&rows, figure),
    })
}

/// The first number of four digits that can be a year.
fn year(source: &str) -> Option<&str> {
    let numbers = source.split(|character: char| !character.is_ascii_digit());
    numbers.into_iter().find(|number| number.len() == 4 && ("1960".."2100").contains(number))
}

fn draw(sheet: &mut Sheet, rows: &[Row], figure: &Figure, then: &str) {
    let axis = Axis::fitting(&figure.title, figure.unit, rows.iter().filter_map(|row| row.value));
    let widest = |texts: &mut dyn Iterator<Item = String>| texts.map(|text| width(&text)).fold(0.0, f64::max);
    let names = widest(&mut rows.iter().map(|row| fitted(&row.name, NAME_MAX)));
    let values = widest(&mut rows.iter().map(|row| row.text.clone())) + 14.0;
    let frame = Frame::rows(sheet, float(rows.len() as u64) * ROW + 4.0, &axis, names, values);
    let mut y = frame.top + ROW / 2.0 + 2.0;
    for row in rows {
        if !row.belongs && y > frame.top + ROW {
            sheet.line("grid", (EDGE, y - ROW / 2.0), (WIDTH - EDGE, y - ROW / 2.0));
        }
        if let Some(value) = row.value {
            let x = frame.x(axis.share(value));
            let stem = if row.is_then { " dots" } else { "" };
            sheet.line(&format!("line thin {}{stem}", row.look.class), (frame.left, y), (x, y));
            let fill = if row.is_then || row.is_doubtful { Fill::Hollow } else { Fill::Full };
            mark(sheet, row.look, (x, y), 4.5, fill, &tip(row, then, &figure.unit.text(value)));
        }
        let class = if row.is_then { "soft" } else { "" };
        sheet.text_in(NAME_MAX, (EDGE, y + 4.0), Anchor::Start, class, &row.name);
        sheet.text((WIDTH - EDGE, y + 4.0), Anchor::End, class, &row.text);
        y += ROW;
    }
}

fn tip(row: &Row, then: &str, value: &str) -> String {
    let when = if row.is_then { then } else { "today" };
    let doubt = row.is_doubtful.then_some("doubtful");
    let said: Vec<&str> = row.said.as_deref().into_iter().chain(doubt).collect();
    let said = if said.is_empty() { String::new() } else { format!(" ({})", said.join(", ")) };
    format!("{}, {when}: {value}{said}", row.name)
}

fn csv(rows: &[Row], figure: &Figure) -> String {
    let mut table = Table::new(&["when", "subject", &figure.name, "doubtful", "said"]);
    for row in rows {
        let when = if row.is_then { "then" } else { "today" };
        let value = cell(row.value.map(|value| value / figure.factor));
        let said = row.value.map_or(Some(&row.text), |_| row.said.as_ref());
        table.row([
            when.to_owned(),
            row.name.clone(),
            value,
            row.is_doubtful.to_string(),
            said.cloned().unwrap_or_default(),
        ]);
    }
    table.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Doubt;
    use crate::report::made;

    const PLAN: &str = "source = \"a report of 2014, on 12345 cores\"\nrounds = 3\n\
        [[subject]]\nname = \"new\"\ncommand = [\"a\"]\n[[subject]]\nname = \"other\"\ncommand = [\"b\"]\n\
        [[load]]\nname = \"l\"\nkind = \"burst\"\nrequests = 100\n\
        [[then]]\nsubject = \"Old\"\nbeside = \"new\"\nload = \"l\"\nfigures = { time_s = 106.0, errors = 35 }\nsaid = \"slow\"\n\
        [[then]]\nsubject = \"Gone\"\nload = \"l\"\nfigures = { errors = 9 }\n";

    fn of_plan() -> Vec<Chart> {
        let experiment = made::experiment(PLAN, |turn| {
            let time = if turn.subject == "new" { 4.0 } else { 5.0 };
            Some(vec![("time_s", time), ("errors", 0.0)])
        });
        charts(&experiment, &experiment.plan().loads[0])
    }

    #[test]
    fn what_was_then_stands_above_what_it_belongs_to() {
        let charts = of_plan();
        assert_eq!(
            charts.iter().map(|chart| chart.id.as_str()).collect::<Vec<_>>(),
            ["then-errors-l", "then-time-s-l"]
        );
        assert_eq!(
            charts[0].csv,
            "when,subject,errors,doubtful,said\r\nthen,Old,35,false,slow\r\n\
             today,new,0,false,the median of 3 rounds\r\nthen,Gone,9,false,\r\n\
             today,other,0,false,the median of 3 rounds\r\n"
        );
        assert!(charts[1].svg.contains("data-tip=\"Old, then, 2014: 106 s (slow)\""), "{}", charts[1].svg);
        assert!(charts[1].svg.contains("logarithmic") && !charts[0].svg.contains("logarithmic"));
    }

    #[test]
    fn what_failed_or_is_doubted_today_is_shown_as_that() {
        let mut experiment = made::experiment(PLAN, |turn| {
            (turn.subject == "new" && turn.round < 2).then(|| vec![("time_s", 4.0)])
        });
        let doubt = Doubt { sentence: "errors".to_owned(), concerns: vec!["time_s".to_owned()] };
        experiment.runs[0].doubts = vec![doubt];
        let chart = charts(&experiment, &experiment.plan().loads[0]).pop().unwrap();
        assert_eq!(
            chart.csv,
            "when,subject,time_s,doubtful,said\r\nthen,Old,106,false,slow\r\n\
             today,new,4,true,\"the median of 2 rounds, 1 of 3 rounds failed\"\r\ntoday,other,,false,failed\r\n"
        );
        assert!(chart.svg.contains(">4 s†</text>") && chart.svg.contains(">failed</text>"), "{}", chart.svg);
        let tip = "data-tip=\"new, today: 4 s (the median of 2 rounds, 1 of 3 rounds failed, doubtful)\"";
        assert!(chart.svg.contains(tip), "{}", chart.svg);
        assert_eq!(chart.svg.matches("class=\"s0 hollow\"").count(), 2, "that of then, and the doubtful one");
    }

    #[test]
    fn a_year_is_found_in_the_source() {
        for (source, expected) in [("on 12345 cores, 2014", Some("2014")), ("9999", None), ("", None)] {
            assert_eq!(year(source), expected);
        }
    }
}

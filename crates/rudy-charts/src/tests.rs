//! Documents of any data.

use proptest::prelude::*;
use rudy_units::Unit;

use crate::{
    At, Axis, Cell, Column, Dot, Fill, Flood, FloodSample, Heat, Line, Panel, Plot, Point, Row, Rows, Rule,
    Series, style, wellformed,
};

/// Numbers as a file may have them: measured, zero, tiny, huge, and none.
fn number() -> impl Strategy<Value = f64> {
    prop_oneof![
        4 => 0.0..1e6,
        1 => prop::sample::select(vec![0.0, -0.0, -1.0, 1e-300, 1e-9, 1e18, 1e300, f64::MAX]),
        1 => prop::sample::select(vec![f64::NAN, f64::INFINITY, f64::NEG_INFINITY]),
    ]
}

fn numbers() -> impl Strategy<Value = Vec<f64>> {
    prop::collection::vec(number(), 0..20)
}

/// Returns an axis of each kind around the values.
fn axes(values: &[f64]) -> [Axis; 6] {
    let all = || values.iter().copied();
    let highest = all().fold(0.0, f64::max);
    [
        Axis::linear("a & b", Unit::Bytes, highest),
        Axis::fitting("<a>", Unit::Rate, all()),
        Axis::log("a", Unit::Time, all()),
        Axis::log_between("a", Unit::Bytes, all().next().unwrap_or(1.0), highest),
        Axis::nines("a", highest),
        Axis::exact(highest),
    ]
}

/// A valid document without numbers that are none, and with all text inside.
fn check(svg: &str) -> Result<(), String> {
    wellformed::check(svg).map_err(|why| format!("{why}\n{svg}"))?;
    if svg.split(['"', ' ', ',']).any(|word| ["NaN", "inf", "-inf"].contains(&word)) {
        return Err(format!("a number that is none: {svg}"));
    }
    let is_inside = |x: &str| {
        let x = x.split('"').next().and_then(|x| x.parse::<f64>().ok());
        x.is_some_and(|x| (0.0..=340.0).contains(&x))
    };
    if svg.split(" x=\"").skip(1).all(is_inside) { Ok(()) } else { Err(format!("beside the sheet: {svg}")) }
}

fn plot(name: &str, values: &[f64], (x, y): (Axis, Axis)) -> Plot {
    let point = |(index, value): (usize, &f64)| Point {
        x: values[values.len() - 1 - index],
        y: Some(*value).filter(|value| *value != 0.0),
        each: vec![*value, 1.0],
        is_hollow: index % 2 == 0,
        tip: name.to_owned(),
    };
    let series = |index| Series {
        faint: vec![values.iter().map(|value| (*value, *value)).collect()],
        ..Series::new(name, style(index), values.iter().enumerate().map(point).collect())
    };
    let rule = |at| Rule { at, class: "line".to_owned(), label: name.to_owned() };
    let panel = Panel {
        name: name.to_owned(),
        right: Some((y.clone(), "s1")),
        lines: vec![Line {
            class: "line".to_owned(),
            axis: None,
            points: values.iter().map(|v| (*v, *v)).collect(),
        }],
        rules: values
            .iter()
            .flat_map(|value| [rule(At::X(*value)), rule(At::Y(*value, Some(x.clone())))])
            .collect(),
        columns: values.iter().map(|end| Column { end: *end, tip: name.to_owned() }).collect(),
        ..Panel::of_series(100.0, x, y, (0..10).map(series).collect())
    };
    Plot::new(name, vec![panel.clone(), panel])
}

fn flood(name: &str, values: &[f64]) -> Flood {
    let sample = |value: &f64| FloodSample {
        t_s: *value,
        planned: *value,
        open: *value,
        private_bytes: Some(*value),
        cpu_s: [(name.to_owned(), *value)].into(),
    };
    Flood {
        title: name.to_owned(),
        connections: values.first().copied().unwrap_or(0.0),
        samples: values.iter().map(sample).collect(),
    }
}

fn rows(name: &str, values: &[f64], x: Axis) -> Rows {
    let dot = |value: &f64| Dot { value: *value, place: *value, fill: Fill::Full, tip: name.to_owned() };
    let row = |note: &str| Row {
        name: name.to_owned(),
        text: "1,000/s".to_owned(),
        note: note.to_owned(),
        style: style(0),
        is_soft: false,
        is_child: false,
        line: values.first().copied(),
        dots: values.iter().map(dot).collect(),
    };
    Rows { title: name.to_owned(), legend: Vec::new(), x, rows: vec![row(""), row("1 failed")] }
}

fn heat(name: &str, values: &[f64]) -> Heat {
    let cell = |value: &f64| Cell { texts: vec![name.to_owned()], shade: Some(*value), tip: name.to_owned() };
    Heat {
        title: name.to_owned(),
        of: name.to_owned(),
        columns: vec![name.to_owned(); values.len()],
        rows: vec![(name.to_owned(), values.iter().map(cell).collect())],
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_data_gives_a_valid_document(name in "\\PC{0,40}|[\\x00-\\x40]{1,9}", values in numbers()) {
        let [first, .., last] = axes(&values);
        let others = [last, first].into_iter().chain(axes(&values));
        for (axis, y) in axes(&values).into_iter().zip(others) {
            prop_assert_eq!(check(&plot(&name, &values, (axis.clone(), y)).svg()), Ok(()));
            prop_assert_eq!(check(&rows(&name, &values, axis).svg()), Ok(()));
        }
        prop_assert_eq!(check(&heat(&name, &values).svg()), Ok(()));
        let flood = flood(&name, &values).plot().map(|plot| check(&plot.svg()));
        prop_assert_eq!(flood.unwrap_or(Ok(())), Ok(()));
    }
}

#[test]
fn a_document_stands_alone() {
    let [axis, ..] = axes(&[1.0, 2.0]);
    let svg = plot("a", &[1.0, 2.0], (axis.clone(), axis)).svg();
    assert!(svg.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 340 "), "{svg}");
    assert!(svg.contains("prefers-color-scheme: dark") && svg.contains("<rect class=\"paper\""));
    assert!(!svg.contains("http://www.w3.org/1999") && !svg.contains("<script") && !svg.contains("url("));
}

#[test]
fn a_missing_value_breaks_the_line_and_is_a_cross_at_the_top() {
    let series = |index: usize, values: [f64; 5]| {
        let point = |(x, value): (f64, f64)| Point {
            x,
            y: Some(value).filter(|value| *value > 0.0),
            tip: format!("{index}: {}", if value > 0.0 { "measured" } else { "failed" }),
            ..Point::default()
        };
        Series::new("s", style(index), [1.0, 2.0, 3.0, 4.0, 5.0].into_iter().zip(values).map(point).collect())
    };
    let series = vec![series(0, [1.0, 2.0, 0.0, 4.0, 5.0]), series(1, [1.0, 2.0, 0.0, 0.0, 5.0])];
    let (x, y) = (Axis::linear("n", Unit::Count, 5.0), Axis::linear("t", Unit::Time, 9.0));
    let svg = Plot {
        title: "t".to_owned(),
        legend: Vec::new(),
        panels: vec![Panel::of_series(100.0, x, y, series)],
    }
    .svg();
    assert_eq!(svg.matches("<polyline class=\"line s0\"").count(), 2, "before and after");
    assert_eq!(svg.matches("<polyline class=\"line s1\"").count(), 1, "one point is no line");
    assert_eq!(svg.matches("data-tip=\"1: failed\"").count(), 2);
}

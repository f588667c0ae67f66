//! Parses plain metrics.

use std::collections::BTreeMap;

use super::super::Measurement;

/// Parses lines with a name and a number, such as `time_s 0.0123`.
pub(super) fn read(text: &str) -> Result<Measurement, String> {
    let mut metrics = BTreeMap::new();
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        let (name, value) = metric(line).ok_or_else(|| {
            format!("it printed {line:?} instead of a name and a number, as in `time_s 0.5`")
        })?;
        if metrics.insert(name.to_owned(), value).is_some() {
            return Err(format!("it printed {name} more than once"));
        }
    }
    if metrics.is_empty() {
        return Err(
            "it printed no metric: expected a line with a name and a number, as in `time_s 0.5`".to_owned()
        );
    }
    Ok(Measurement { metrics, ..Measurement::default() })
}

fn metric(line: &str) -> Option<(&str, f64)> {
    let mut words = line.split_ascii_whitespace();
    let (name, value, None) = (words.next()?, words.next()?, words.next()) else { return None };
    let is_name = name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_');
    let value = value.parse().ok().filter(|value: &f64| value.is_finite())?;
    is_name.then_some((name, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_is_a_name_and_a_number() {
        let measurement = read("time_s 0.25\n\n  cpu_s\t1e-3 \n").unwrap();
        assert_eq!(
            measurement.metrics,
            BTreeMap::from([("time_s".to_owned(), 0.25), ("cpu_s".to_owned(), 0.001)])
        );
    }

    #[test]
    fn a_line_without_a_metric_is_an_error() {
        for (text, expected) in [
            ("", "no metric"),
            ("time_s\n", "\"time_s\""),
            ("time_s NaN\n", "NaN"),
            ("time_s 1 s\n", "1 s"),
            ("Time 1\n", "Time 1"),
            ("a 1\na 2\n", "a more than once"),
        ] {
            let why = read(text).expect_err(text);
            assert!(why.contains(expected), "{text}: {why}");
        }
    }
}

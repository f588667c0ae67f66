//! Parses JSON, such as the output of `rudy conns --watch --json` and `rudy top --json`.

use std::collections::BTreeMap;

use serde_json::Value;

use super::super::Measurement;

/// Maximum number of metrics. A report with one number per thread would otherwise become a table of thousands.
const METRICS_MAX: usize = 200;

/// Numbers at the top level that measure nothing: the process and the time of a sample.
const IDENTIFIERS: [&str; 2] = ["pid", "time_ms"];

/// Reads the numbers of the last of one or several values, one per line or spread over lines. The name of a metric is its
/// path: `{"tcp": {"close_wait": 3}}` is `tcp_close_wait`. `true` is 1; text, lists,
/// null and [`IDENTIFIERS`] are ignored.
pub(super) fn read(text: &str) -> Result<Measurement, String> {
    let mut last = None;
    for value in serde_json::Deserializer::from_str(text).into_iter::<Value>() {
        last = Some(value.map_err(|error| format!("its output is not JSON: {error}"))?);
    }
    let mut metrics = BTreeMap::new();
    if let Some(value) = &last {
        collect(value, "", &mut metrics);
    }
    metrics.retain(|name, _| !IDENTIFIERS.contains(&name.as_str()));
    if metrics.is_empty() {
        return Err("it printed no JSON object with a number, as in `{\"descriptors\": 12}`".to_owned());
    }
    if metrics.len() > METRICS_MAX {
        let count = metrics.len();
        return Err(format!(
            "its JSON has {count} numbers; expected at most {METRICS_MAX}: select some with jq"
        ));
    }
    Ok(Measurement { metrics, ..Measurement::default() })
}

fn collect(value: &Value, path: &str, metrics: &mut BTreeMap<String, f64>) {
    match value {
        Value::Object(object) => {
            for (key, value) in object {
                let key = plain(key);
                let path = if path.is_empty() { key } else { format!("{path}_{key}") };
                collect(value, &path, metrics);
            }
        }
        _ if path.is_empty() => {}
        Value::Bool(is_so) => drop(metrics.insert(path.to_owned(), f64::from(u8::from(*is_so)))),
        other => metrics.extend(other.as_f64().map(|number| (path.to_owned(), number))),
    }
}

/// The characters that a metric's name may have.
fn plain(key: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '_' };
    key.chars().map(plain).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_of_the_last_value_are_metrics_by_their_path() {
        let text = "{\"descriptors\": 5}\n{\"pid\": 4711, \"time_ms\": 1763900000000, \"descriptors\": 18, \"tcp\": {\"CLOSE-WAIT\": {\"sockets\": 3}},\n \
                    \"name\": \"a\", \"leaks\": true, \"none\": null, \"list\": [1]}\n";
        let expected = [("descriptors", 18.0), ("leaks", 1.0), ("tcp_close_wait_sockets", 3.0)];
        let expected = expected.map(|(name, value)| (name.to_owned(), value));
        assert_eq!(read(text).unwrap().metrics, BTreeMap::from(expected));
    }

    #[test]
    fn output_without_a_number_or_with_too_many_is_an_error() {
        let many: serde_json::Map<_, _> = (0..201).map(|n| (n.to_string(), n.into())).collect();
        for (text, expected) in [
            ("", "no JSON object with a number"),
            ("3", "no JSON object with a number"),
            ("descriptors 5", "is not JSON"),
            (&Value::Object(many).to_string(), "201 numbers"),
        ] {
            let why = read(text).unwrap_err();
            assert!(why.contains(expected), "{why}");
        }
    }
}

//! The text formats of Prometheus: version 0.0.4, and `OpenMetrics` 1.0.0.

use std::fmt::{Display, Write};

/// The format of the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Version 0.0.4.
    Prometheus,
    /// `OpenMetrics` 1.0.0.
    OpenMetrics,
}

impl Format {
    /// Returns the format for a client with this value of `Accept`.
    #[must_use]
    pub fn accepted(accept: &[u8]) -> Self {
        let is_open = accept.windows(OPEN_METRICS.len()).any(|part| part == OPEN_METRICS.as_bytes());
        if is_open { Self::OpenMetrics } else { Self::Prometheus }
    }

    /// Returns the media type.
    #[must_use]
    pub fn media_type(self) -> &'static str {
        match self {
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

const OPEN_METRICS: &str = "application/openmetrics-text";

/// The type of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Counter,
    Gauge,
    Histogram,
}

/// The text in the making.
pub(super) struct Exposition {
    text: String,
    format: Format,
}

/// The labels of a sample.
pub(super) type Labels<'a> = &'a [(&'a str, &'a str)];

impl Exposition {
    pub(super) fn new(format: Format) -> Self {
        Self { text: String::with_capacity(64 * 1024), format }
    }

    /// Begins a metric. The name of a counter ends in `_total`. All its samples come next.
    pub(super) fn begin(&mut self, name: &str, kind: Kind, help: &str) {
        let family = match self.format {
            Format::OpenMetrics => name.strip_suffix("_total").unwrap_or(name),
            Format::Prometheus => name,
        };
        let kind = match kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        };
        self.put(format_args!("# HELP {family} {help}\n# TYPE {family} {kind}\n"));
    }

    /// Adds a metric with one sample without labels.
    pub(super) fn single(&mut self, name: &str, kind: Kind, help: &str, value: impl Display) {
        self.begin(name, kind, help);
        self.sample(name, &[], value);
    }

    /// Adds a sample.
    pub(super) fn sample(&mut self, name: &str, labels: Labels<'_>, value: impl Display) {
        self.text.push_str(name);
        self.labels(labels, None);
        self.put(format_args!(" {value}\n"));
    }

    /// Adds a histogram. `counts` has the number of values up to each bound that are above the one before, and those above all.
    pub(super) fn histogram(
        &mut self,
        name: &str,
        labels: Labels<'_>,
        bounds: &[f64],
        counts: &[u64],
        sum: f64,
    ) {
        let mut total = 0;
        for (index, count) in counts.iter().enumerate() {
            total += count;
            let bound = bounds.get(index).map_or_else(|| "+Inf".to_owned(), |bound| format!("{bound:?}"));
            self.put(format_args!("{name}_bucket"));
            self.labels(labels, Some(&bound));
            self.put(format_args!(" {total}\n"));
        }
        for (part, value) in [("sum", &sum as &dyn Display), ("count", &total)] {
            self.put(format_args!("{name}_{part}"));
            self.labels(labels, None);
            self.put(format_args!(" {value}\n"));
        }
    }

    /// Returns the text.
    pub(super) fn finish(mut self) -> String {
        if self.format == Format::OpenMetrics {
            self.text.push_str("# EOF\n");
        }
        self.text
    }

    fn labels(&mut self, labels: Labels<'_>, bound: Option<&str>) {
        let labels = labels.iter().copied().chain(bound.map(|bound| ("le", bound)));
        let mut before = '{';
        for (name, value) in labels {
            self.text.push(before);
            before = ',';
            self.put(format_args!("{name}=\""));
            for letter in value.chars() {
                match letter {
                    '\\' | '"' => self.text.extend(['\\', letter]),
                    '\n' => self.text.push_str("\\n"),
                    letter => self.text.push(letter),
                }
            }
            self.text.push('"');
        }
        if before == ',' {
            self.text.push('}');
        }
    }

    fn put(&mut self, text: std::fmt::Arguments<'_>) {
        self.text.write_fmt(text).expect("writing to a String cannot fail");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(format: Format) -> String {
        let mut text = Exposition::new(format);
        text.begin("a_requests_total", Kind::Counter, "Requests.");
        text.sample("a_requests_total", &[("site", "a\"b\\c\nd"), ("status", "2xx")], 7);
        text.single("a_size_bytes", Kind::Gauge, "Size.", 1.5);
        text.begin("a_seconds", Kind::Histogram, "Time.");
        text.histogram("a_seconds", &[("site", "a")], &[0.001, 1.0], &[1, 0, 2], 2.5);
        text.finish()
    }

    #[test]
    fn the_text_has_names_types_labels_and_values() {
        assert_eq!(
            text(Format::Prometheus),
            "# HELP a_requests_total Requests.\n# TYPE a_requests_total counter\n\
             a_requests_total{site=\"a\\\"b\\\\c\\nd\",status=\"2xx\"} 7\n\
             # HELP a_size_bytes Size.\n# TYPE a_size_bytes gauge\na_size_bytes 1.5\n\
             # HELP a_seconds Time.\n# TYPE a_seconds histogram\n\
             a_seconds_bucket{site=\"a\",le=\"0.001\"} 1\na_seconds_bucket{site=\"a\",le=\"1.0\"} 1\n\
             a_seconds_bucket{site=\"a\",le=\"+Inf\"} 3\na_seconds_sum{site=\"a\"} 2.5\na_seconds_count{site=\"a\"} 3\n"
        );
    }

    #[test]
    fn open_metrics_has_names_without_suffix_and_an_end() {
        let text = text(Format::OpenMetrics);
        assert!(
            text.starts_with("# HELP a_requests Requests.\n# TYPE a_requests counter\na_requests_total{")
        );
        assert!(text.ends_with("\n# EOF\n"));
        assert_eq!(
            Format::accepted(b"application/openmetrics-text;version=1.0.0,text/plain"),
            Format::OpenMetrics
        );
        assert_eq!(Format::accepted(b"*/*"), Format::Prometheus);
    }
}

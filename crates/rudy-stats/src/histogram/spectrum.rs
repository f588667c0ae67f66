//! The full distribution as text, in the layout of wrk2, which `HdrHistogram` plotters read.

use std::fmt::Write;

use super::Histogram;

/// Lines per halving of the remaining fraction, as in wrk2 and the Java implementation.
const LINES_PER_HALVING: u32 = 5;

impl Histogram {
    /// The distribution as a `.hgrm` text, in **milliseconds** (to the nanosecond), as plotters expect.
    ///
    /// The layout is that of `outputPercentileDistribution` in `HdrHistogram`'s reference implementation.
    #[must_use]
    pub fn to_hgrm(&self) -> String {
        let mut text = format!(
            "{:>12} {:>14} {:>10} {:>14}\n\n",
            "Value", "Percentile", "TotalCount", "1/(1-Percentile)"
        );
        let mut cumulative_count = 0;
        for line in self.counts.iter_quantiles(LINES_PER_HALVING) {
            cumulative_count += line.count_since_last_iteration();
            push_line(
                &mut text,
                milliseconds(line.value_iterated_to()),
                line.quantile_iterated_to(),
                cumulative_count,
            );
        }
        self.push_footer(&mut text);
        text
    }

    fn push_footer(&self, text: &mut String) {
        let (mean, stdev) = (self.mean().as_secs_f64() * 1e3, self.stdev().as_secs_f64() * 1e3);
        let footer = format!(
            "#[Mean    = {mean:12.3}, StdDeviation   = {stdev:12.3}]\n\
             #[Max     = {:12.3}, Total count    = {:12}]\n\
             #[Buckets = {:12}, SubBuckets     = {:12}]\n",
            self.max().as_secs_f64() * 1e3,
            self.len(),
            self.counts.buckets(),
            2048,
        );
        text.push_str(&footer);
    }
}

fn push_line(text: &mut String, value_ms: f64, quantile: f64, cumulative_count: u64) {
    let left = 1.0 - quantile;
    // Writing to a `String` does not fail.
    let _ = if left > 0.0 {
        writeln!(text, "{value_ms:12.6} {quantile:14.12} {cumulative_count:10} {:14.2}", 1.0 / left)
    } else {
        writeln!(text, "{value_ms:12.6} {quantile:14.12} {cumulative_count:10}")
    };
}

#[expect(clippy::cast_precision_loss, reason = "a value has three digits, and is below 2^53")]
fn milliseconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e6
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_spectrum_has_the_columns_and_the_footer_of_hgrm_files() {
        let mut histogram = Histogram::new();
        histogram.record_n(Duration::from_millis(1), 3);
        histogram.record(Duration::from_millis(2));
        let expected = concat!(
            "       Value     Percentile TotalCount 1/(1-Percentile)\n",
            "\n",
            "    1.000447 0.000000000000          3           1.00\n",
        );
        let text = histogram.to_hgrm();
        assert!(text.starts_with(expected), "{text}");
        let last = text.lines().rev().nth(3).unwrap();
        assert_eq!(last, "    2.000895 1.000000000000          4");
        let footer: Vec<_> = text.lines().filter(|line| line.starts_with('#')).collect();
        assert_eq!(footer[0], "#[Mean    =        1.250, StdDeviation   =        0.433]");
        assert_eq!(footer[1], "#[Max     =        2.001, Total count    =            4]");
        assert_eq!(footer[2], "#[Buckets =           32, SubBuckets     =         2048]");
    }

    #[test]
    fn each_line_has_a_cumulative_count() {
        let mut histogram = Histogram::new();
        (1..=10_000).for_each(|value| histogram.record(Duration::from_micros(value)));
        let text = histogram.to_hgrm();
        let rows: Vec<Vec<f64>> = text
            .lines()
            .skip(2)
            .filter(|line| !line.starts_with('#'))
            .map(|line| line.split_whitespace().map(|column| column.parse().unwrap()).collect())
            .collect();
        assert!(rows.is_sorted_by(|a, b| a[0] <= b[0] && a[1] <= b[1] && a[2] <= b[2]), "{text}");
        for row in &rows {
            assert!(row[2] >= (row[1] * 10_000.0).floor(), "{row:?}");
        }
        assert_eq!(rows.last().unwrap()[1..], [1.0, 10_000.0]);
    }

    #[test]
    fn an_empty_histogram_has_a_head_and_a_footer() {
        let text = Histogram::new().to_hgrm();
        assert!(text.contains("Total count    =            0]"), "{text}");
    }
}

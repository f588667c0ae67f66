//! Formats numbers without a unit, with separators between their thousands.

/// An exact count: `1,234,567`.
#[must_use]
pub fn count(count: u64) -> String {
    separated(&count.to_string())
}

/// A number without a unit, with three digits; small whole numbers have no decimals: `35`, `0.256`, `4,321`, `61,100`.
#[must_use]
pub fn digits(value: f64) -> String {
    let size = value.abs();
    if size < 100.0 && (value - value.round()).abs() < 1e-9 {
        return format!("{value:.0}");
    }
    match size {
        s if s < 0.0995 => small(value),
        s if s < 0.9995 => format!("{value:.3}"),
        s if s < 999.5 => three(value),
        s if s < 9999.5 => grouped(value),
        _ => {
            let decade = 10_f64.powf(size.log10().floor() - 2.0);
            grouped((value / decade).round() * decade)
        }
    }
}

/// Three digits of a number below 0.1, without trailing zeros: `0.0133`, `0.05`.
fn small(value: f64) -> String {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped")]
    let decimals = (2.0 - value.abs().log10().floor()).clamp(0.0, 12.0) as usize;
    trimmed(&format!("{value:.decimals$}"))
}

/// Three digits from 1 to 999, more above, fewer below: `9.99`, `10.0`, `1,023`, `0.25`.
pub(crate) fn three(value: f64) -> String {
    match value.abs() {
        size if size < 9.995 => format!("{value:.2}"),
        size if size < 99.95 => format!("{value:.1}"),
        _ => grouped(value),
    }
}

/// A round number with as many decimals as it has.
#[must_use]
pub fn round(value: f64) -> String {
    if value.abs() >= 999.5 {
        return grouped(value);
    }
    trimmed(&format!("{value:.6}"))
}

/// Without the trailing zeros of a decimal number.
fn trimmed(decimal: &str) -> String {
    decimal.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// A number without decimals: `1,234,567`.
#[must_use]
pub fn grouped(value: f64) -> String {
    separated(&format!("{value:.0}"))
}

/// Inserts thousands separators into an integer.
fn separated(integer: &str) -> String {
    let (sign, digits) = integer.strip_prefix('-').map_or(("", integer), |digits| ("-", digits));
    let mut text = sign.to_owned();
    for (index, digit) in digits.char_indices() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_separators() {
        assert_eq!([count(7), count(999), count(1000)], ["7", "999", "1,000"]);
        assert_eq!(count(1_234_567), "1,234,567");
        assert_eq!(grouped(-1234.4), "-1,234");
    }
}

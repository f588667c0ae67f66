//! Assertions that many tests share.

/// Asserts that a text contains each of these parts.
#[macro_export]
macro_rules! assert_contains {
    ($text:expr, $($part:expr),+ $(,)?) => {{
        let text = &$text;
        $(assert!(text.contains($part), "{:?} is not in: {text}", $part);)+
    }};
}

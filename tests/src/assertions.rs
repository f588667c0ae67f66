//! Assertions that many tests share.

/// Asserts that a text contains each of these parts.
#[macro_export]
macro_rules! assert_contains {
    ($text:expr, $($part:expr),+ $(,)?) => {{
        let text = &$text;
        $(assert!(text.contains($part), "{:?} is not in: {text}", $part);)+
    }};
}

/// Asserts that a JSON object has these members: `assert_members!(report, "requests": 3, "is_complete": true)`.
#[macro_export]
macro_rules! assert_members {
    ($object:expr, $($name:literal: $value:expr),+ $(,)?) => {{
        let object = &$object;
        $(assert_eq!(object[$name], $value, "{:?} of {object}", $name);)+
    }};
}

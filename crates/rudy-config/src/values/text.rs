//! Values written as text.

/// Implements [`Setting`](crate::Setting) for a type with `FromStr`, whose error is the expected value, and `Display`: what it is in
/// messages, then its description. With `or_integer`, an integer is read as its text.
#[macro_export]
macro_rules! written_as_text {
    ($type:ident, $what:literal, {
        doc: $doc:literal, $(pattern: $pattern:literal,)? examples: [$($example:literal),+ $(,)?] $(,)?
    }) => {
        $crate::written_as_text!(@ $type, $doc, [$($pattern)?], [$($example)+], [Text], |value| value.parse($what));
    };
    ($type:ident, $what:literal, {
        doc: $doc:literal, $(pattern: $pattern:literal,)? examples: [$($example:literal),+ $(,)?], or_integer $(,)?
    }) => {
        $crate::written_as_text!(@ $type, $doc, [$($pattern)?], [$($example)+], [Text, Integer], |value| value
            .parse_or_integer($what));
    };
    (@ $type:ident, $doc:literal, [$($pattern:literal)?], [$($example:literal)+], [$($kind:ident),+], |$value:ident| $read:expr) => {
        impl $crate::Setting for $type {
            const SHAPE: $crate::Shape = $crate::Shape::Named(&$crate::Named {
                name: stringify!($type),
                doc: $doc,
                kinds: &[$($crate::Kind::$kind),+],
                pattern: $crate::written_as_text!(@ option $($pattern)?),
                examples: &[$(stringify!($example)),+],
            });

            fn read($value: &$crate::Value<'_>) -> Result<Self, $crate::Invalid> {
                $read
            }

            fn written(&self) -> Option<String> {
                Some(format!("\"{self}\""))
            }
        }
    };
    (@ option) => { None };
    (@ option $value:literal) => { Some($value) };
}

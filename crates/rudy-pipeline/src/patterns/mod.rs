//! Patterns of paths, and texts with placeholders for what they match.

mod path;
pub mod template;

pub use self::path::PathPattern;

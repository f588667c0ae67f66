//! Patterns of paths, and texts with placeholders for what they match.

mod maps;
mod path;
mod target;
pub mod template;

pub use self::maps::{MapTable, Maps};
pub use self::path::PathPattern;

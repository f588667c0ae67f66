//! The reader of configurations: TOML into types with serde, all problems at once, each with its place and advice; and the values
//! that many tables share. It knows no table: those are beside what they configure, and rudy-server gives their advice as [`Hints`].

mod diagnostics;
mod fields;
mod files;
mod hints;
mod nearest;
mod or_off;
mod placeholders;
mod read;
mod values;
mod variables;

pub use diagnostics::{Diagnostics, Location, Problem, Sources};
pub use fields::{FieldName, Fields, HeaderFieldName, field_table, field_value};
pub use files::Files;
pub use hints::{Hints, missing};
pub use or_off::OrOff;
pub use placeholders::Placeholders;
pub use read::{from_text, marker, two_lines};
pub use values::{Command, FilePath, Int, Located, OneOrMany, TextVisitor, add_short_form, count};

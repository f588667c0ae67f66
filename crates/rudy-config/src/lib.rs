//! The reader of configurations: TOML into types in one pass, all problems at once, each with its place and advice; and the values
//! that many tables share. It knows no table: those are beside what they configure, and rudy-server gives their advice as [`Hints`].

#[cfg(test)]
extern crate self as rudy_config;

mod diagnostics;
mod fields;
mod files;
mod hints;
mod includes;
mod invalid;
mod location;
mod nearest;
mod or_off;
mod placeholders;
mod read;
mod schema;
mod shape;
mod sources;
mod text;
mod values;
mod variables;

pub use diagnostics::{Diagnostics, Problem};
pub use fields::{FieldName, FieldValue, Fields, HeaderFieldName, field_table};
pub use files::Files;
pub use hints::{Hints, missing};
pub use invalid::InvalidValues;
pub use location::Location;
pub use or_off::OrOff;
pub use placeholders::Placeholders;
pub use read::{Choice, Invalid, Located, Setting, Table, TableReader, Value, Words, from_text, two_lines};
pub use rudy_config_derive::{Table, Words};
pub use schema::json_schema;
pub use shape::{Key, Kind, Member, Named, Shape, TableInfo, Word};
pub use sources::Sources;
pub use values::{Command, FilePath, Int, Maximum, OneOrMany, WordList};

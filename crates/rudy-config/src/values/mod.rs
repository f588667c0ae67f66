//! Types of values that many tables have.

mod int;
mod list;
mod path;
mod text;
mod units;

pub use int::{Int, Maximum};
pub use list::{OneOrMany, WordList};
pub use path::Command;
pub use path::FilePath;

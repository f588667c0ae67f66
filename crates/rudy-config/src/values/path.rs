//! Paths relative to the folder of their file, and programs.

use std::ops::Deref;
use std::path::{Path, PathBuf};

use super::list::EMPTY_LIST;
use crate::read::{Invalid, Setting, Value};
use crate::shape::Shape;

/// A path, not empty, relative to the folder of the configuration file.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct FilePath(pub PathBuf);

impl Deref for FilePath {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.0
    }
}

impl AsRef<Path> for FilePath {
    fn as_ref(&self) -> &Path {
        &self.0
    }
}

impl<T: Into<PathBuf>> From<T> for FilePath {
    fn from(path: T) -> Self {
        Self(path.into())
    }
}

impl From<FilePath> for Option<PathBuf> {
    fn from(path: FilePath) -> Self {
        Some(path.0)
    }
}

impl Setting for FilePath {
    const SHAPE: Shape = Shape::Text { is_required: true };

    fn read(value: &Value<'_>) -> Result<Self, Invalid> {
        value.path(false).map(Self)
    }
}

/// A program and its arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command(pub Vec<String>);

impl Setting for Command {
    const SHAPE: Shape = Shape::List(&String::SHAPE, 1);

    fn read(value: &Value<'_>) -> Result<Self, Invalid> {
        let mut words: Vec<String> = value.list()?;
        let elements = value.elements().unwrap_or_default();
        let Some(program) = elements.first() else { return value.invalid(EMPTY_LIST) };
        words[0] = program.path(true)?.to_string_lossy().into_owned();
        Ok(Self(words))
    }
}

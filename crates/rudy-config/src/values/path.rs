//! Paths relative to the folder of their file, and programs.

use std::ffi::OsStr;
use std::fmt;
use std::ops::Deref;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use schemars::json_schema;
use serde::Deserialize;
use serde::de::{Deserializer, Error, SeqAccess, Visitor};

use super::list::empty_list;
use crate::read::marker;

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

impl<'de> Deserialize<'de> for FilePath {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_newtype_struct(marker::PATH, Paths).map(Self)
    }
}

/// Visits the values of [`marker::PATH`] and [`marker::PROGRAM`].
struct Paths;

impl Visitor<'_> for Paths {
    type Value = PathBuf;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a path")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<PathBuf, E> {
        Ok(text.into())
    }

    fn visit_bytes<E: Error>(self, path: &[u8]) -> Result<PathBuf, E> {
        Ok(OsStr::from_bytes(path).into())
    }
}

inline_schema!([] FilePath, |_generator| {
    json_schema!({ "type": "string", "minLength": 1 })
});

/// A program and its arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command(pub Vec<String>);

impl<'de> Deserialize<'de> for Command {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Program(PathBuf);

        impl<'de> Deserialize<'de> for Program {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.deserialize_newtype_struct(marker::PROGRAM, Paths).map(Self)
            }
        }

        struct Words;

        impl<'de> Visitor<'de> for Words {
            type Value = Command;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut words: A) -> Result<Command, A::Error> {
                let Some(Program(program)) = words.next_element()? else { return Err(empty_list()) };
                let mut command = vec![program.to_string_lossy().into_owned()];
                while let Some(word) = words.next_element()? {
                    command.push(word);
                }
                Ok(Command(command))
            }
        }

        deserializer.deserialize_seq(Words)
    }
}

inline_schema!([] Command, |_generator| {
    json_schema!({ "type": "array", "items": { "type": "string" }, "minItems": 1 })
});

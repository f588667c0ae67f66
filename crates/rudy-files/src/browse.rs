//! Whether folders are listed, and with which template.

use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use rudy_config::{FilePath, inline_schema, marker};
use schemars::json_schema;
use serde::Deserialize;
use serde::de::{Deserializer, Error, Visitor};

/// Whether folders without an index file are listed: `true`, `false`, or the file of a template.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub enum Browse {
    /// They get 404.
    #[default]
    Off,
    /// They are listed.
    On,
    /// They are listed with a template of their own.
    Template(FilePath),
}

impl Browse {
    pub(super) fn is_on(&self) -> bool {
        *self != Self::Off
    }

    /// The file of the template.
    pub(super) fn template(&self) -> Option<&Path> {
        match self {
            Self::Template(file) => Some(file),
            Self::Off | Self::On => None,
        }
    }
}

impl From<bool> for Browse {
    fn from(is_on: bool) -> Self {
        if is_on { Self::On } else { Self::Off }
    }
}

impl<'de> Deserialize<'de> for Browse {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Setting;

        impl Visitor<'_> for Setting {
            type Value = Browse;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("true, false or the file of a template (\"listing.html\")")
            }

            fn visit_bool<E: Error>(self, is_on: bool) -> Result<Browse, E> {
                Ok(is_on.into())
            }

            fn visit_bytes<E: Error>(self, path: &[u8]) -> Result<Browse, E> {
                Ok(Browse::Template(FilePath(std::ffi::OsStr::from_bytes(path).into())))
            }
        }

        deserializer.deserialize_newtype_struct(marker::SHORT_PATH, Setting)
    }
}

inline_schema!([] Browse, |_generator| {
    json_schema!({ "anyOf": [{ "type": "boolean" }, { "type": "string", "minLength": 1 }] })
});

/// The text of a template. Folders with another text do not share their caches.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ListingTemplate(pub(super) Arc<str>);

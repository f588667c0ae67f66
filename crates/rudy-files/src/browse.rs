//! Whether folders are listed, and with which template.

use std::path::Path;
use std::sync::Arc;

use rudy_config::{FilePath, Invalid, Setting, Shape, Value};

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

impl Setting for Browse {
    const SHAPE: Shape = Shape::Either(&[&Shape::Boolean, &FilePath::SHAPE]);

    fn read(value: &Value<'_>) -> Result<Self, Invalid> {
        match value.boolean() {
            Some(is_on) => Ok(is_on.into()),
            None if value.may_be::<FilePath>() => FilePath::read(value).map(Self::Template),
            None => value.expected("true, false or the file of a template (\"listing.html\")"),
        }
    }

    fn written(&self) -> Option<String> {
        (*self == Self::Off).then(|| "false".to_owned())
    }
}

/// The text of a template. Folders with another text do not share their caches.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ListingTemplate(pub(super) Arc<str>);

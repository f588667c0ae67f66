//! The fields that an authorizer sets.

use http::HeaderName;
use rudy_config::{FieldName, HeaderFieldName, Invalid, OneOrMany, Setting, Shape, Value};

/// A list of names, or a table of other names by those of the authorizer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopiedFields(pub(super) Vec<Copied>);

/// A field that is copied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Copied {
    /// The name in the response of the authorizer.
    pub(super) from: HeaderName,
    /// The name in the request.
    pub(super) to: HeaderName,
}

impl Copied {
    /// A field that keeps its name.
    pub(super) fn same(name: HeaderName) -> Self {
        Self { from: name.clone(), to: name }
    }
}

impl Setting for CopiedFields {
    const SHAPE: Shape =
        Shape::Either(&[&<OneOrMany<HeaderFieldName, 0>>::SHAPE, &Shape::Map(&HeaderFieldName::SHAPE, None)]);

    fn read(value: &Value<'_>) -> Result<Self, Invalid> {
        if value.is_table() {
            let entries = value.entries::<FieldName, HeaderFieldName>()?.into_iter();
            let entry = |(FieldName(_, from), HeaderFieldName(to))| Copied { from, to };
            return Ok(Self(entries.map(entry).collect()));
        }
        let names: OneOrMany<HeaderFieldName, 0> = Setting::read(value)?;
        Ok(Self(names.as_slice().iter().map(|name| Copied::same(name.0.clone())).collect()))
    }
}

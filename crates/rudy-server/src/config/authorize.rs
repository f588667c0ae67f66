//! The table of an app that says who may come in.

use std::collections::BTreeMap;
use std::path::Path;

use schemars::JsonSchema;
use serde::Deserialize;

use super::AppTable;

/// An app that speaks FastCGI in the role of an authorizer.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct AuthorizeTable {
    /// The app.
    #[serde(flatten)]
    pub app: AppTable,
    /// Variables that the app is told in addition, or instead of what it would be told.
    pub params: BTreeMap<String, String>,
}

impl AuthorizeTable {
    /// Where paths are relative to `folder`, they are no longer.
    pub(super) fn resolve(&mut self, folder: &Path) {
        self.app.resolve(folder);
    }
}

/// Whom a route asks, in place of whom its site asks.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum RouteAuthorize {
    /// `false`: nobody.
    Nobody(#[schemars(extend("const" = false))] bool),
    /// This app.
    App(Box<AuthorizeTable>),
}

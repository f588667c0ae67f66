//! The table of a FastCGI authorizer.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;

use super::AppTable;

/// A FastCGI authorizer: an app that allows or denies each request.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct AuthorizeTable {
    /// The app.
    #[serde(rename = "$app")]
    #[schemars(flatten)]
    pub app: AppTable,
    /// Additional FastCGI parameters. A parameter of the same name as a standard one replaces it.
    #[schemars(extend("examples" = [{ "REALM": "staff" }]))]
    pub params: BTreeMap<String, String>,
}

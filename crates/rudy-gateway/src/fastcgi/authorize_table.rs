//! The table of a FastCGI authorizer.

use std::collections::BTreeMap;

use rudy_config::Table;

use super::AppTable;

/// A FastCGI authorizer: an app that allows or denies each request.
#[derive(Debug, Clone, PartialEq, Eq, Table)]
#[setting(default)]
pub struct AuthorizeTable {
    /// The app.
    #[setting(part)]
    pub app: AppTable,
    /// Additional FastCGI parameters. A parameter of the same name as a standard one replaces it.
    #[setting(example = { REALM = "staff" })]
    pub params: BTreeMap<String, String>,
}

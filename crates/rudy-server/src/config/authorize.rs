//! The table of a FastCGI authorizer.

use std::collections::BTreeMap;
use std::fmt;

use schemars::{JsonSchema, json_schema};
use serde::Deserialize;
use serde::de::{Deserializer, Error, Visitor};

use super::AppTable;
use super::read::{marker, two_lines};
use super::values::inline_schema;

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

/// The authorizer of a route, instead of the one of the site.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RouteAuthorize {
    /// `false`: no authorization.
    None,
    /// An app.
    App(Box<AuthorizeTable>),
}

impl<'de> Deserialize<'de> for RouteAuthorize {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Switch;

        impl<'de> Visitor<'de> for Switch {
            type Value = RouteAuthorize;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a table or false")
            }

            fn visit_bool<E: Error>(self, is_on: bool) -> Result<RouteAuthorize, E> {
                if is_on {
                    let label = "expected a table with the address of the app, or `false`";
                    return Err(E::custom(two_lines("`true` is not an authorizer", label)));
                }
                Ok(RouteAuthorize::None)
            }

            fn visit_newtype_struct<D: Deserializer<'de>>(
                self,
                table: D,
            ) -> Result<RouteAuthorize, D::Error> {
                AuthorizeTable::deserialize(table).map(|table| RouteAuthorize::App(Box::new(table)))
            }
        }

        deserializer.deserialize_newtype_struct(marker::SHORT, Switch)
    }
}

inline_schema!([] RouteAuthorize, |generator| {
    json_schema!({ "anyOf": [{ "const": false }, generator.subschema_for::<AuthorizeTable>()] })
});

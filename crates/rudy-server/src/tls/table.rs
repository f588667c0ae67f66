//! The `tls` table of a site.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::config::FilePath;

/// TLS of a site.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TlsTable {
    /// File with the certificate of the site, followed by those of its issuers, in PEM.
    #[schemars(example = &"cert.pem")]
    pub certificate: FilePath,
    /// File with the private key of the certificate, in PEM.
    #[schemars(example = &"key.pem")]
    pub key: FilePath,
}

//! The account at an authority.

use std::sync::Arc;

use bytes::Bytes;
use http::Request;
use instant_acme::{AccountCredentials, Error, ExternalAccountKey, NewAccount};
use rudy_tls::{Certificate, Trust};

use crate::failure::Failure;
use crate::https::{Exchange, Https};
use crate::nonce::patiently;
use crate::order::{Issued, Order};
use crate::renewal::RenewalWindow;
use crate::{Publish, order};

/// An authority that signs certificates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Authority {
    /// The URL of its directory.
    pub directory: String,
    /// The certificates that it is trusted by.
    pub trust: Trust,
}

/// What a new account needs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AccountRequest {
    /// The e-mail address that the authority may write to.
    pub email: Option<String>,
    /// The account of another kind that the authority knows.
    pub external_account: Option<ExternalAccount>,
}

/// A key that binds the account to one of another kind (RFC 8555 §7.3.4).
#[derive(Clone, PartialEq, Eq)]
pub struct ExternalAccount {
    /// The identifier of the key.
    pub key_id: String,
    /// The key, decoded.
    pub key: Vec<u8>,
}

impl std::fmt::Debug for ExternalAccount {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ExternalAccount").field("key_id", &self.key_id).finish_non_exhaustive()
    }
}

/// An account. Clones share it.
#[derive(Clone)]
pub struct Account {
    inner: instant_acme::Account,
    https: Https,
}

impl std::fmt::Debug for Account {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The key is not shown.
        f.debug_struct("Account").field("id", &self.inner.id()).finish_non_exhaustive()
    }
}

impl Authority {
    fn https(&self, exchange: &Arc<dyn Exchange>) -> Result<Https, Failure> {
        let config = self.trust.client_config().map_err(|error| Failure::local(error.to_string()))?;
        Ok(Https::new(exchange.clone(), config))
    }
}

/// Returns the URL of the authority's terms of service.
///
/// # Errors
///
/// The authority cannot be reached.
pub async fn terms_of_service(
    exchange: &Arc<dyn Exchange>,
    authority: &Authority,
) -> Result<Option<String>, Failure> {
    let https = authority.https(exchange)?;
    let request = Request::get(&authority.directory).body(Bytes::new()).map_err(Error::Http)?;
    let directory = https.send(request).await.map_err(|error| explain(&https, error))?;
    let directory: serde_json::Value = serde_json::from_slice(directory.body()).map_err(Error::Json)?;
    Ok(directory["meta"]["termsOfService"].as_str().map(str::to_owned))
}

impl Account {
    /// Creates an account, which agrees to the terms of service. Returns it with its key, as text to store.
    ///
    /// # Errors
    ///
    /// The authority cannot be reached, or rejects the account.
    pub async fn create(
        exchange: &Arc<dyn Exchange>,
        authority: &Authority,
        request: &AccountRequest,
    ) -> Result<(Self, String), Failure> {
        let https = authority.https(exchange)?;
        let contact = request.email.as_ref().map(|email| format!("mailto:{email}"));
        let contact: Vec<_> = contact.iter().map(String::as_str).collect();
        let new =
            NewAccount { contact: &contact, terms_of_service_agreed: true, only_return_existing: false };
        let external = request.external_account.as_ref();
        let external = external.map(|account| ExternalAccountKey::new(account.key_id.clone(), &account.key));
        let builder = || instant_acme::Account::builder_with_http(Box::new(https.clone()));
        let created = patiently!(builder().create(&new, authority.directory.clone(), external.as_ref()));
        let (inner, credentials) = created.map_err(|error| explain(&https, error))?;
        let credentials = serde_json::to_string(&credentials).map_err(Error::Json)?;
        Ok((Self { inner, https }, credentials))
    }

    /// Returns an account from its stored key.
    ///
    /// # Errors
    ///
    /// The text is not that of an account, or the authority cannot be reached.
    pub async fn restore(
        exchange: &Arc<dyn Exchange>,
        authority: &Authority,
        credentials: &str,
    ) -> Result<Self, Failure> {
        let https = authority.https(exchange)?;
        let credentials: AccountCredentials = serde_json::from_str(credentials)
            .map_err(|error| Failure::local(format!("the stored account is damaged: {error}")))?;
        let builder = instant_acme::Account::builder_with_http(Box::new(https.clone()));
        let inner = builder.from_credentials(credentials).await.map_err(|error| explain(&https, error))?;
        Ok(Self { inner, https })
    }

    /// Orders a certificate and proves the control of its name.
    ///
    /// # Errors
    ///
    /// The authority cannot be reached or cannot verify the challenge, or the challenge cannot be published.
    pub async fn order(&self, order: &Order, publisher: &impl Publish) -> Result<Issued, Failure> {
        let mut result = order::order(&self.inner, order, publisher).await;
        if let Err(failure) = &mut result {
            failure.retry_after = self.https.retry_after();
        }
        result
    }

    /// Returns when the authority wants a certificate to be renewed (RFC 9773). `None` if it has no opinion.
    ///
    /// # Errors
    ///
    /// The authority cannot be reached.
    pub async fn renewal_window(&self, certificate: &Certificate) -> Result<Option<RenewalWindow>, Failure> {
        let Some(id) = order::identifier(certificate) else { return Ok(None) };
        match self.inner.renewal_info(&id).await {
            Ok((info, next)) => Ok(Some(RenewalWindow::new(info, next))),
            Err(Error::Unsupported(_)) => Ok(None),
            Err(error) => Err(explain(&self.https, error)),
        }
    }
}

/// Adds the time at which the authority accepts the next request.
fn explain(https: &Https, error: Error) -> Failure {
    Failure { retry_after: https.retry_after(), ..Failure::from(error) }
}

//! Orders a certificate.

use std::time::Duration;

use instant_acme::{
    Account, AuthorizationHandle, AuthorizationStatus, CertificateIdentifier, Error, Identifier, NewOrder,
    OrderStatus, RetryPolicy,
};
use rudy_tls::{Certificate, certificate_request};

use crate::failure::Failure;
use crate::nonce::{POLL_TRIES, patiently};
use crate::{Challenge, ChallengeKind, Publish};

/// The maximum time that an authority may take to verify a challenge, or to sign.
const POLL: RetryPolicy =
    RetryPolicy::new().initial_delay(Duration::from_millis(500)).backoff(1.5).timeout(Duration::from_mins(2));

/// What to order.
#[derive(Debug, Clone)]
pub struct Order {
    /// A host name, an address, or a wildcard such as `*.example.org`.
    pub name: String,
    /// How to prove the control of the name.
    pub kind: ChallengeKind,
    /// The profile of the certificate; `None` is the authority's default.
    pub profile: Option<String>,
    /// The certificate that the new one replaces.
    pub replaces: Option<Certificate>,
}

/// A certificate with its key, both in PEM.
#[derive(Clone, PartialEq, Eq)]
pub struct Issued {
    /// The private key.
    pub key: String,
    /// The certificate, followed by those of its issuers.
    pub chain: String,
}

pub(crate) async fn order(
    account: &Account,
    order: &Order,
    publisher: &impl Publish,
) -> Result<Issued, Failure> {
    let (key, request) =
        certificate_request(&order.name).map_err(|error| Failure::local(error.to_string()))?;
    let mut placed = place(account, order).await?;
    let mut published = Vec::new();
    let ready = authorize(&mut placed, order, publisher, &mut published).await;
    for challenge in &published {
        publisher.remove(challenge).await;
    }
    ready?;
    patiently!(placed.finalize_csr(&request))?;
    let chain = patiently!(placed.poll_certificate(&POLL), POLL_TRIES)?;
    check(&order.name, &chain, &key)?;
    Ok(Issued { key, chain })
}

/// Creates the order, without the link to the certificate that it replaces if the authority does not accept that: it may
/// not know the certificate, or another order may replace it already (RFC 9773 §5).
async fn place(account: &Account, order: &Order) -> Result<instant_acme::Order, Error> {
    let identifiers = [match order.name.parse() {
        Ok(address) => Identifier::Ip(address),
        Err(_) => Identifier::Dns(order.name.clone()),
    }];
    let new = || match &order.profile {
        Some(profile) => NewOrder::new(&identifiers).profile(profile),
        None => NewOrder::new(&identifiers),
    };
    if let Some(id) = order.replaces.as_ref().and_then(identifier) {
        let replacing = new().replaces(id);
        let placed = patiently!(account.new_order(&replacing));
        let is_refused = match &placed {
            Err(Error::Unsupported(_)) => true,
            Err(Error::Api(problem)) => REPLACEMENT_REFUSED
                .iter()
                .any(|kind| problem.r#type.as_deref().is_some_and(|known| known.ends_with(kind))),
            _ => false,
        };
        if !is_refused {
            return placed;
        }
    }
    let plain = new();
    patiently!(account.new_order(&plain))
}

/// The errors of an order whose link is not accepted.
const REPLACEMENT_REFUSED: [&str; 4] = [":alreadyReplaced", ":conflict", ":malformed", ":unauthorized"];

/// Proves the control of the name. What is published is in `published`, also after a failure.
async fn authorize(
    placed: &mut instant_acme::Order,
    order: &Order,
    publisher: &impl Publish,
    published: &mut Vec<Challenge>,
) -> Result<(), Failure> {
    patiently!(fetch(placed))?;
    let mut authorizations = placed.authorizations();
    while let Some(authorization) = authorizations.next().await {
        let mut authorization = authorization?;
        if authorization.status != AuthorizationStatus::Pending {
            continue;
        }
        let handle = authorization.challenge(order.kind.into());
        let mut handle = handle.ok_or_else(|| {
            Failure::local(format!(
                "the authority does not offer the challenge {} for {}",
                order.kind, order.name
            ))
        })?;
        let challenge = Challenge::new(order.kind, &order.name, &handle);
        let challenge = challenge.ok_or_else(|| Failure::local("the authority sent an invalid token"))?;
        published.push(challenge.clone());
        publisher.publish(&challenge).await.map_err(Failure::local)?;
        // The error of a fast authority can be that of the challenge, which it has tried to verify already.
        if let Err(error) = patiently!(handle.set_ready()) {
            return Err(why_failed(placed, error).await);
        }
    }
    match patiently!(placed.poll_ready(&POLL), POLL_TRIES) {
        Ok(OrderStatus::Invalid) => Err(why_invalid(placed).await.unwrap_or_else(|| {
            Failure::local("the authority could not verify the challenge, and did not say why")
        })),
        Ok(_) => Ok(()),
        Err(error) => Err(why_failed(placed, error).await),
    }
}

/// Returns why a request about a challenge failed: the problem of the challenge if it is invalid, for a validation counts.
async fn why_failed(placed: &mut instant_acme::Order, error: Error) -> Failure {
    let invalid = if matches!(error, Error::Api(_)) { why_invalid(placed).await } else { None };
    invalid.unwrap_or_else(|| error.into())
}

/// Fetches the authorizations of an order. Those that are known are not fetched again.
async fn fetch(placed: &mut instant_acme::Order) -> Result<(), Error> {
    let mut authorizations = placed.authorizations();
    while let Some(authorization) = authorizations.next().await {
        authorization?;
    }
    Ok(())
}

/// Returns why a challenge is invalid.
async fn why_invalid(placed: &mut instant_acme::Order) -> Option<Failure> {
    let mut authorizations = placed.authorizations();
    while let Some(Ok(mut authorization)) = authorizations.next().await {
        patiently!(refresh(&mut authorization)).ok()?;
        if let Some(problem) = authorization.challenges.iter().find_map(|challenge| challenge.error.as_ref())
        {
            return Some(Failure::validation(problem));
        }
    }
    None
}

async fn refresh(authorization: &mut AuthorizationHandle<'_>) -> Result<(), Error> {
    authorization.refresh().await.map(|_| ())
}

/// Reports a certificate that cannot be used. The authority decides what it signs.
fn check(name: &str, chain: &str, key: &str) -> Result<(), Failure> {
    let invalid = |why: &dyn ToString| {
        Failure::local(format!("the certificate of the authority cannot be used: {}", why.to_string()))
    };
    let certificate =
        Certificate::from_pem(chain.as_bytes(), key.as_bytes()).map_err(|error| invalid(&error))?;
    if certificate.names.include(name) {
        Ok(())
    } else {
        Err(invalid(&format!("it is not valid for {name}")))
    }
}

/// Returns the identifier of a certificate (RFC 9773 §4.1). `None` without a key identifier of its authority.
pub(crate) fn identifier(certificate: &Certificate) -> Option<CertificateIdentifier<'static>> {
    CertificateIdentifier::try_from(certificate.der()).ok().map(CertificateIdentifier::into_owned)
}

//! The HTTP client of `instant-acme`, over that of `rudy-request` or another [`Exchange`].

use std::fmt::Debug;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{HeaderValue, Request, Response, header};
use http_body_util::{BodyExt, Full};
use instant_acme::{BodyWrapper, BytesResponse, Error, HttpClient};
use rudy_request::{Failure, HandshakeError, Memory, Options, Session, Stop, Template, Url, Waiter};
use rudy_runtime::{blocking, clock};
use rustls::ClientConfig;

/// The maximum time of an exchange. Authorities may check a name before they respond.
const TIMEOUT: Duration = Duration::from_mins(1);

/// The maximum size of a response body: a certificate chain has a few KiB.
const BODY_BYTES_MAX: usize = 1024 * 1024;

/// The maximum time that an authority can make us wait: the longest of the limits of Let's Encrypt are those of a week.
const RETRY_AFTER_MAX: Duration = Duration::from_hours(7 * 24);

/// The response to a request, or what is wrong.
pub type Exchanged = Pin<Box<dyn Future<Output = Result<Response<Bytes>, String>> + Send>>;

/// What takes a request to an authority, and its response back.
pub trait Exchange: Debug + Send + Sync {
    /// Sends a request to a server that this configuration trusts.
    fn exchange(&self, config: Arc<ClientConfig>, request: Request<Bytes>) -> Exchanged;
}

/// Takes requests over TCP and TLS to their hosts.
#[derive(Debug, Clone, Copy)]
pub struct Internet;

impl Exchange for Internet {
    fn exchange(&self, config: Arc<ClientConfig>, request: Request<Bytes>) -> Exchanged {
        Box::pin(async move {
            let response = blocking(move || exchange(config, request)).await;
            response.unwrap_or_else(|panic| Err(panic.to_string()))
        })
    }
}

/// An HTTP client. Clones share what they know.
#[derive(Debug, Clone)]
pub(crate) struct Https {
    exchange: Arc<dyn Exchange>,
    config: Arc<ClientConfig>,
    /// When the authority wants the next request, according to its last error response.
    retry_at: Arc<Mutex<Option<Instant>>>,
}

impl Https {
    pub(crate) fn new(exchange: Arc<dyn Exchange>, config: Arc<ClientConfig>) -> Self {
        Self { exchange, config, retry_at: Arc::default() }
    }

    /// Sends a request.
    pub(crate) async fn send(&self, request: Request<Bytes>) -> Result<Response<Bytes>, Error> {
        let response = self.exchange.exchange(self.config.clone(), request).await;
        let response = response.map_err(|error| Error::Other(error.into()))?;
        if response.status().is_client_error() || response.status().is_server_error() {
            if let Some(time) = retry_at(&response) {
                *self.retry_at.lock().unwrap_or_else(PoisonError::into_inner) = Some(time);
            }
            explain(&response)?;
        }
        Ok(response)
    }

    /// Returns the time after which the authority accepts requests again, according to its last error response. It counts for all
    /// names: most limits are those of an account.
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        let time = (*self.retry_at.lock().unwrap_or_else(PoisonError::into_inner))?;
        time.checked_duration_since(clock::now())
    }
}

impl HttpClient for Https {
    fn request(
        &self,
        request: Request<BodyWrapper<Bytes>>,
    ) -> Pin<Box<dyn Future<Output = Result<BytesResponse, Error>> + Send>> {
        let client = self.clone();
        Box::pin(async move {
            let (parts, body) = request.into_parts();
            let body =
                body.collect().await.map_or_else(|never| match never {}, http_body_util::Collected::to_bytes);
            let response = client.send(Request::from_parts(parts, body)).await?;
            Ok(BytesResponse::from(response.map(Full::new)))
        })
    }
}

/// Sends a request over a connection of its own, and returns the response. It blocks. The error says what is wrong.
fn exchange(config: Arc<ClientConfig>, request: Request<Bytes>) -> Result<Response<Bytes>, String> {
    let (parts, body) = request.into_parts();
    let url: Url = parts.uri.to_string().parse().map_err(|error| format!("{error}"))?;
    if !url.is_secure() {
        return Err(format!("expected an https URL, not \"{url}\""));
    }
    let (_stop, stopped) = Stop::new().map_err(|error| error.to_string())?;
    let (options, waiter) =
        (Options { timeout: Some(TIMEOUT), ..Options::default() }, Waiter::stoppable(stopped));
    let mut template =
        Template { method: parts.method, fields: parts.headers, body: Some(body), ..Template::default() };
    template.keep_alive = false;
    let agent = concat!("rudy/", env!("CARGO_PKG_VERSION"), " instant-acme");
    template.fields.insert(header::USER_AGENT, HeaderValue::from_static(agent));
    let mut body = Memory::new(BODY_BYTES_MAX);
    let (report, error) =
        Session::new(&options, &waiter).with_tls(config).send(&url, &template, true, &mut body);
    match (report.head, error) {
        (_, Some(error)) => Err(format!("{}: {}", url.host(), why_failed(&url, &error))),
        (None, None) => Err(format!("{}: no response", url.host())),
        (Some(head), None) => {
            let mut response = Response::new(Bytes::from(body.into_bytes()));
            *response.status_mut() =
                head.status.try_into().map_err(|error| format!("{}: {error}", url.host()))?;
            *response.headers_mut() = head.fields;
            Ok(response)
        }
    }
}

/// The reason for which there is no response.
fn why_failed(url: &Url, error: &rudy_request::Error) -> String {
    match error {
        rudy_request::Error::Failed(Failure::Connect(error)) => {
            format!("cannot connect to {}: {error}", url.host_and_port())
        }
        rudy_request::Error::ConnectTimeout | rudy_request::Error::Failed(Failure::Timeout) => {
            format!("no response within {} s", TIMEOUT.as_secs())
        }
        rudy_request::Error::Failed(Failure::Tls(failed)) => {
            match failed.get_ref().and_then(|inner| inner.downcast_ref()) {
                Some(HandshakeError(untrusted @ rustls::Error::InvalidCertificate(_))) => {
                    format!(
                        "{untrusted} (set `authority` in [acme] to the certificates that it is trusted by)"
                    )
                }
                _ => error.to_string(),
            }
        }
        error => error.to_string(),
    }
}

/// An error without a problem document (RFC 8555 §6.7) comes from something before the authority: a proxy, a portal.
fn explain(response: &Response<Bytes>) -> Result<(), Error> {
    if serde_json::from_slice::<serde_json::Value>(response.body()).is_ok_and(|value| value.is_object()) {
        return Ok(());
    }
    Err(Error::Other(format!("it responded with {}", response.status()).into()))
}

/// Returns the time in `Retry-After`: seconds, or a date (RFC 9110 §10.2.3). It is that of the monotonic clock: a wall clock that is set back
/// must not extend it.
fn retry_at(response: &Response<Bytes>) -> Option<Instant> {
    let value = response.headers().get(header::RETRY_AFTER)?.to_str().ok()?.trim();
    let after = match value.parse() {
        Ok(seconds) => Duration::from_secs(seconds),
        Err(_) => httpdate::parse_http_date(value).ok()?.duration_since(clock::utc()).ok()?,
    };
    Some(clock::now() + after.min(RETRY_AFTER_MAX))
}

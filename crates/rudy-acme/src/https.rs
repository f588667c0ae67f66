//! The HTTP client of `instant-acme`, over [`exchange`].

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::{Request, Response, header};
use http_body_util::{BodyExt, Full};
use instant_acme::{BodyWrapper, BytesResponse, Error, HttpClient};
use rustls::ClientConfig;
use tokio::task::spawn_blocking;

use crate::exchange::exchange;

/// The maximum time that an authority can make us wait: the longest of the limits of Let's Encrypt are those of a week.
const RETRY_AFTER_MAX: Duration = Duration::from_hours(7 * 24);

/// An HTTP client. Clones share what they know.
#[derive(Debug, Clone)]
pub(crate) struct Https {
    config: Arc<ClientConfig>,
    /// When the authority wants the next request, according to its last error response.
    retry_at: Arc<Mutex<Option<SystemTime>>>,
}

impl Https {
    pub(crate) fn new(config: Arc<ClientConfig>) -> Self {
        Self { config, retry_at: Arc::default() }
    }

    /// Sends a request on a thread that may block.
    pub(crate) async fn send(&self, request: Request<Bytes>) -> Result<Response<Bytes>, Error> {
        let config = self.config.clone();
        let response = spawn_blocking(move || exchange(&config, &request)).await;
        let response = response.map_err(|error| Error::Other(error.into()))?;
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
        time.duration_since(SystemTime::now()).ok().map(|after| after.min(RETRY_AFTER_MAX))
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

/// An error without a problem document (RFC 8555 §6.7) comes from something before the authority: a proxy, a portal.
fn explain(response: &Response<Bytes>) -> Result<(), Error> {
    if serde_json::from_slice::<serde_json::Value>(response.body()).is_ok_and(|value| value.is_object()) {
        return Ok(());
    }
    Err(Error::Other(format!("it responded with {}", response.status()).into()))
}

/// Returns the time in `Retry-After`: seconds, or a date (RFC 9110 §10.2.3).
fn retry_at(response: &Response<Bytes>) -> Option<SystemTime> {
    let value = response.headers().get(header::RETRY_AFTER)?.to_str().ok()?.trim();
    match value.parse() {
        Ok(seconds) => SystemTime::now().checked_add(Duration::from_secs(seconds)),
        Err(_) => httpdate::parse_http_date(value).ok(),
    }
}

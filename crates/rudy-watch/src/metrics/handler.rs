//! The `metrics` handler: the metrics of the server, for Prometheus.

use std::sync::Arc;

use http::{HeaderValue, StatusCode, header};
use rudy_config::{Problem, Table};
use rudy_pipeline::methods::respond_unless_read;
use rudy_pipeline::{AllowedClients, BuildContext, Call, Handler, HandlerConfig, pages};
use rudy_service::{Reply, Request, Response};

use crate::metrics::{Format, MetricsText};

/// Shows the metrics of the server in the text format of Prometheus, or as `OpenMetrics` for clients that accept it.
#[derive(Debug, Clone, Table)]
#[setting(default, example = { allow = "10.0.0.5" })]
pub struct MetricsTable {
    /// Clients that can see it. Clients with another address get 403. Use `"loopback"` (this machine, without a
    /// proxy), addresses, networks, or `"anyone"`.
    #[setting(default = AllowedClients::loopback(), example = "loopback")]
    pub allow: AllowedClients,
}

impl HandlerConfig for MetricsTable {
    fn describe(&self) -> String {
        format!("for {}", self.allow)
    }

    fn build(&self, route: &BuildContext<'_>) -> Result<Box<dyn Handler>, Vec<Problem>> {
        Ok(Box::new(MetricsHandler { allowed: self.allow.clone(), text: route.resources.of() }))
    }
}

/// The handler with its allowed clients.
#[derive(Debug)]
struct MetricsHandler {
    allowed: AllowedClients,
    text: Arc<MetricsText>,
}

impl Handler for MetricsHandler {
    fn call(&self, request: Request<'_>, call: Call<'_>) -> Reply {
        let rejection = respond_unless_read(&request).or_else(|| self.allowed.reject(&request, call.context));
        if let Some(rejection) = rejection {
            return rejection.into();
        }
        let format = Format::accepted(request.get(&header::ACCEPT).unwrap_or_default());
        let request = call.detach(request);
        let text = self.text.clone();
        Reply::Later(Box::pin(async move {
            // Thousands of series take milliseconds, in which a worker would serve no other request.
            let text = rudy_runtime::blocking(move || text.write(format)).await;
            let Ok(text) = text else {
                let explanation =
                    "The metrics cannot be shown because of a bug in the server; it has been logged.";
                return pages::error(StatusCode::INTERNAL_SERVER_ERROR, request.headers(), explanation);
            };
            let mut response = Response::text(StatusCode::OK, format.media_type(), text);
            response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
            response
        }))
    }
}

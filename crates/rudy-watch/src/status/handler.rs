//! The `status` handler: the server's counters as JSON.

use std::sync::Arc;

use http::{HeaderValue, StatusCode, header};
use rudy_config::{Problem, Table};
use rudy_pipeline::methods::respond_unless_read;
use rudy_pipeline::{AllowedClients, BuildContext, Call, Context, Handler, HandlerConfig, Resources};
use rudy_service::{Reply, Request, Response};
use rudy_site_tls::TlsState;
use serde_json::json;

use crate::metrics::Metrics;

/// Shows the counters of the server as JSON: connections, requests, bytes, memory; and its certificates.
#[derive(Debug, Clone, Table)]
#[setting(example = { allow = "loopback" })]
pub struct StatusTable {
    /// Clients that can see it. Clients with another address get 403. Use `"loopback"` (this machine, without a
    /// proxy), addresses, networks, or `"anyone"`.
    #[setting(example = "loopback")]
    pub allow: AllowedClients,
}

impl HandlerConfig for StatusTable {
    fn describe(&self) -> String {
        format!("for {}", self.allow)
    }

    fn build(&self, route: &BuildContext<'_>) -> Result<Box<dyn Handler>, Vec<Problem>> {
        Ok(Box::new(Status::new(self, route.resources)))
    }
}

impl Handler for Status {
    fn call(&self, request: Request<'_>, call: Call<'_>) -> Reply {
        self.respond(&request, call.context).into()
    }
}

/// The handler with its allowed clients.
#[derive(Debug)]
pub(super) struct Status {
    allowed: AllowedClients,
    metrics: Arc<Metrics>,
    tls: Arc<TlsState>,
}

impl Status {
    pub(super) fn new(table: &StatusTable, resources: &Resources) -> Self {
        Self { allowed: table.allow.clone(), metrics: resources.of(), tls: resources.of() }
    }

    /// Responds to a request.
    pub(super) fn respond(&self, request: &Request<'_>, context: Context<'_>) -> Response {
        if let Some(rejection) =
            respond_unless_read(request).or_else(|| self.allowed.reject(request, context))
        {
            return rejection;
        }
        let mut status = self.metrics.to_json();
        status["certificates"] = json!(self.tls.certificates());
        let text = format!("{status}\n");
        let mut response = Response::text(StatusCode::OK, "application/json", text);
        response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        response
    }
}

#[cfg(test)]
mod tests {
    use rudy_net::Worker;
    use rudy_net::engine::Model;
    use rudy_service::{Body, Client, Peer, RequestBody};
    use serde_json::Value;

    use super::*;
    use rudy_config::from_text;
    use rudy_pipeline::Routes;

    fn request(allow: &str, peer: Peer, metrics: &Arc<Metrics>) -> Response {
        let request = http::Request::get("/status").header(header::HOST, "localhost");
        let resources = Resources::default().with(metrics.clone());
        let (request, client) =
            (request.body(RequestBody::empty()).map(Request::from).unwrap(), Client::new(peer, 1, 1));
        let table = from_text(&format!("allow = '{allow}'")).unwrap();
        let routes = Arc::new(Routes::none());
        Status::new(&table, &resources).respond(&request, Context::new(&client, &routes))
    }

    #[test]
    fn the_counters_of_all_workers_are_added_up() {
        let (one, two) = (Arc::new(Worker::default()), Arc::new(Worker::default()));
        one.counters.accepted.add(5);
        two.counters.accepted.add(2);
        one.counters.closed.add(3);
        two.counters.dropped.add(9);
        one.counters.evicted.add(1);
        two.counters.evicted.add(3);
        two.counters.requests.add(11);
        two.counters.sent_bytes.add(1000);
        let metrics = Arc::new(Metrics::new());
        metrics.set_engine(Model::PerCore, vec![one, two]);
        let response = request("loopback", Peer::Unix, &metrics);
        let Body::Bytes(body) = response.body else { panic!("a body") };
        let json: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(
            json["connections"],
            json!({ "open": 4, "accepted": 7, "queued": 0, "over_limit": 0, "evicted": 4, "dropped": 9 })
        );
        assert_eq!(json["requests"]["received"], 11);
        assert_eq!(json["bytes"]["sent"], 1000);
        assert!(json["memory"]["resident_bytes"].as_u64().unwrap() > 100_000);
    }

    #[test]
    fn other_clients_get_403() {
        let metrics = Arc::new(Metrics::new());
        let near = Peer::Ip(([127, 0, 0, 1], 1).into());
        let far = Peer::Ip(([192, 0, 2, 1], 1).into());
        assert_eq!(request("loopback", near, &metrics).status(), 200);
        assert_eq!(request("loopback", Peer::Unix, &metrics).status(), 200);
        assert_eq!(request("loopback", far, &metrics).status(), 403);
        assert_eq!(request("anyone", far, &metrics).status(), 200);
    }
}

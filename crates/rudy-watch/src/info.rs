//! The `info` handler: shows which process, thread, task and connection serve a request. Several requests show how an engine
//! distributes them.

use std::sync::Arc;
use std::{process, thread};

use http::{HeaderValue, StatusCode, header};
use rudy_config::{Problem, Table};
use rudy_message::semantics::negotiation::choose_media_type;
use rudy_pipeline::methods::respond_unless_read;
use rudy_pipeline::{AllowedClients, BuildContext, Call, Context, Handler, HandlerConfig};
use rudy_service::{Client, Reply, Request, Response};
use serde_json::{Map, Value, json};

use crate::metrics::Metrics;

/// Shows which process, thread, task and engine serves the request, as text or JSON.
#[derive(Debug, Clone, Table)]
#[setting(example = { allow = "loopback" })]
pub struct InfoTable {
    /// Clients that can see it. Clients with another address get 403. Use `"loopback"` (this machine, without a
    /// proxy), addresses, networks, or `"anyone"`.
    #[setting(example = "loopback")]
    pub allow: AllowedClients,
}

impl HandlerConfig for InfoTable {
    fn describe(&self) -> String {
        format!("for {}", self.allow)
    }

    fn build(&self, route: &BuildContext<'_>) -> Result<Box<dyn Handler>, Vec<Problem>> {
        Ok(Box::new(Info::new(self, route.resources.of())))
    }
}

impl Handler for Info {
    fn call(&self, request: Request<'_>, call: Call<'_>) -> Reply {
        self.respond(&request, call.context).into()
    }
}

/// The handler with its allowed clients.
#[derive(Debug)]
pub struct Info {
    allowed: AllowedClients,
    metrics: Arc<Metrics>,
}

impl Info {
    /// Prepares the handler.
    pub fn new(table: &InfoTable, metrics: Arc<Metrics>) -> Self {
        Self { allowed: table.allow.clone(), metrics }
    }

    /// Responds to a request with text or JSON.
    pub fn respond(&self, request: &Request<'_>, context: Context<'_>) -> Response {
        if let Some(rejection) =
            respond_unless_read(request).or_else(|| self.allowed.reject(request, context))
        {
            return rejection;
        }
        let facts = facts(context.client, &self.metrics);
        let offers = ["text/plain", "application/json"];
        let json = choose_media_type(request.headers().get_all(header::ACCEPT), &offers) == Some(offers[1]);
        let mut response = if json {
            Response::text(StatusCode::OK, "application/json", as_json(facts))
        } else {
            Response::text(StatusCode::OK, "text/plain; charset=utf-8", as_text(facts))
        };
        let fields = response.headers_mut();
        fields.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        fields.insert(header::VARY, HeaderValue::from_static("Accept"));
        response
    }
}

type Facts = [(&'static str, Value); 11];

/// Returns the facts about a request and the current thread.
fn facts(client: &Client, metrics: &Metrics) -> Facts {
    [
        ("process", json!(process::id())),
        // The thread id of the kernel, as in `top -H`. That of the main thread is the process id.
        ("thread", json!(rustix::thread::gettid().as_raw_pid())),
        ("thread_name", json!(thread::current().name())),
        // A task id only means something in comparison with others. Engines without tasks have none.
        ("task", json!(tokio::task::try_id().and_then(|id| id.to_string().parse::<u64>().ok()))),
        ("engine", json!(metrics.engine().map(|model| model.to_string()))),
        ("client", json!(client.address().to_string())),
        ("proxy", json!(client.forwarded.as_ref().map(|_| client.peer.to_string()))),
        ("scheme", json!(client.scheme().as_str())),
        ("connection", json!(client.connection_number)),
        ("request", json!(client.request_number)),
        ("requests_in_all", json!(metrics.requests())),
    ]
}

/// Formats the known facts as lines of text.
fn as_text(facts: Facts) -> String {
    let line = |(name, value): (&str, Value)| match value {
        Value::Null => String::new(),
        Value::String(text) => format!("{name}: {text}\n"),
        other => format!("{name}: {other}\n"),
    };
    facts.into_iter().map(line).collect()
}

/// Formats all facts as JSON in one line.
fn as_json(facts: Facts) -> String {
    let object: Map<_, _> = facts.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    format!("{}\n", Value::Object(object))
}

#[cfg(test)]
mod tests {
    use rudy_net::Worker;
    use rudy_net::engine::Model;
    use rudy_service::{Body, Forwarded, Peer, RequestBody};

    use super::*;
    use rudy_config::from_text;
    use rudy_pipeline::Routes;

    fn request(peer: Peer, accept: &str, metrics: &Arc<Metrics>) -> (Response, String) {
        request_of(&Client::new(peer, 7, 3), accept, metrics)
    }

    fn request_of(client: &Client<'_>, accept: &str, metrics: &Arc<Metrics>) -> (Response, String) {
        let builder =
            http::Request::get("/info").header(header::ACCEPT, accept).header(header::HOST, "localhost");
        let request = builder.body(RequestBody::empty()).map(Request::from).unwrap();
        let table = from_text("allow = ['loopback', '203.0.113.7']").unwrap();
        let (info, routes) = (Info::new(&table, metrics.clone()), Arc::new(Routes::none()));
        let response = info.respond(&request, Context::new(client, &routes));
        let Body::Bytes(body) = &response.body else { panic!("a text is in memory") };
        let text = String::from_utf8(body.to_vec()).unwrap();
        (response, text)
    }

    #[test]
    fn text_and_json_show_the_same_facts() {
        let worker = Worker::default();
        worker.counters.requests.add(5);
        let metrics = Arc::new(Metrics::new());
        metrics.set_engine(Model::Thread, vec![Arc::new(worker)]);
        let (response, json) = request(Peer::Unix, "application/json", &metrics);
        assert_eq!(response.headers()[header::CONTENT_TYPE], "application/json");
        let json: Value = serde_json::from_str(&json).unwrap();
        assert_eq!(json["process"], process::id());
        assert_eq!((&json["engine"], &json["connection"]), (&json!("thread"), &json!(7)));
        assert_eq!(json["request"], 3);
        assert_eq!((&json["request"], &json["requests_in_all"]), (&json!(3), &json!(5)));
        assert_eq!(json["task"], Value::Null);

        let (response, text) = request(Peer::Unix, "text/html,*/*;q=0.8", &metrics);
        assert_eq!(response.headers()[header::CACHE_CONTROL], "no-store");
        for (name, value) in json.as_object().unwrap() {
            let value = value.as_str().map_or(value.to_string(), str::to_owned);
            assert_eq!(text.contains(&format!("{name}: {value}\n")), value != "null", "{name}: {text}");
        }
    }

    #[test]
    fn the_task_id_is_shown() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let task = runtime.spawn(async { (tokio::task::id(), facts(&client(), &Metrics::new())) });
        let (id, facts) = runtime.block_on(task).unwrap();
        assert!(as_text(facts).contains(&format!("\ntask: {id}\n")));
    }

    #[test]
    fn other_clients_get_403() {
        let far = Peer::Ip(([192, 0, 2, 1], 1).into());
        assert_eq!(request(far, "*/*", &Arc::default()).0.status(), 403);
    }

    #[test]
    fn client_and_proxy_are_shown() {
        let address = Peer::Ip(([203, 0, 113, 7], 0).into());
        let forwarded = Forwarded { address, scheme: Some(http::uri::Scheme::HTTPS), host: None };
        let proxy = Client::new(Peer::Ip(([10, 0, 0, 1], 80).into()), 1, 1);
        let client = Client { forwarded: Some(Arc::new(forwarded)), ..proxy };
        let (_, text) = request_of(&client, "*/*", &Arc::default());
        assert!(text.contains("client: 203.0.113.7\nproxy: 10.0.0.1:80\nscheme: https\n"), "{text}");
        assert!(!request(Peer::Unix, "*/*", &Arc::default()).1.contains("\nproxy: "));
    }

    fn client() -> Client<'static> {
        Client::new(Peer::Unix, 1, 1)
    }
}

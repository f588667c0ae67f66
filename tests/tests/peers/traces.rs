//! Jaeger, which receives spans with the receiver of the OpenTelemetry Collector, shows a trace through two servers.

use rudy_tests::prelude::*;

/// The addresses at which Jaeger must not listen at its usual ports.
const OTHERS: [&str; 9] = [
    "collector.otlp.grpc",
    "query.grpc-server",
    "admin.http",
    "collector.grpc-server",
    "collector.http-server",
    "http-server",
    "processor.zipkin-compact.server",
    "processor.jaeger-compact.server",
    "processor.jaeger-binary.server",
];

#[test]
fn jaeger_shows_a_trace_through_two_servers() {
    needs!(long());
    let (Some(jaeger), Some(curl)) = (go_program("jaeger"), Curl::find()) else { return };
    let [receiver, query] = [free_port(), free_port()];
    let mut command = Command::new(jaeger);
    command.arg(format!("--collector.otlp.http.host-port=127.0.0.1:{receiver}"));
    command.arg(format!("--query.http-server.host-port=127.0.0.1:{query}"));
    for other in OTHERS {
        let dash = if other.starts_with("processor") { "-" } else { "." };
        command.arg(format!("--{other}{dash}host-port=127.0.0.1:0"));
    }
    let _jaeger =
        Running::from(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts"));

    let upstream = Upstream::serve(|peer, _| peer.respond("ok"));
    let start = |name: &str, path: &str, proxy: &str| {
        Server::config(&format!(
            "listen = ['127.0.0.1:0']\ntrusted_proxies = ['127.0.0.1']\n\
             tracing = {{ endpoint = 'http://127.0.0.1:{receiver}', sample = '100%', service_name = '{name}' }}\n\
             [[site]]\n[[site.route]]\npath = '{path}'\nproxy = '{proxy}'\n"
        ))
    };
    let inner = start("inner", "/*", &upstream.url());
    let outer = start("outer", "/outer/*", &format!("http://{}", inner.address()));
    assert_eq!(outer.get("/outer/a").text(), "ok");
    let spans = eventually("Jaeger has the trace", || {
        let url = format!("http://127.0.0.1:{query}/api/traces?service=outer");
        let output = curl.command().args(["-s", &url]).output().ok()?;
        let value = serde_json::from_slice::<Value>(&output.stdout).ok()?;
        let spans = value["data"][0]["spans"].as_array()?.clone();
        (spans.len() == 4).then_some(spans)
    });
    let parent = |span: &Value| span["references"][0]["spanID"].as_str().unwrap_or_default().to_owned();
    let mut names = Vec::new();
    let mut at = String::new();
    while let Some(span) = spans.iter().find(|span| parent(span) == at) {
        names.push(span["operationName"].as_str().expect("a name"));
        at = span["spanID"].as_str().expect("an id").to_owned();
    }
    assert_eq!(names, ["GET /outer/*", "GET", "GET /*", "GET"]);
}

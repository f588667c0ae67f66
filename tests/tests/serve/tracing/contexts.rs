//! Whose trace a request continues, and what the next server gets.

use rudy_tests::prelude::*;

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const SAMPLED: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
const NOT_SAMPLED: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00";

/// A server with these settings of `tracing`, whose upstream responds with the context that it gets.
struct Rig {
    server: Server,
    collector: Collector,
    _upstream: Upstream,
}

impl Rig {
    fn start(settings: &str, more: &str) -> Self {
        let collector = Collector::start();
        let upstream = Upstream::serve(|peer, request| {
            let lines = request.head.lines().filter(|line| line.to_lowercase().starts_with("trace"));
            let mut lines: Vec<_> = lines.collect();
            lines.sort_unstable();
            peer.respond(&lines.join("|"));
        });
        let server = Server::config(&format!(
            "listen = ['127.0.0.1:0']\ntracing = {{ endpoint = '{collector}', {settings} }}\n{more}\n\
             [[site]]\n[[site.route]]\npath = '/*'\nproxy = '{upstream}'\n"
        ));
        Self { server, collector, _upstream: upstream }
    }

    /// Returns the context that the upstream gets for these fields.
    fn sent(&self, fields: &[&str]) -> String {
        self.server.get_with("/", fields).text().to_lowercase()
    }
}

/// Returns the trace and the flags of a context without a state.
fn parts(context: &str) -> (&str, &str) {
    let value = context.strip_prefix("traceparent: ").unwrap_or_else(|| panic!("{context}"));
    let parts: Vec<_> = value.split('-').collect();
    let lengths: Vec<_> = parts.iter().map(|part| part.len()).collect();
    assert_eq!((parts[0], &*lengths), ("00", &[2, 32, 16, 2][..]), "{context}");
    (parts[1], parts[3])
}

#[test]
fn the_trace_of_a_stranger_does_not_continue_and_is_not_recorded() {
    let rig = Rig::start("sample = '0%'", "");
    for fields in [
        &[][..],
        &[&format!("traceparent: {SAMPLED}"), "tracestate: a=1"],
        &[&format!("TraceParent: {NOT_SAMPLED}"), "tracestate: a=1"],
        &[&format!("traceparent: {SAMPLED}"), "Connection: traceparent"],
    ] {
        let context = rig.sent(fields);
        let (trace, flags) = parts(&context);
        assert!(trace != TRACE && flags == "00", "{fields:?} {context}");
    }
    assert_eq!(rig.collector.spans().len(), 0);
}

#[test]
fn the_trace_of_a_trusted_proxy_continues() {
    let trusted = "trusted_proxies = ['127.0.0.1']";
    for rig in [Rig::start("sample = '0%'", trusted), Rig::start("sample = '0%', trust_clients = true", "")] {
        let state = ["tracestate: rojo=1", "tracestate: congo=2"];
        let context = rig.sent(&[&format!("traceparent: {SAMPLED}"), state[0], state[1]]);
        let (context, state) = context.split_once('|').expect("a state");
        assert_eq!((parts(context), state), ((TRACE, "01"), "tracestate: rojo=1,congo=2"));
        let spans = rig.collector.wait(2);
        assert_eq!(
            [&*spans[0].trace, &spans[0].parent, &spans[0].state],
            [TRACE, "00f067aa0ba902b7", "rojo=1,congo=2"]
        );
        assert!(context.contains(&spans[1].id), "{context} {spans:#?}");

        // It is not recorded, and passed on as it is.
        let context = rig.sent(&[&format!("traceparent: {NOT_SAMPLED}"), state]);
        assert_eq!(context, format!("traceparent: {NOT_SAMPLED}|{state}"));
    }
}

#[test]
fn a_trusted_proxy_that_does_not_record_a_trace_is_followed() {
    let rig = Rig::start("sample = '100%'", "trusted_proxies = ['127.0.0.1']");
    assert_eq!(rig.sent(&[&format!("traceparent: {NOT_SAMPLED}")]), format!("traceparent: {NOT_SAMPLED}"));
    let context = rig.sent(&[]);
    assert_eq!(parts(&context).1, "01");
    assert_eq!(rig.collector.wait(2).len(), 2);
}

#[test]
fn an_invalid_context_is_replaced() {
    let rig = Rig::start("sample = '0%'", "trusted_proxies = ['127.0.0.1']");
    let sampled = format!("traceparent: {SAMPLED}");
    let version_255 = format!("traceparent: {}", SAMPLED.replacen("00", "ff", 1));
    for fields in [
        &["traceparent: spam", "tracestate: a=1"][..],
        &[&version_255, "tracestate: a=1"],
        &[&sampled, &sampled],
        &["traceparent:", "tracestate: a=1"],
    ] {
        let context = rig.sent(fields);
        assert!(parts(&context).0 != TRACE, "{fields:?} {context}");
    }
    // The state alone is invalid.
    let context = rig.sent(&[&sampled, "tracestate: A=1"]);
    assert_eq!(parts(&context), (TRACE, "01"));
    // A later version is passed on as version 00.
    let context = rig.sent(&[&format!("traceparent: cc{}-future", &SAMPLED[2..])]);
    assert_eq!(parts(&context), (TRACE, "01"));
}

#[test]
fn without_tracing_a_context_is_passed_on_as_it_is() {
    let upstream = Upstream::serve(|peer, request| {
        peer.respond(&format!("{:?} {:?}", request.field("traceparent"), request.field("tracestate")));
    });
    let server = Server::config(&format!(
        "listen = ['127.0.0.1:0']\n[[site]]\n[[site.route]]\npath = '/*'\nproxy = '{upstream}'\n"
    ));
    assert_eq!(
        server.get_with("/", &["traceparent: spam", "tracestate: =="]).text(),
        "Some(\"spam\") Some(\"==\")"
    );
    assert_eq!(server.get("/").text(), "None None");
}

//! Tests the lines for every kind of exchange, and for malicious input from a peer.

use std::io::Seek;
use std::path::Path;
use std::time::Instant;

use http::{HeaderValue, StatusCode};
use rudy_http::h1::{Event, ServerConnection};
use rudy_pipeline::exchange::trace::Trace;
use rudy_pipeline::exchange::{RequestInfo, RouteName, UpstreamName};
use rudy_service::{EndReason, Forwarded, Peer};

use rudy_trace::Parent;

use super::*;

const TIME: &str = "T";

fn outcome() -> ExchangeOutcome {
    ExchangeOutcome {
        status: Some(StatusCode::OK),
        body_bytes: 512,
        sent_bytes: 700,
        request_framing_bytes: 0,
        wait: Duration::from_micros(790),
        duration: Duration::from_micros(812),
        end_reason: EndReason::Completed,
    }
}

fn client(peer: &str) -> Client<'static> {
    Client::new(Peer::Ip(peer.parse().unwrap()), 7, 1)
}

fn request(target: impl AsRef<[u8]>, fields: &[(&str, &[u8])]) -> RequestInfo {
    let mut head = [b"GET ", target.as_ref(), b" HTTP/1.1\r\n"].concat();
    if fields.iter().all(|(name, _)| *name != "host") {
        head.extend_from_slice(b"Host: a\r\n");
    }
    for (name, value) in fields {
        head.extend_from_slice(&[name.as_bytes(), b": ", value, b"\r\n"].concat());
    }
    head.extend_from_slice(b"\r\n");
    let now = Instant::now();
    match ServerConnection::new(now).receive(&head, now, &rudy_http::Limits::default()) {
        Ok(Some(Event::Request(head))) => RequestInfo::new(&head, &Format::Json.request_fields()),
        other => panic!("no head of a request: {other:?}"),
    }
}

fn lines(
    client: &Client,
    request: Option<&RequestInfo>,
    rejection: Option<&str>,
    outcome: &ExchangeOutcome,
) -> (String, String) {
    let notes = Notes::default();
    let exchange = Finished { rejection, ..finished(client, request, outcome, &notes) };
    (line(&Format::default(), &exchange), line(&Format::Json, &exchange))
}

fn finished<'a>(
    client: &'a Client<'a>,
    request: Option<&'a RequestInfo>,
    outcome: &'a ExchangeOutcome,
    notes: &'a Notes,
) -> Finished<'a> {
    Finished {
        client,
        request,
        id: None,
        rejection: None,
        notes,
        request_body_bytes: 0,
        outcome,
        trace: None,
    }
}

fn line(format: &Format, exchange: &Finished<'_>) -> String {
    masked_line(format, exchange, &Masking::default())
}

fn masked_line(format: &Format, exchange: &Finished<'_>, masking: &Masking) -> String {
    let times = Times { local: TIME, rfc3339: TIME };
    let (mut line, source) = (Vec::new(), Source { exchange, times, masking });
    match format {
        Format::Line(template) => template.write(&source, &mut line),
        Format::Json => json::write(&source, 1, &mut line),
    }
    String::from_utf8(line).unwrap()
}

#[test]
fn masked_lines_hide_clients_and_queries() {
    let fields: [(&str, &[u8]); 2] =
        [("referer", b"https://a/?token=secret"), ("user-agent", b"curl?token=1")];
    let request = request("/a?b=c&to%6ben=secret", &fields);
    let masking = Masking { addresses: true, query: vec!["token".to_owned()] };
    let location = (http::header::LOCATION, b"/login?token=secret".as_slice().into());
    let notes = Notes { response_fields: vec![location], ..Notes::default() };
    let (client, outcome) = (client("192.0.2.7:5000"), outcome());
    let exchange = finished(&client, Some(&request), &outcome, &notes);
    let line = |format: &str| masked_line(&format.parse().unwrap(), &exchange, &masking);
    assert_eq!(
        line("combined"),
        "192.0.2.0 - - [T] \"GET /a?b=c&to%6ben=*** HTTP/1.1\" 200 512 \"https://a/?token=***\" \
         \"curl?token=1\" 812 790 complete\n"
    );
    assert_eq!(
        line("{client} {target} {header.referer} {response.location} {response.server}"),
        "192.0.2.0 /a?b=c&to%6ben=*** https://a/?token=*** /login?token=*** -\n"
    );
    let json = line("json");
    assert!(json.contains("\"client\":\"192.0.2.0\"") && !json.contains("secret"), "{json}");
    let format: Format = "{response.location} {client}".parse().unwrap();
    assert_eq!(masked_line(&format, &exchange, &Masking::default()), "/login?token=secret 192.0.2.7\n");
}

#[test]
fn a_line_has_all_columns_of_an_exchange() {
    let request_info = request(
        "/a?b=c",
        &[("host", b"example.org"), ("referer", b"https://example.org/"), ("user-agent", b"curl/8")],
    );
    let (combined, json) = lines(&client("192.0.2.7:5000"), Some(&request_info), None, &outcome());
    assert_eq!(
        combined,
        "192.0.2.7 - - [T] \"GET /a?b=c HTTP/1.1\" 200 512 \"https://example.org/\" \"curl/8\" 812 790 complete\n"
    );
    assert_eq!(
        json,
        "{\"time\":\"T\",\"client\":\"192.0.2.7\",\"client_port\":5000,\"connection\":7,\"method\":\"GET\",\
         \"target\":\"/a?b=c\",\"path\":\"/a\",\"version\":\"HTTP/1.1\",\"host\":\"example.org\",\
         \"referer\":\"https://example.org/\",\"user_agent\":\"curl/8\",\"status\":200,\"body_bytes\":512,\
         \"received_bytes\":93,\"sent_bytes\":700,\"duration_us\":812,\"wait_us\":790,\"ended\":\"complete\"}\n"
    );
}

#[test]
fn unknown_values_are_omitted() {
    let no_status =
        ExchangeOutcome { status: None, body_bytes: 0, end_reason: EndReason::PeerGone, ..outcome() };
    let unix = Client::new(Peer::Unix, 7, 1);
    let (combined, json) = lines(&unix, None, Some("no Host"), &no_status);
    assert_eq!(combined, "unix: - - [T] \"-\" 000 0 \"-\" \"-\" 812 790 peer_gone\n");
    assert_eq!(
        json,
        "{\"time\":\"T\",\"client\":\"unix:\",\"connection\":7,\"rejected\":\"no Host\",\"status\":null,\
         \"body_bytes\":0,\"duration_us\":812,\"wait_us\":790,\"ended\":\"peer_gone\"}\n"
    );
}

#[test]
fn a_forwarded_request_shows_its_client_and_its_proxy() {
    for (address, expected) in [
        (Peer::Ip(([203, 0, 113, 9], 0).into()), "203.0.113.9"),
        (Peer::Unnamed(Some([192, 0, 2, 7].into())), "192.0.2.7"),
        (Peer::Unix, "unix:"),
    ] {
        let forwarded = Some(Arc::new(Forwarded { address, scheme: None, host: None }));
        let client = Client { forwarded, ..client("192.0.2.7:5000") };
        let (combined, json) = lines(&client, None, None, &outcome());
        assert!(combined.starts_with(&format!("{expected} - - ")), "{combined}");
        let members = format!(",\"client\":\"{expected}\",\"proxy\":\"192.0.2.7\",\"connection\":7");
        assert!(json.contains(&members), "{json}");
    }
}

#[test]
fn an_ipv4_mapped_address_is_written_as_ipv4() {
    let (combined, json) = lines(&client("[::ffff:192.0.2.7]:1"), None, None, &outcome());
    assert!(combined.starts_with("192.0.2.7 - - "), "{combined}");
    assert!(json.contains("\"client\":\"192.0.2.7\""), "{json}");
}

#[test]
fn input_of_a_peer_cannot_end_a_column_or_a_line() {
    // (sent, in the combined line, in the JSON line)
    for (sent, combined, json) in [
        (&b"a\"b"[..], "a\\x22b", "a\\\"b"),
        (b"a\\b", "a\\x5Cb", "a\\\\b"),
        (b"a\tb", "a\\x09b", "a\\u0009b"),
        ("a\u{9b}b".as_bytes(), "a\\xC2\\x9Bb", "a\\u009bb"),
        ("a\u{2028}b".as_bytes(), "a\\xE2\\x80\\xA8b", "a\\u2028b"),
        ("größe".as_bytes(), "gr\\xC3\\xB6\\xC3\\x9Fe", "größe"),
        (b"a\xffb", "a\\xFFb", "a\u{fffd}b"),
    ] {
        let request_info = request("/", &[("user-agent", sent)]);
        let lines = lines(&client("192.0.2.7:1"), Some(&request_info), None, &outcome());
        assert!(lines.0.contains(&format!(" \"-\" \"{combined}\" 812")), "{}", lines.0);
        assert!(lines.1.contains(&format!("\"user_agent\":\"{json}\"")), "{}", lines.1);
        serde_json::from_str::<serde_json::Value>(&lines.1).unwrap();
    }
}

#[test]
fn quotes_in_a_target_are_escaped() {
    let request_info = request("/a\"b", &[]);
    let (combined, json) = lines(&client("192.0.2.7:1"), Some(&request_info), None, &outcome());
    assert!(combined.contains("\"GET /a\\x22b HTTP/1.1\""), "{combined}");
    assert!(json.contains("\"target\":\"/a\\\"b\""), "{json}");
}

#[test]
fn a_target_that_is_not_a_valid_uri_is_logged_as_sent() {
    let request_info = request(b"/<a>?\xff", &[]);
    let (combined, json) = lines(&client("192.0.2.7:1"), Some(&request_info), None, &outcome());
    assert!(combined.contains("\"GET /<a>?\\xFF HTTP/1.1\""), "{combined}");
    assert!(json.contains("\"target\":\"/<a>?\u{fffd}\""), "{json}");
}

proptest::proptest! {
    #[test]
    fn any_field_value_gives_one_line_that_can_be_parsed(value: Vec<u8>) {
        let value = value.trim_ascii();
        let Ok(sent) = HeaderValue::from_bytes(value) else { return Ok(()) };
        let request_info = request("/", &[("user-agent", sent.as_bytes())]);
        let (combined, json) = lines(&client("192.0.2.7:1"), Some(&request_info), None, &outcome());
        for line in [&combined, &json] {
            proptest::prop_assert_eq!(line.chars().filter(|c| c.is_control()).collect::<String>(), "\n");
        }
        proptest::prop_assert_eq!(combined.matches('"').count(), 6);
        let read: serde_json::Value = serde_json::from_str(&json).unwrap();
        proptest::prop_assert_eq!(read["user_agent"].as_str().unwrap(), String::from_utf8_lossy(value));
    }
}

#[test]
fn a_reopened_log_writes_to_the_new_file() {
    let folder = tempfile::tempdir().unwrap();
    let (path, renamed) = (folder.path().join("access.log"), folder.path().join("access.log.1"));
    let errors = ErrorLog::to(tempfile::tempfile().unwrap()).unwrap();
    let options = AccessLogOptions::new(Destination::File(path.clone()), Format::default());
    let log = AccessLog::open(options, &errors).unwrap();
    let exchange = |target: &str| {
        let (client, request) = (client("192.0.2.7:1"), request(target, &[]));
        log.finished(&finished(&client, Some(&request), &outcome(), &Notes::default()));
    };
    exchange("/before");
    std::fs::rename(&path, &renamed).unwrap();
    exchange("/between");
    log.reopen().unwrap();
    exchange("/after");
    log.close();
    let targets = |path: &Path| {
        let text = std::fs::read_to_string(path).unwrap();
        text.lines().map(|line| line.split(' ').nth(6).unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(targets(&renamed), ["/before", "/between"]);
    assert_eq!(targets(&path), ["/after"]);
}

#[test]
fn lost_lines_are_reported_in_the_log_and_in_the_error_log() {
    let mut error_log = tempfile::tempfile().unwrap();
    let errors = ErrorLog::to(error_log.try_clone().unwrap()).unwrap();
    let report =
        |format, lost: &LogFailure| report_failure("access log x".to_owned(), format, errors.clone())(lost);
    let combined = report(Format::default(), &LogFailure::Dropped(12)).unwrap();
    assert!(combined.starts_with("# [") && combined.contains("] 12 lines dropped here"), "{combined}");
    let json: serde_json::Value =
        serde_json::from_str(&report(Format::Json, &LogFailure::Dropped(12)).unwrap()).unwrap();
    assert_eq!(json["dropped_lines"], 12);
    assert_eq!(report(Format::Json, &LogFailure::Failed(io::ErrorKind::StorageFull.into(), 3)), None);
    let not_tidied = LogFailure::NotTidied(io::Error::other("cannot compress the rotated file x.1"));
    assert_eq!(report(Format::Json, &not_tidied), None);
    errors.close();
    error_log.rewind().unwrap();
    let errors = io::read_to_string(error_log).unwrap();
    assert!(errors.contains("error: access log x: 12 lines dropped, because"), "{errors}");
    assert!(
        errors.contains("error: access log x: cannot write: no storage space; lines lost so far: 3"),
        "{errors}"
    );
    assert!(
        errors.contains("error: access log x: cannot compress the rotated file x.1; Rudy tries"),
        "{errors}"
    );
}

#[test]
fn a_log_that_cannot_be_opened_is_an_error() {
    let errors = ErrorLog::to(tempfile::tempfile().unwrap()).unwrap();
    let destination = Destination::File("/nowhere/access.log".into());
    assert!(AccessLog::open(AccessLogOptions::new(destination, Format::Json), &errors).is_err());
}

/// Notes about a request to an upstream, with all that steps and handlers know.
fn notes() -> Notes {
    let mut notes = Notes {
        route: Some(Arc::new(RouteName::new("example.org".into(), Some("/api/*".into())))),
        user: Some("Ada L".into()),
        cache: Some("miss"),
        limit: Some("logins".into()),
        ..Notes::default()
    };
    let start = Instant::now();
    notes.upstream_requested(start);
    notes.upstream_requested(start);
    notes.upstream_connected(UpstreamName::Ip(([10, 0, 0, 2], 80).into()), start + Duration::from_micros(20));
    notes.upstream_responded(Some(StatusCode::BAD_GATEWAY), start + Duration::from_micros(320));
    notes
}

#[test]
fn a_line_shows_the_notes_of_steps_and_handlers() {
    let traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let request = request("/api/x?y", &[("traceparent", traceparent.as_bytes())]);
    let (client, outcome, notes) = (client("192.0.2.7:1"), outcome(), notes());
    let exchange = Finished { request_body_bytes: 7, ..finished(&client, Some(&request), &outcome, &notes) };
    let members = format!(
        ",\"traceparent\":\"{traceparent}\",\"user\":\"Ada L\",\"site\":\"example.org\",\"route\":\"/api/*\",\
         \"upstream\":\"10.0.0.2:80\",\"attempts\":2,\"upstream_connect_us\":20,\"upstream_wait_us\":300,\"upstream_status\":502,\
         \"cache\":\"miss\",\"limit\":\"logins\",\"status\":200,\"request_body_bytes\":7,\"body_bytes\":512,"
    );
    let json = line(&Format::Json, &exchange);
    assert!(json.contains(&members), "{json}");
    let combined = line(&Format::default(), &exchange);
    assert!(combined.starts_with("192.0.2.7 - Ada\\x20L [T] \"GET "), "{combined}");
    for (template, expected) in [
        ("{user}|\"{user}\"", "Ada\\x20L|\"Ada L\""),
        ("{site}{route} {upstream} {attempts} {cache}", "example.org/api/* 10.0.0.2:80 2 miss"),
        (
            "{upstream_head_us} {upstream_response_us} {upstream_addresses} {upstream_statuses} {upstream.server}",
            "320 - 10.0.0.2:80 502 -",
        ),
        ("{path} {target} {scheme} {header.x-a} {referer}", "/api/x /api/x?y http - -"),
        ("{tls} {tls_group} {client_port} {} {x", "- - 1 {} {x"),
    ] {
        let format: Format = template.parse().unwrap();
        assert_eq!(format.to_string(), template);
        assert_eq!(line(&format, &exchange), format!("{expected}\n"));
    }
}

#[test]
fn a_line_shows_the_trace_of_the_request() {
    let own = Parent::parse(b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00").unwrap();
    let trace = Trace { own, parent: None, state: String::new() };
    let (client, outcome, notes) = (client("192.0.2.7:1"), outcome(), Notes::default());
    let exchange = Finished { trace: Some(&trace), ..finished(&client, None, &outcome, &notes) };
    let format: Format = "{trace_id} {span_id}".parse().unwrap();
    assert_eq!(line(&format, &exchange), "0af7651916cd43dd8448eb211c80319c b7ad6b7169203331\n");
    let json = line(&Format::Json, &exchange);
    let members = ",\"trace_id\":\"0af7651916cd43dd8448eb211c80319c\",\"span_id\":\"b7ad6b7169203331\",";
    assert!(json.contains(members), "{json}");
}

#[test]
fn a_traceparent_that_is_none_is_not_logged() {
    let format: Format = "{traceparent}".parse().unwrap();
    for (value, is_logged) in [
        ("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", true),
        ("01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more", true),
        ("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more", false),
        ("ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", false),
        ("00-00000000000000000000000000000000-b7ad6b7169203331-01", false),
        ("00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01", false),
        ("00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01", false),
        ("00-0af7651916cd43dd-b7ad6b7169203331-01", false),
        ("spam", false),
    ] {
        let request = request("/", &[("traceparent", value.as_bytes())]);
        let (client, outcome, notes) = (client("192.0.2.7:1"), outcome(), Notes::default());
        let line = line(&format, &finished(&client, Some(&request), &outcome, &notes));
        assert_eq!(line.trim_end(), if is_logged { value } else { "-" });
    }
}

#[test]
fn a_format_without_fields_or_with_secrets_is_rejected() {
    for (format, part) in [
        ("common", "expected \"combined\", \"json\""),
        ("{clinet}", "no field is named {clinet}"),
        ("{header.}", "not a field name"),
        ("{header.Authorization}", "is a secret"),
        ("{header.cookie}", "is a secret"),
        ("{response.Set-Cookie}", "is a secret"),
        ("{upstream.set-cookie}", "is a secret"),
        ("{response.}", "not a field name"),
        ("{client}\n", "without control characters"),
    ] {
        let error = format.parse::<Format>().unwrap_err();
        assert!(error.contains(part), "{format}: {error}");
    }
}

#[test]
fn conditions_select_exchanges() {
    let patterns = |paths: &[&str]| paths.iter().map(|path| path.parse().unwrap()).collect();
    let errors = || Conditions {
        statuses: vec!["4xx".parse().unwrap(), "500-503".parse().unwrap()],
        ..Conditions::default()
    };
    let slow = || Conditions { slower_than: Some(Duration::from_micros(500)), ..Conditions::default() };
    for (conditions, target, status, duration_us, weight) in [
        (Conditions::default(), "/a", 200, 1, 1),
        (errors(), "/a", 200, 1, 0),
        (errors(), "/a", 404, 1, 1),
        (errors(), "/a", 504, 1, 0),
        (slow(), "/a", 200, 500, 0),
        (slow(), "/a", 200, 501, 1),
        (Conditions { sample: Some(1), ..errors() }, "/a", 200, 1, 1),
        (Conditions { sample: Some(u32::MAX), ..errors() }, "/a", 404, 1, 1),
        (Conditions { paths: patterns(&["/api/*"]), ..Conditions::default() }, "/api/x", 200, 1, 1),
        (Conditions { paths: patterns(&["/api/*"]), ..Conditions::default() }, "/x/../ap%69/x", 200, 1, 1),
        (Conditions { paths: patterns(&["/api/*"]), ..Conditions::default() }, "/a", 500, 1, 0),
        (Conditions { except_paths: patterns(&["/health"]), ..errors() }, "/health", 500, 1, 0),
        (Conditions { except_paths: patterns(&["/health"]), ..Conditions::default() }, "/%", 400, 1, 1),
    ] {
        let (client, request, notes) = (client("192.0.2.7:1"), request(target, &[]), Notes::default());
        let status = Some(StatusCode::from_u16(status).unwrap());
        let outcome = ExchangeOutcome { status, duration: Duration::from_micros(duration_us), ..outcome() };
        let exchange = finished(&client, Some(&request), &outcome, &notes);
        assert_eq!(conditions.weight(&exchange), weight, "{conditions:?} {target} {status:?}");
    }
}

#[test]
fn a_sample_is_about_its_share() {
    let conditions = Conditions { sample: Some(10), ..Conditions::default() };
    let (client, outcome, notes) = (client("192.0.2.7:1"), outcome(), Notes::default());
    let request = request("/", &[]);
    let exchange = finished(&client, Some(&request), &outcome, &notes);
    let logged = (0..10_000).filter(|_| conditions.weight(&exchange) == 10).count();
    // Ten standard deviations around 1,000.
    assert!((700..=1300).contains(&logged), "{logged}");
}

#[test]
fn statuses_are_single_or_classes_or_ranges() {
    for (text, shown) in [("404", "404"), ("5xx", "5xx"), ("500-599", "5xx"), ("500-503", "500-503")] {
        assert_eq!(text.parse::<StatusRange>().unwrap().to_string(), shown);
    }
    for text in ["", "xx", "6xx", "99", "600", "503-500", "4xx-5xx", "655xx"] {
        assert!(text.parse::<StatusRange>().is_err(), "{text}");
    }
}

#[test]
fn every_word_for_the_end_is_documented() {
    let page = include_str!("../../../../docs/logs.md");
    for reason in [
        EndReason::Completed,
        EndReason::PeerGone,
        EndReason::PeerStalled,
        EndReason::Aborted,
        EndReason::ServerStopped,
        EndReason::Killed,
    ] {
        let word = ended_word(reason);
        assert!(page.contains(&format!("\n| `{word}` | ")), "docs/logs.md lacks {word}");
    }
}

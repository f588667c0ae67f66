//! A response is stored, looked up, updated and extended; or the input is the record of a stored response.

use http::{HeaderMap, HeaderName, HeaderValue, Request, Response};
use rudy_cache::{
    Decision, Exchange, Heuristic, HttpDate, Key, Parameters, Policy, QueryRules, Seconds, Stored,
};
use rudy_message::syntax::split_field;

pub(crate) fn run(data: &[u8]) {
    let [kind, seconds, rest @ ..] = data else { return };
    if kind % 4 == 0 {
        if let Ok(stored) = Stored::decode(rest) {
            check_record(&stored);
        }
    } else {
        conversation(*kind, i64::from(*seconds), rest);
    }
}

/// Checks that a response is the same after it was written and read.
fn check_record(stored: &Stored) {
    let mut record = Vec::new();
    stored.encode(&mut record);
    assert_eq!(Stored::decode(&record).as_ref(), Ok(stored));
}

/// The input has the fields of a response, of the request for it and of a second request, separated by NUL.
fn conversation(kind: u8, seconds: i64, text: &[u8]) {
    let policy = Policy {
        targets: vec![HeaderName::from_static("cdn-cache-control")],
        heuristic: (kind & 8 != 0).then_some(Heuristic { percent: 10, max: Seconds::new(60) }),
        ignore_client: kind & 16 != 0,
        ignore_origin: seconds & 1 != 0,
        remove_set_cookie: kind & 32 != 0,
        stale_if_error: Seconds::new(u64::from(kind & 64)),
        stale_beside_s_maxage: kind & 128 != 0,
        query: QueryRules { parameters: Parameters::Except(vec!["x*".into()]), sorted: kind & 8 != 0 },
        ..Policy::default()
    };
    let mut heads = text.split(|byte| *byte == 0).map(fields);
    let mut head = || heads.next().unwrap_or_default();
    let mut response = Response::new(());
    *response.status_mut() = [200, 206, 404][usize::from(kind % 3)].try_into().expect("a status");
    *response.headers_mut() = head();
    let (mut first, mut second) = (Request::new(()), Request::new(()));
    *first.headers_mut() = head();
    *second.headers_mut() = head();
    let at = |seconds| HttpDate::from_unix_seconds(784_111_777 + seconds);
    let exchange = Exchange { requested_at: at(0), received_at: at(1) };
    let Ok(stored) = policy.store(&first, &response, exchange) else { return };
    check_record(&stored);

    let mut stored = vec![stored];
    let decision = policy.lookup(&second, &stored, at(seconds));
    match decision {
        Decision::Hit(selected) => {
            let allows_stale =
                second.headers().get_all("cache-control").iter().any(|line| {
                    line.as_bytes().to_ascii_lowercase().windows(9).any(|text| text == b"max-stale")
                });
            assert!(selected.ttl > 0 || (allows_stale && !policy.ignore_client), "{selected:?}");
        }
        Decision::StaleHit(selected) => assert!(selected.ttl <= 0, "{selected:?}"),
        _ => {}
    }
    let mut upstream = second.headers().clone();
    decision.prepare(&stored, &mut upstream);
    assert_ne!(decision, Decision::Forward(rudy_cache::Forward::UriMiss), "one response is stored");
    let _ = stored[0].verdict(&second);

    let _ = policy.combine(&second, &response, &mut stored[0], exchange);
    check_record(&stored[0]);
    *response.status_mut() = http::StatusCode::NOT_MODIFIED;
    let _ = policy.freshen(&second, &response, &mut stored, exchange);
    check_record(&stored[0]);
    *second.method_mut() = http::Method::POST;
    *response.status_mut() = http::StatusCode::OK;
    let origin: &[u8] = b"https://a.example/";
    for key in policy.invalidated(&second, &response, &Key::new(true, b"a.example", b"/b?c")) {
        assert!(key.as_bytes().starts_with(origin), "{key:?}");
    }
}

fn fields(text: &[u8]) -> HeaderMap {
    let mut fields = HeaderMap::new();
    for (name, value) in text.split(|byte| *byte == b'\n').filter_map(split_field) {
        if let (Ok(name), Ok(value)) = (HeaderName::from_bytes(name), HeaderValue::from_bytes(value)) {
            fields.append(name, value);
        }
    }
    fields
}

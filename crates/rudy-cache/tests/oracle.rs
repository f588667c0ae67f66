//! The decisions of `http-cache-semantics` and of this crate, for random responses and requests.
//!
//! Both decide whether a response is stored, and whether it is used without validation some time later. Each difference has to be
//! one of [`Scenario::differences`]: a section of the RFC that the other implementation does not follow, or a choice that the RFC
//! leaves open.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::time::{Duration, UNIX_EPOCH};

use http::{Request, Response};
use http_cache_semantics::{BeforeRequest, CacheOptions, CachePolicy};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, TestRunner};
use rudy_cache::{Decision, Exchange, Heuristic, HttpDate, Policy, Seconds};

/// 08:49:37 on 6 November 1994.
const RECEIVED_AT: i64 = 784_111_777;

/// A response, and a second request for it after some time.
#[derive(Debug, Clone)]
struct Scenario {
    status: u16,
    directives: Vec<&'static str>,
    expires: Option<&'static str>,
    age: Option<&'static str>,
    date: &'static str,
    modified: bool,
    etag: bool,
    set_cookie: bool,
    vary: Option<&'static str>,
    authorization: bool,
    no_store: bool,
    wait: i64,
    client: Vec<&'static str>,
    other_language: bool,
    head: bool,
}

const DATE: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
const EARLIER: &str = "Sun, 06 Nov 1994 08:49:17 GMT";

fn scenario() -> impl Strategy<Value = Scenario> {
    let directives = select(vec![
        "max-age=60",
        "max-age=10",
        "max-age=\"60\"",
        "max-age=x",
        "max-age=99999999999999999999",
        "s-maxage=20",
        "s-maxage=0",
        "public",
        "private",
        "private=\"x-a\"",
        "no-cache",
        "no-cache=\"x-a\"",
        "no-store",
        "must-revalidate",
        "proxy-revalidate",
        "must-understand",
        "immutable",
        "stale-while-revalidate=60",
        "Max-Age=60",
        "x=\"y, no-store, z\"",
    ]);
    let client = select(vec![
        "no-cache",
        "max-age=5",
        "max-age=30",
        "max-age=x",
        "max-stale",
        "max-stale=5",
        "min-fresh=5",
        "min-fresh=30",
        "only-if-cached",
    ]);
    let response = (
        select(vec![200, 200, 200, 203, 301, 302, 404, 500]),
        vec(directives, 0..3),
        option::weighted(0.2, select(vec!["Sun, 06 Nov 1994 08:50:17 GMT", DATE, "0", "tomorrow"])),
        option::weighted(0.2, select(vec!["5", "40", "x"])),
        select(vec![DATE, DATE, DATE, EARLIER]),
    );
    let fields = (
        any::<bool>(),
        any::<bool>(),
        prop::bool::weighted(0.1),
        option::weighted(0.3, select(vec!["accept-language", "accept", "*"])),
    );
    let request = (prop::bool::weighted(0.2), prop::bool::weighted(0.1));
    let second = (0..100_i64, vec(client, 0..2), any::<bool>(), prop::bool::weighted(0.1));
    (response, fields, request, second).prop_map(|(response, fields, request, second)| {
        let (status, directives, expires, age, date) = response;
        let (modified, etag, set_cookie, vary) = fields;
        let (authorization, no_store) = request;
        let (wait, client, other_language, head) = second;
        Scenario {
            status,
            directives,
            expires,
            age,
            date,
            modified,
            etag,
            set_cookie,
            vary,
            authorization,
            no_store,
            wait,
            client,
            other_language,
            head,
        }
    })
}

impl Scenario {
    fn response(&self) -> Response<()> {
        let mut response = Response::builder().status(self.status).header("date", self.date);
        let optional = [
            ("cache-control", (!self.directives.is_empty()).then(|| self.directives.join(", "))),
            ("expires", self.expires.map(Into::into)),
            ("age", self.age.map(Into::into)),
            // 1,000 seconds before: fresh for 100 seconds by heuristics.
            ("last-modified", self.modified.then(|| "Sun, 06 Nov 1994 08:32:57 GMT".into())),
            ("etag", self.etag.then(|| "\"a\"".into())),
            ("set-cookie", self.set_cookie.then(|| "a=1".into())),
            ("vary", self.vary.map(Into::into)),
        ];
        for (name, value) in optional {
            if let Some(value) = value {
                response = response.header(name, value);
            }
        }
        response.body(()).expect("valid fields")
    }

    fn first_request(&self) -> Request<()> {
        let mut request = Request::get("https://a.example/").header("accept-language", "de");
        if self.authorization {
            request = request.header("authorization", "Basic YTpi");
        }
        if self.no_store {
            request = request.header("cache-control", "no-store");
        }
        request.body(()).expect("valid fields")
    }

    fn second_request(&self) -> Request<()> {
        let method = if self.head { "HEAD" } else { "GET" };
        let language = if self.other_language { "en" } else { "de" };
        let request =
            Request::builder().method(method).uri("https://a.example/").header("accept-language", language);
        request.header("cache-control", self.client.join(", ")).body(()).expect("valid fields")
    }

    /// Our decisions: whether the response is stored, and whether it is used without validation.
    fn ours(&self) -> (bool, bool) {
        let policy =
            Policy { heuristic: Some(Heuristic { percent: 10, max: Seconds::MAX }), ..Policy::default() };
        let received_at = HttpDate::from_unix_seconds(RECEIVED_AT);
        let exchange = Exchange { requested_at: received_at, received_at };
        let Ok(stored) = policy.store(&self.first_request(), &self.response(), exchange) else {
            return (false, false);
        };
        let now = HttpDate::from_unix_seconds(RECEIVED_AT + self.wait);
        let decision = policy.lookup(&self.second_request(), &[stored], now);
        (true, matches!(decision, Decision::Hit(_)))
    }

    fn theirs(&self) -> (bool, bool) {
        let received_at = UNIX_EPOCH + Duration::from_secs(RECEIVED_AT.unsigned_abs());
        let options = CacheOptions { immutable_min_time_to_live: Duration::ZERO, ..CacheOptions::default() };
        let policy = CachePolicy::new_options(&self.first_request(), &self.response(), received_at, options);
        let now = received_at + Duration::from_secs(self.wait.unsigned_abs());
        let is_used = matches!(policy.before_request(&self.second_request(), now), BeforeRequest::Fresh(_));
        (policy.is_storable(), policy.is_storable() && is_used)
    }

    /// Returns the reasons why the decisions may differ, each with the section that permits or requires ours.
    fn differences(&self) -> Vec<&'static str> {
        let has = |directive: &str| self.directives.contains(&directive);
        let names =
            |name: &str| self.directives.iter().filter(|directive| directive.starts_with(name)).count();
        let is_stale_allowed = self.client.iter().any(|client| client.starts_with("max-stale"));
        let reasons = [
            (has("x=\"y, no-store, z\""), "§5.2: a comma in a quoted string separates nothing"),
            (has("Max-Age=60"), "§5.2: names are case-insensitive"),
            (has("max-age=99999999999999999999"), "§1.2.2: a number that is too large is 2^31"),
            (
                names("max-age") + names("Max-Age") > 1,
                "§4.2.1: conflicting directives make a response stale, encouraged",
            ),
            (names("s-maxage") > 1, "§4.2.1: conflicting directives make a response stale, encouraged"),
            (has("private=\"x-a\""), "§5.2.2.7: only the named fields are private"),
            (has("no-cache=\"x-a\""), "§5.2.2.4: only the named fields need validation"),
            (has("must-understand"), "§5.2.2.3: overrides no-store"),
            (has("proxy-revalidate"), "§5.2.2.8: forbids only the use of a stale response"),
            (names("s-maxage") > 0 && is_stale_allowed, "§5.2.2.10: forbids the use of a stale response"),
            (
                has("no-cache") && is_stale_allowed,
                "§5.2.2.4: requires a validation, whatever the client accepts",
            ),
            (has("immutable"), "RFC 8246 §2.1: a fresh response satisfies max-age=0"),
            (self.date == EARLIER, "§4.2.3: the apparent age counts"),
            (self.set_cookie, "§7.3: responses with cookies are not stored, a choice"),
            (self.vary == Some("*"), "§4.1: never matches, so it is not stored, a choice"),
            (self.status == 500, "§3: a final status that permits storing need not be understood"),
            (
                !self.etag && !self.modified,
                "§3: a response that is never fresh and has no validator is not stored, a choice",
            ),
            (self.head, "§4: a response to GET satisfies HEAD (RFC 9110 §9.3.2)"),
            (self.client.contains(&"max-age=x"), "§4.2.1: an invalid argument is the most restrictive one"),
            (self.client.contains(&"max-stale=5"), "§5.2.1.2: \"no more than\" includes the limit"),
        ];
        reasons.into_iter().filter(|(applies, _)| *applies).map(|(_, reason)| reason).collect()
    }
}

#[test]
fn decisions_differ_from_the_oracle_only_by_rules() {
    let (compared, used) = (Cell::new(0), Cell::new(0));
    let mut runner =
        TestRunner::new(Config { cases: 20_000, failure_persistence: None, ..Config::default() });
    let result = runner.run(&scenario(), |scenario| {
        let (ours, theirs) = (scenario.ours(), scenario.theirs());
        if scenario.differences().is_empty() {
            compared.set(compared.get() + 1);
            used.set(used.get() + usize::from(ours.1));
            prop_assert_eq!(ours, theirs, "{:?}", scenario);
        }
        Ok(())
    });
    result.unwrap();
    // Half of what is expected: a fifth of the scenarios has no reason to differ, and a fifth of those is used.
    assert!(compared.get() > 2000 && used.get() > 400, "compared {}, used {}", compared.get(), used.get());
}

/// Each reason is real: alone, it makes a decision differ.
#[test]
fn every_difference_occurs() {
    let mut occurs = BTreeMap::new();
    let mut runner = TestRunner::deterministic();
    for _ in 0..30_000 {
        let scenario = scenario().new_tree(&mut runner).unwrap().current();
        if let [reason] = scenario.differences()[..] {
            *occurs.entry(reason).or_default() |= scenario.ours() != scenario.theirs();
        }
    }
    occurs.retain(|_, occurs: &mut bool| !*occurs);
    assert!(occurs.is_empty(), "no decision differs by: {occurs:#?}");
}

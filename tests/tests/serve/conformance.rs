//! Runs the cases of `tests/conformance` against the state machine, and over loopback on every engine.

use rudy_net::engine;
use rudy_net::engine::{Engine, Options, Report};
use rudy_tests::all_engines;
use rudy_tests::conformance::socket::{EngineServer, Listen, ends_with_wait};
use rudy_tests::conformance::{Case, Http2, Sites, Step, Transcript, check, load_all, pure, streams};
use rudy_tests::prelude::*;
use rudy_tests::tls::LocalTls;

/// Inputs up to this size are split at every position, longer ones only at every 97th byte, because the cost is quadratic.
const ALL_SPLITS_BYTES: usize = 2048;

/// The parts of HTTP/1.1 that cases without an equivalent in HTTP/2 are about, and the number of these cases.
const ONLY_HTTP1: &[(&str, u32)] = &[
    ("Host", 1),
    ("a body without flow control", 1),
    ("the absolute form", 4),
    ("the chunked coding", 35),
    ("the lifetime of a connection", 9),
    ("the lines of a head", 8),
    ("the request line", 8),
    ("the size of a head", 3),
    ("the version", 30),
    ("upgrades", 2),
];

#[test]
fn cases_pass_in_one_piece_and_at_every_split() {
    let cases = cases();
    let failures: Vec<String> = cases.iter().filter_map(first_failure).collect();
    assert!(failures.is_empty(), "{} of {} fail:\n{}", failures.len(), cases.len(), failures.join("\n"));
}

#[test]
fn percore_conforms() {
    assert_conforms(Model::PerCore, Listen::Plain, &cases());
}

#[test]
fn percore_conforms_over_tls() {
    assert_conforms(Model::PerCore, Listen::Tls(&LocalTls::new()), &cases());
}

#[test]
fn percore_conforms_over_http2() {
    assert_conforms_with_streams(Model::PerCore, Listen::H2c);
}

#[test]
fn percore_conforms_over_http3() {
    assert_conforms_with_streams(Model::PerCore, Listen::Quic(&LocalTls::new()));
}

#[test]
fn all_engines_conform_to_the_basics() {
    let basics: Vec<_> = cases().into_iter().filter(|case| case.place.contains("/basics.case:")).collect();
    assert!(basics.len() > 10);
    for model in all_engines() {
        assert_conforms(model, Listen::Plain, &basics);
    }
}

#[test]
fn all_engines_conform() {
    if long() {
        for model in all_engines() {
            assert_conforms(model, Listen::Plain, &cases());
        }
    }
}

#[test]
fn mailbox_and_pool_conform_over_tls() {
    if long() {
        let pool = Model::Pool(NonZeroUsize::MIN.saturating_add(1));
        for model in [Model::Mailbox, pool] {
            assert_conforms(model, Listen::Tls(&LocalTls::new()), &cases());
        }
    }
}

#[test]
fn task_and_mailbox_conform_over_http2() {
    if long() {
        assert_conforms_with_streams(Model::Task, Listen::H2c);
        assert_conforms_with_streams(Model::Mailbox, Listen::H2c);
    }
}

/// A case is either sent over HTTP/2 or names the part of HTTP/1.1 that it is about.
#[test]
fn cases_without_http2_are_about_these_parts_of_http1() {
    let mut counts = BTreeMap::new();
    for case in cases() {
        if let Http2::Without(part) = case.http2 {
            *counts.entry(part).or_insert(0) += 1;
        }
    }
    let counts: Vec<_> = counts.iter().map(|(part, count)| (&**part, *count)).collect();
    assert_eq!(counts, ONLY_HTTP1);
}

#[test]
fn names_of_cases_are_unique() {
    let mut names = HashSet::new();
    for case in cases() {
        assert!(names.insert(case.name.clone()), "{}: another case has the name `{}`", case.place, case.name);
    }
}

fn cases() -> Vec<Case> {
    load_all(&Path::new(env!("CARGO_MANIFEST_DIR")).join("conformance"))
}

/// Runs a case in one piece, byte by byte and at each split. Returns its first failure.
fn first_failure(case: &Case) -> Option<String> {
    let failure = |how: &str, problem: &str| Some(format!("{}: {}, {how}: {problem}", case.place, case.name));
    let in_one_piece = pure::run(case, usize::MAX, usize::MAX);
    if let Err(problem) = check(case, &in_one_piece) {
        return failure("in one piece", &problem);
    }
    let bytewise = pure::run(case, usize::MAX, 1);
    if bytewise != in_one_piece {
        return failure("byte by byte", &format!("{bytewise}\nin one piece {in_one_piece}"));
    }
    let bytes = sent_bytes(case);
    let stride = if bytes <= ALL_SPLITS_BYTES { 1 } else { 97 };
    (1..bytes).step_by(stride).find_map(|split| {
        let transcript = pure::run(case, split, usize::MAX);
        (transcript != in_one_piece).then(|| {
            failure(&format!("split at {split}"), &format!("{transcript}\nin one piece {in_one_piece}"))
        })?
    })
}

fn sent_bytes(case: &Case) -> usize {
    case.steps.iter().map(|step| if let Step::Send(bytes) = step { bytes.len() } else { 0 }).sum()
}

fn start(model: Model, sites: Arc<Sites>) -> Box<dyn Engine> {
    let options = Options { model, cores: NonZeroUsize::new(2), ..Options::default() };
    let reporter = |report: &Report| panic!("the engine reports a problem: {report:?}");
    engine::start(&options, sites, Arc::new(reporter)).expect("the engine starts")
}

/// Runs every case that has an equivalent in versions with streams. Slow cases run concurrently.
fn assert_conforms_with_streams(model: Model, listen: Listen<'_>) {
    let start = move |sites| start(model, sites);
    let cases = cases();
    let cases = cases.iter().filter(|case| !matches!(case.http2, Http2::Without(_)));
    let (slow, quick): (Vec<_>, Vec<_>) = cases.partition(|case| ends_with_wait(case));
    let failure = |server: &EngineServer, case: &Case| {
        streams::run(server, listen, case)
            .err()
            .map(|problem| format!("{}: {}: {problem}", case.place, case.name))
    };
    let server = EngineServer::start(listen, start);
    let mut failures: Vec<String> = thread::scope(|scope| {
        let slow: Vec<_> = slow
            .into_iter()
            .map(|case| scope.spawn(move || failure(&EngineServer::start(listen, start), case)))
            .collect();
        slow.into_iter().filter_map(|case| case.join().expect("a case does not panic")).collect()
    });
    failures.extend(quick.into_iter().filter_map(|case| failure(&server, case)));
    assert!(failures.is_empty(), "{} cases fail:\n{}", failures.len(), failures.join("\n"));
}

/// Runs cases on an engine: in one piece, in two, and byte by byte if that is fast. Slow cases run concurrently.
fn assert_conforms(model: Model, listen: Listen<'_>, cases: &[Case]) {
    let start = move |sites| start(model, sites);
    let (slow, quick): (Vec<_>, Vec<_>) = cases.iter().partition(|case| ends_with_wait(case));
    let engine_server = EngineServer::start(listen, start);
    let mut failures: Vec<String> = thread::scope(|scope| {
        let slow = slow.into_iter().map(|case| {
            scope.spawn(move || difference(&EngineServer::start(listen, start), case, usize::MAX, usize::MAX))
        });
        let slow: Vec<_> = slow.collect();
        slow.into_iter().filter_map(|case| case.join().expect("a case does not panic")).collect()
    });
    for case in quick {
        let bytes = sent_bytes(case);
        let splits = [bytes / 4, bytes / 2, bytes - bytes / 4].map(|split| (split, usize::MAX));
        let bytewise = (bytes <= ALL_SPLITS_BYTES).then_some((usize::MAX, 1));
        let runs = [(usize::MAX, usize::MAX)].into_iter().chain(splits).chain(bytewise);
        failures.extend(
            runs.map(|(first, piece)| difference(&engine_server, case, first, piece))
                .find_map(|difference| difference),
        );
    }
    assert!(failures.is_empty(), "{} cases fail:\n{}", failures.len(), failures.join("\n"));
}

/// Returns the difference between an engine and the state machine.
fn difference(server: &EngineServer, case: &Case, first_bytes: usize, piece_bytes: usize) -> Option<String> {
    let expected = pure::run(case, usize::MAX, usize::MAX);
    let transcript = server.run(case, first_bytes, piece_bytes);
    let (output, expected_output) = (comparable(case, &transcript), comparable(case, &expected));
    if expected_output == output && transcript.saw == expected.saw && transcript.end == expected.end {
        return None;
    }
    let pieces = format!("the first piece of {first_bytes}, others of {piece_bytes} bytes");
    Some(format!("{}: {}, {pieces}: {transcript}\nby the state machine {expected}", case.place, case.name))
}

/// Returns the output without `Connection: close`, which depends on whether the client's end of input arrives before the last
/// response.
fn comparable(case: &Case, transcript: &Transcript) -> String {
    let output = transcript.output.escape_ascii().to_string();
    if case.steps.contains(&Step::EndOfInput) {
        output.replace("connection: close\\r\\n", "")
    } else {
        output
    }
}

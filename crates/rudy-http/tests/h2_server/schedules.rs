//! Random schedules of exchanges.

use h2::server::Builder;
use http::{HeaderMap, HeaderValue, Method};
use proptest::prelude::*;
use proptest::sample::select;
use rudy_http::Limits;
use rudy_http::h2::ErrorCode;

use crate::client::{Call, End, Reply};
use crate::h2_pair::trailers;
use crate::run;
use crate::server::Action;

/// The largest window, and the last one: see [`Action::Windows`].
const WINDOW_BYTES_MAX: u32 = 1 << 20;

fn call() -> impl Strategy<Value = Call> {
    let path = select(vec!["size", "stream", "early", "interim", "echo", "refuse", "reset"]);
    let bytes = || prop_oneof![Just(0), 1..300_usize, Just(100_000)];
    let cancel = proptest::option::weighted(0.2, select(vec![0, 1, 50_000]));
    let fields = proptest::collection::vec("[ -~]{0,40}", 0..4);
    (path, bytes(), bytes(), any::<(bool, bool)>(), cancel, fields).prop_map(
        |(name, number, body, (has_length, has_trailers), cancel_after, fields)| {
            let number = if name == "refuse" { number % 3 } else { number };
            let mut call = Call::post(&format!("/{name}/{number}"), vec![b'x'; body]);
            if body == 0 && has_length {
                call.method = Method::GET;
            }
            for (number, value) in fields.iter().enumerate() {
                let name = ["x-a", "x-b", "cookie", "authorization"][number];
                call.fields.insert(name, HeaderValue::try_from(value.trim()).unwrap());
            }
            if !has_length {
                call = call.with_trailers(if has_trailers { trailers() } else { HeaderMap::new() });
            }
            Call { cancel_after, ..call }
        },
    )
}

fn action() -> impl Strategy<Value = (usize, Action)> {
    let windows = proptest::collection::vec(select(vec![0, 1000, 65_535, WINDOW_BYTES_MAX]), 0..4);
    let windows = windows.prop_map(|sizes| Action::Windows([sizes, vec![WINDOW_BYTES_MAX]].concat()));
    let action = prop_oneof![windows, Just(Action::Ping)];
    (1..20_usize, action)
}

/// Checks what a call has led to.
fn check(call: &Call, reply: &Reply) -> Result<(), TestCaseError> {
    let (name, number) = call.path[1..].split_once('/').unwrap();
    let number: usize = number.parse().unwrap();
    match reply.end {
        Some(End::Whole) => {
            prop_assert!(name != "reset");
            prop_assert_eq!(reply.status, 200);
            prop_assert_eq!(reply.interims.len(), if name == "interim" { 2 } else { 0 });
            let expected = if name == "echo" { call.body.len() } else { number };
            prop_assert_eq!(reply.body.len(), expected);
            if name != "early" {
                prop_assert_eq!(reply.trailers.clone().unwrap_or_default(), call.trailers.clone());
            }
        }
        Some(End::Cancelled) => prop_assert!(call.cancel_after.is_some()),
        Some(End::Reset(code)) => {
            prop_assert!(name == "reset" && code == ErrorCode::INTERNAL_ERROR, "{}", code);
        }
        None => prop_assert!(false, "no end"),
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(40) })]

    #[test]
    fn each_exchange_ends_as_it_should(
        calls in proptest::collection::vec(call(), 1..40),
        actions in proptest::collection::vec(action(), 0..4),
        window in select(vec![1000_u32, 65_535, 1 << 20]),
        streams in select(vec![1_u32, 3, 100]),
        table in select(vec![0_u32, 100, 4096]),
    ) {
        let mut limits = Limits::for_responses();
        limits.http2.stream_window_bytes = window;
        let mut builder = Builder::new();
        builder.max_concurrent_streams(streams).header_table_size(table).max_concurrent_reset_streams(1000);
        let mut calls = calls;
        if streams < 100 {
            // The crate ends the connection if trailers are in transit for a stream that it refuses.
            for call in &mut calls {
                call.trailers.clear();
            }
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let (outcome, served) = runtime.block_on(run(&calls, limits, &builder, &actions));
        prop_assert_eq!(outcome.error, None);
        prop_assert!(served.error.is_none(), "{:?}", served.error);
        for (call, reply) in calls.iter().zip(&outcome.replies) {
            check(call, reply)?;
        }
    }
}

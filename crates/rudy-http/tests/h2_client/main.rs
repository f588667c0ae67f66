//! The server side of HTTP/2 against the client of the crate `h2`, in memory.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

#[path = "../h2_pair/mod.rs"]
mod h2_pair;
mod server;

use std::future::Future;

use bytes::{Bytes, BytesMut};
use h2::Reason;
use h2::client::{Builder, SendRequest};
use http::{HeaderMap, HeaderValue, Method, Request, Response};

use crate::h2_pair::{PATIENCE, TRANSIT_BYTES, collect, send_body, trailers};
use crate::server::{Options, Seen, serve};

/// Runs a client against the server. Returns what the server saw, and the error of the connection of the client.
async fn run<F: Future<Output = ()>>(
    options: Options,
    builder: &Builder,
    client: impl FnOnce(SendRequest<Bytes>) -> F,
) -> (Seen, Option<h2::Error>) {
    let whole = async {
        let (client_io, server_io) = tokio::io::duplex(TRANSIT_BYTES);
        let server = tokio::spawn(serve(server_io, options));
        let (sender, connection) = builder.handshake(client_io).await.unwrap();
        let connection = tokio::spawn(connection);
        client(sender).await;
        let error = connection.await.unwrap().err();
        (server.await.unwrap(), error)
    };
    tokio::time::timeout(PATIENCE, whole).await.expect("the exchange ends")
}

async fn run_default<F: Future<Output = ()>>(client: impl FnOnce(SendRequest<Bytes>) -> F) -> Seen {
    let (seen, error) = run(Options::default(), &Builder::new(), client).await;
    assert!(error.is_none(), "{error:?}");
    assert_eq!(seen.error, None);
    seen
}

fn request(method: Method, path: &str) -> Request<()> {
    Request::builder().method(method).uri(format!("http://a{path}")).body(()).unwrap()
}

/// Sends a request with a body, and returns the response with its body and trailers.
async fn exchange(
    sender: &SendRequest<Bytes>,
    request: Request<()>,
    body: Option<(Vec<u8>, Option<HeaderMap>)>,
) -> Result<(Response<()>, BytesMut, Option<HeaderMap>), h2::Error> {
    let mut sender = sender.clone().ready().await?;
    let (response, mut stream) = sender.send_request(request, body.is_none())?;
    drop(sender);
    let send = async {
        match body {
            Some((body, trailers)) => send_body(&mut stream, &body, trailers).await,
            None => Ok(()),
        }
    };
    let receive = async {
        let (head, mut body) = response.await?.into_parts();
        let (bytes, trailers) = collect(&mut body).await?;
        Ok((Response::from_parts(head, ()), bytes, trailers))
    };
    // An early response can end the request.
    let (_, received) = tokio::join!(send, receive);
    received
}

#[tokio::test]
async fn responses_with_and_without_a_length() {
    run_default(|sender| async move {
        for (path, bytes) in
            [("/size/0", 0), ("/size/5", 5), ("/size/1000000", 1_000_000), ("/stream/300000", 300_000)]
        {
            let (response, body, _) = exchange(&sender, request(Method::GET, path), None).await.unwrap();
            assert_eq!((response.status().as_u16(), body.len()), (200, bytes), "{path}");
            let length = response.headers().get("content-length").map(|length| length.to_str().unwrap());
            assert_eq!(length.is_some(), path.starts_with("/size"));
        }
    })
    .await;
}

#[tokio::test]
async fn responses_without_content() {
    run_default(|sender| async move {
        for (method, path) in [
            (Method::HEAD, "/size/1000"),
            (Method::HEAD, "/stream/9"),
            (Method::GET, "/status/204"),
            (Method::GET, "/status/304"),
        ] {
            let (_, body, _) = exchange(&sender, request(method, path), None).await.unwrap();
            assert_eq!(body.len(), 0);
        }
        let (response, ..) = exchange(&sender, request(Method::HEAD, "/size/1000"), None).await.unwrap();
        assert_eq!(response.headers()["content-length"], "1000");
    })
    .await;
}

#[tokio::test]
async fn bodies_larger_than_the_windows_and_trailers() {
    run_default(|sender| async move {
        for bytes in [0, 1, 65_535, 65_536, 3_000_000] {
            for trailers in [None, Some(trailers())] {
                let body: Vec<u8> = (0..bytes).map(|number: u32| number.to_le_bytes()[1]).collect();
                let sent = Some((body.clone(), trailers.clone()));
                let (_, echoed, received) =
                    exchange(&sender, request(Method::POST, "/echo"), sent).await.unwrap();
                assert!(echoed == body, "{bytes}");
                assert_eq!(received, trailers);
            }
        }
    })
    .await;
}

/// The windows have grown before the later streams open.
#[tokio::test]
async fn uploads_on_many_streams() {
    let options = Options::default();
    let (seen, error) = run(options, &Builder::new(), |sender| async move {
        for _ in 0..3 {
            let mut tasks = Vec::new();
            for number in 0..20 {
                let sender = sender.clone();
                tasks.push(tokio::spawn(async move {
                    let body = vec![number; 400_000];
                    let request = request(Method::POST, "/echo");
                    let (_, echoed, _) =
                        exchange(&sender, request, Some((body.clone(), None))).await.unwrap();
                    assert!(echoed == body);
                }));
            }
            for task in tasks {
                task.await.unwrap();
            }
        }
    })
    .await;
    assert!(error.is_none() && seen.error.is_none(), "{error:?} {seen:?}");
    assert_eq!(seen.requests, 60);
}

#[tokio::test]
async fn many_requests_beyond_the_concurrent_streams() {
    let seen = run_default(|sender| async move {
        let mut tasks = Vec::new();
        for number in 0..1000 {
            let sender = sender.clone();
            tasks.push(tokio::spawn(async move {
                let path = format!("/size/{}", number % 7 * 1000);
                let (_, body, _) = exchange(&sender, request(Method::GET, &path), None).await.unwrap();
                assert_eq!(body.len(), number % 7 * 1000);
            }));
        }
        for task in tasks {
            task.await.unwrap();
        }
    })
    .await;
    assert_eq!((seen.requests, seen.resets.len()), (1000, 0));
}

#[tokio::test]
async fn requests_that_the_client_cancels() {
    let seen = run_default(|sender| async move {
        for _ in 0..50 {
            let mut sender = sender.clone().ready().await.unwrap();
            let (response, mut stream) = sender.send_request(request(Method::POST, "/hang"), false).unwrap();
            stream.send_data(Bytes::from_static(b"abc"), false).unwrap();
            stream.send_reset(Reason::CANCEL);
            drop(response);
        }
        // A response is cancelled while its body arrives.
        let mut ready = sender.clone().ready().await.unwrap();
        let (response, _) = ready.send_request(request(Method::GET, "/size/1000000"), true).unwrap();
        let mut body = response.await.unwrap().into_body();
        body.data().await.unwrap().unwrap();
        drop(body);
        let (_, body, _) = exchange(&sender, request(Method::GET, "/size/500000"), None).await.unwrap();
        assert_eq!(body.len(), 500_000);
    })
    .await;
    assert!(
        seen.resets.iter().all(|(_, code)| *code == rudy_http::h2::ErrorCode::CANCEL),
        "{:?}",
        seen.resets
    );
    assert!(!seen.resets.is_empty());
}

#[tokio::test]
async fn streams_that_the_server_resets() {
    run_default(|sender| async move {
        for _ in 0..10 {
            let error = exchange(&sender, request(Method::GET, "/reset"), None).await.unwrap_err();
            assert_eq!(error.reason(), Some(Reason::INTERNAL_ERROR));
        }
        let (_, body, _) = exchange(&sender, request(Method::GET, "/size/9"), None).await.unwrap();
        assert_eq!(body.len(), 9);
    })
    .await;
}

/// The response is complete, although the request is not read.
#[tokio::test]
async fn early_responses() {
    run_default(|sender| async move {
        for _ in 0..20 {
            let body = Some((vec![0; 500_000], None));
            let (_, body, _) = exchange(&sender, request(Method::POST, "/early/100"), body).await.unwrap();
            assert_eq!(body.len(), 100);
        }
    })
    .await;
}

/// HEADERS and CONTINUATION in both directions.
#[tokio::test]
async fn large_heads() {
    let mut options = Options::default();
    options.limits.head_bytes = 60_000;
    let mut builder = Builder::new();
    builder.max_header_list_size(200_000);
    let (seen, error) = run(options, &builder, |sender| async move {
        for bytes in [10_000, 16_384, 40_000] {
            let mut request = request(Method::GET, &format!("/head/{bytes}"));
            // Bytes whose Huffman code is longer than they are.
            request.headers_mut().insert("large", HeaderValue::from_bytes(&vec![b'~'; bytes]).unwrap());
            let (response, ..) = exchange(&sender, request, None).await.unwrap();
            let seen: usize = response.headers()["x-head-bytes"].to_str().unwrap().parse().unwrap();
            assert!(seen > bytes && seen < bytes + 50, "{seen}");
            assert_eq!(response.headers()["large"].len(), bytes);
        }
        let mut request = request(Method::GET, "/size/0");
        for _ in 0..4 {
            request.headers_mut().append("large", HeaderValue::from_bytes(&[b'a'; 16_000]).unwrap());
        }
        let (response, ..) = exchange(&sender, request, None).await.unwrap();
        assert_eq!(response.status(), 431);
    })
    .await;
    assert!(error.is_none() && seen.error.is_none(), "{error:?} {seen:?}");
}

#[tokio::test]
async fn interim_responses_and_malformed_requests() {
    run_default(|sender| async move {
        let (response, body, _) = exchange(&sender, request(Method::GET, "/interim/7"), None).await.unwrap();
        assert_eq!((response.status().as_u16(), body.len()), (200, 7));
        let mut expecting = request(Method::POST, "/echo");
        expecting.headers_mut().insert("expect", HeaderValue::from_static("100-continue"));
        let (_, body, _) = exchange(&sender, expecting, Some((b"abc".to_vec(), None))).await.unwrap();
        assert_eq!(body, "abc");
        // A length that the body does not have.
        let mut wrong = request(Method::POST, "/echo");
        wrong.headers_mut().insert("content-length", HeaderValue::from_static("5"));
        let error = exchange(&sender, wrong, Some((b"abc".to_vec(), None))).await.unwrap_err();
        assert_eq!(error.reason(), Some(Reason::PROTOCOL_ERROR));
    })
    .await;
}

/// The client has small or large windows, small frames and no table for the header compression.
#[tokio::test]
async fn settings_of_the_client() {
    for (window, connection_window, table) in [(1, 1000, 0), (100, 100_000, 100), (1 << 24, 1 << 25, 65_536)]
    {
        let mut builder = Builder::new();
        builder.initial_window_size(window).initial_connection_window_size(connection_window);
        builder.header_table_size(table).max_frame_size(1 << 20);
        let mut options = Options::default();
        // The client asks for single bytes.
        options.limits.http2.control_frames = 100_000;
        let bytes = if window == 1 { 500 } else { 200_000 };
        let (seen, error) = run(options, &builder, |sender| async move {
            for _ in 0..3 {
                let path = format!("/stream/{bytes}");
                let (_, body, _) = exchange(&sender, request(Method::GET, &path), None).await.unwrap();
                assert_eq!(body.len(), bytes);
            }
        })
        .await;
        assert!(error.is_none() && seen.error.is_none(), "{window}: {error:?} {seen:?}");
    }
}

/// RFC 9113 §6.8: the requests in transit are answered, and later ones are not sent.
#[tokio::test]
async fn a_server_that_shuts_down_loses_nothing() {
    let options = Options { shut_down_after: Some(10), ..Options::default() };
    let (seen, error) = run(options, &Builder::new(), |sender| async move {
        let mut tasks = Vec::new();
        for _ in 0..50 {
            let sender = sender.clone();
            let request = request(Method::POST, "/echo");
            tasks.push(tokio::spawn(async move {
                let body = vec![1; 10_000];
                match exchange(&sender, request, Some((body, None))).await {
                    Ok((_, echoed, _)) => echoed.len() == 10_000,
                    // The client may repeat it.
                    Err(error) => !(error.is_go_away() && error.is_remote()),
                }
            }));
        }
        let mut answered = 0;
        for task in tasks {
            answered += usize::from(task.await.unwrap());
        }
        assert!(answered >= 10, "{answered}");
    })
    .await;
    assert!(error.is_none_or(|error| error.reason() == Some(Reason::NO_ERROR)));
    assert_eq!(seen.error, None);
}

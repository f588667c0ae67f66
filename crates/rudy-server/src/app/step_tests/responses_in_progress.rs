//! Tests of limits while a response is sent, on whole configurations.

use std::task::{Context, Poll, Waker};

use http::header;
use rudy_guard::Limits;
use rudy_service::{Body, Reply};

use super::limits::*;

/// A site with a slow, a streaming and a file route, and a request at a time.
fn slow() -> Site {
    Site::new(
        "[[site]]\nconcurrent_requests = 1\n[[site.route]]\npath = '/slow'\ndelay = { time = '10m', body = 'late' }\n\
         [[site.route]]\npath = '/small'\nrespond = { body = 'small' }\n\
         [[site.route]]\npath = '/*'\nfiles = { root = 'www', revalidate_after = '1h' }\n",
    )
}

fn active(site: &Site) -> usize {
    site.resources.of::<Limits>().status()[0].active_keys.unwrap()
}

#[test]
fn a_request_is_in_progress_until_its_response_was_sent_or_cancelled() {
    let site = slow();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let _entered = runtime.enter();
    let mut waiting = site.begin(A, "/slow", &[]);
    if let Reply::Later(future) = &mut waiting {
        assert!(future.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    }
    assert_eq!(active(&site), 1);
    let over = site.send(A, "/small", &[]);
    assert_eq!((over.status().as_u16(), over.headers().contains_key(header::RETRY_AFTER)), (429, false));
    assert_eq!(site.send_received(A, "/small", "").status(), 429);
    assert_eq!(site.status(B, "/small"), 200);
    drop(waiting);
    assert_eq!(active(&site), 0);
    assert_eq!(site.status(A, "/small"), 200);
    // A file is in progress until the connection drops its body.
    let whole = site.send(A, "/large.txt", &[]);
    assert_eq!((whole.body.length(), active(&site), site.status(A, "/small")), (Some(100_000), 1, 429));
    drop(whole);
    let received = site.send_received(A, "/large.txt", "");
    assert_eq!((received.body.length(), active(&site), site.status(A, "/small")), (Some(100_000), 1, 429));
    drop(received);
    assert_eq!((active(&site), site.status(A, "/small")), (0, 200));
    assert_eq!(site.over(), [(4, 0)]);
}

#[test]
fn a_request_is_in_progress_until_the_body_of_an_outer_step_was_sent() {
    let body = "text ".repeat(20_000);
    let site = Site::new(&format!(
        "[[site]]\nconcurrent_requests = 1\ncompression = true\nintercept_errors = true\n\
         error_pages = {{ 500 = {{ file = 'www/a.txt' }} }}\n\
         [[site.route]]\npath = '/error'\nrespond = {{ status = 500, body = '{body}' }}\n\
         [[site.route]]\npath = '/*'\nrespond = {{ body = '{body}' }}\n"
    ));
    let compressed = site.send(A, "/", &[("accept-encoding", "gzip")]);
    assert!(compressed.headers().contains_key(header::CONTENT_ENCODING));
    assert_eq!((active(&site), site.status(A, "/")), (1, 429));
    drop(compressed);
    assert_eq!(active(&site), 0);
    // The page replaces the large body, which is never sent.
    let replaced = site.send(A, "/error", &[]);
    assert!(replaced.status() == 500 && matches!(&replaced.body, Body::Bytes(text) if text == "text"));
    assert_eq!(active(&site), 0);
}

#[test]
fn a_file_is_paced_and_keeps_its_length() {
    let site = Site::new(
        "[[site]]\nbandwidth = { rate = '10000', after = '50000' }\nconcurrent_requests = 5\n\
         [[site.route]]\npath = '/*'\nfiles = { root = 'www', revalidate_after = '1h' }\n",
    );
    let whole = site.send(A, "/large.txt", &[]);
    let received = site.send_received(A, "/large.txt", "");
    assert!(matches!(site.send(A, "/a.txt", &[]).body, Body::Bytes(_)), "it is sent at once");
    for response in [whole, received] {
        assert_eq!((response.status().as_u16(), response.body.length()), (200, Some(100_000)));
        let Body::Stream(mut body) = response.body else { panic!("it is paced") };
        let (cx, start) = (&mut Context::from_waker(Waker::noop()), std::time::Instant::now());
        let (mut now, mut waits, mut pieces) = (start, 0, Vec::new());
        loop {
            match body.poll_piece(cx, now, 1 << 20) {
                Poll::Ready(Some(piece)) => pieces.push(piece.unwrap().length()),
                Poll::Ready(None) => break,
                Poll::Pending => {
                    waits += 1;
                    now = body.due().unwrap();
                }
            }
        }
        assert_eq!((pieces[0], pieces.iter().sum()), (51_000, 100_000));
        assert_eq!((waits, now.duration_since(start).as_millis()), (49, 4900));
    }
}

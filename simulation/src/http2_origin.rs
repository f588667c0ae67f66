//! An application behind HTTP/2, spoken by the crate `h2`, that may hang, lie, die and restart.

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use h2::server::{self, SendResponse};
use h2::{Reason, RecvStream, SendStream};
use http::Method;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout};

use crate::behaviour::Behaviour;
use crate::content::content;
use crate::judge::Judge;
use crate::network::End;
use crate::request::Resource;

/// An application over HTTP/2.
pub(crate) struct Http2Origin {
    pub(crate) judge: Arc<Judge>,
    pub(crate) random: Mutex<fastrand::Rng>,
    /// How often it misbehaves, of 1,000 requests.
    pub(crate) faults_per_mille: u32,
    /// How long the server waits for its response.
    pub(crate) patience: Duration,
}

/// What a request does to its connection.
#[derive(Default)]
struct Orders {
    /// It breaks.
    break_off: Notify,
    /// It takes no more requests.
    go_away: Notify,
}

impl Http2Origin {
    /// Serves a connection.
    pub(crate) async fn serve(self: Arc<Self>, end: End) -> Result<(), h2::Error> {
        let mut connection = self.builder().handshake::<_, Bytes>(end).await?;
        let orders = Arc::new(Orders::default());
        loop {
            let next = tokio::select! {
                biased;
                () = orders.break_off.notified() => return Ok(()),
                () = orders.go_away.notified() => {
                    connection.graceful_shutdown();
                    continue;
                }
                next = connection.accept() => next,
            };
            let Some(next) = next else { return Ok(()) };
            let (request, respond) = next?;
            let (origin, orders) = (self.clone(), orders.clone());
            tokio::spawn(async move { drop(origin.respond(request, respond, &orders).await) });
        }
    }

    fn builder(&self) -> server::Builder {
        let mut random = self.random.lock();
        let mut builder = server::Builder::new();
        if random.bool() {
            builder.max_concurrent_streams(random.u32(1..20));
            // See the window of clients.
            builder.initial_window_size(random.u32(1_000..100_000));
            builder.initial_connection_window_size(random.u32(65_535..400_000));
            builder.max_frame_size(random.u32(16_384..100_000));
            builder.header_table_size(random.u32(..8_192));
        }
        builder
    }

    async fn respond(
        &self,
        request: http::Request<RecvStream>,
        mut respond: SendResponse<Bytes>,
        orders: &Orders,
    ) -> Result<(), h2::Error> {
        let behaviour = Behaviour::random(&mut self.random.lock(), self.faults_per_mille);
        if behaviour == Behaviour::Leaves && self.random.lock().bool() {
            // The request is not processed, so it may be sent again.
            respond.send_reset(Reason::REFUSED_STREAM);
            return Ok(());
        }
        let field = |name: &str| request.headers().get(name)?.to_str().ok()?.parse::<u64>().ok();
        let (id, length) = (field("x-request").unwrap_or(0), field("content-length"));
        let (is_head, resource) = (request.method() == Method::HEAD, Resource::of_path(request.uri().path()));
        self.judge.reached_origin(id);
        let received = receive(request.into_body()).await?;
        if length.is_some_and(|length| length != received) {
            self.judge
                .fault(format!("request {id} reached an application with {received} of {length:?} bytes"));
        }
        match behaviour {
            Behaviour::Late(time) => {
                let begin = Instant::now();
                let has_ended = timeout(time, poll_fn(|cx| respond.poll_reset(cx))).await.is_ok();
                self.judge.check_wait(id, begin, self.patience);
                if has_ended {
                    return Ok(());
                }
            }
            Behaviour::Dies => {
                orders.break_off.notify_one();
                return Ok(());
            }
            Behaviour::Lies => {
                respond.send_reset(Reason::INTERNAL_ERROR);
                return Ok(());
            }
            Behaviour::Leaves => orders.go_away.notify_one(),
            Behaviour::Hangs => {
                let begin = Instant::now();
                // An error is the end of the connection.
                let _ = poll_fn(|cx| respond.poll_reset(cx)).await;
                self.judge.check_wait(id, begin, self.patience);
                return Ok(());
            }
            _ => {}
        }
        let head = http::Response::builder().header("x-request", id);
        let head = if resource.is_chunked { head } else { head.header("content-length", resource.length) };
        let is_empty = is_head || resource.length == 0;
        let mut body = respond.send_response(head.body(()).expect("a response"), is_empty)?;
        if !is_empty {
            self.send(&mut body, resource, behaviour, orders).await?;
        }
        Ok(())
    }

    async fn send(
        &self,
        body: &mut SendStream<Bytes>,
        resource: Resource,
        behaviour: Behaviour,
        orders: &Orders,
    ) -> Result<(), h2::Error> {
        let Resource { number, length, is_chunked } = resource;
        let (mut sent, part) = (0, self.random.lock().usize(1..30_000));
        while sent < length {
            body.reserve_capacity(part.min(length - sent));
            let Some(room) = poll_fn(|cx| body.poll_capacity(cx)).await else { return Ok(()) };
            let count = room?.min(length - sent);
            let is_half = sent * 2 > length;
            match behaviour {
                Behaviour::Pauses(time) if sent == 0 => sleep(time).await,
                Behaviour::DiesInBody if is_half => {
                    orders.break_off.notify_one();
                    return Ok(());
                }
                // Without a length, the end would be the right one.
                Behaviour::Truncates if is_half && is_chunked => {
                    body.send_reset(Reason::INTERNAL_ERROR);
                    return Ok(());
                }
                Behaviour::Truncates if is_half => return body.send_data(Bytes::new(), true),
                _ => {}
            }
            body.send_data(content(number, sent, count).into(), sent + count == length)?;
            sent += count;
        }
        Ok(())
    }
}

/// Receives a body. Returns its length.
async fn receive(mut body: RecvStream) -> Result<u64, h2::Error> {
    let mut received = 0;
    while let Some(bytes) = body.data().await {
        let bytes = bytes?;
        received += bytes.len() as u64;
        body.flow_control().release_capacity(bytes.len())?;
    }
    Ok(received)
}

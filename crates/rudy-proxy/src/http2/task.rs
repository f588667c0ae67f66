//! The task of a connection: sends and receives frames, and closes a connection that is idle or old.

use std::cell::RefCell;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use bytes::Buf;
use rudy_client::{Socket, with_buffer};
use rudy_http::h2::ErrorCode;
use rudy_http::h2::client::{Event, HeadBuffers};
use rudy_runtime::clock;
use tokio::time::{Sleep, sleep_until};

use super::LIMITS;
use super::connection::{AGE_MAX, End, Http2Connection, OUTPUT_BYTES, State, reset_cause};
use crate::fields::received_head;
use crate::received::Head;

/// How often a task may read in one poll, so that it does not delay the other connections of its core: 512 KiB.
const READS_MAX: u32 = 8;

thread_local! {
    /// The buffers for heads of all connections of this thread.
    static HEADS: RefCell<HeadBuffers> = RefCell::default();
}

/// Runs a connection until it ends.
pub(super) async fn run(connection: Arc<Http2Connection>, idle_timeout: Duration) {
    let mut timer = pin!(sleep_until((clock::now() + idle_timeout).into()));
    poll_fn(|cx| {
        let (polled, has_received) = connection.with(|state| {
            let last_received = state.last_received;
            state.poll_timer(cx, timer.as_mut(), connection.opened, idle_timeout);
            let polled = state.poll_input_and_output(cx);
            if let Poll::Ready(end) = &polled {
                state.close(end.clone());
            } else {
                state.task = Some(cx.waker().clone());
            }
            (polled.map(|_| ()), state.last_received > last_received)
        });
        if has_received || polled.is_ready() {
            connection.notify();
        }
        polled
    })
    .await;
}

impl State {
    /// Announces the end of a connection that is too old, or was idle for too long.
    fn poll_timer(
        &mut self,
        cx: &mut Context<'_>,
        mut timer: Pin<&mut Sleep>,
        opened: Instant,
        idle_timeout: Duration,
    ) {
        while timer.as_mut().poll(cx).is_ready() {
            let now = clock::now();
            let idle_end = if self.is_idle() { self.idle_since } else { now } + idle_timeout;
            let age_end = opened + AGE_MAX;
            if idle_end <= now || age_end <= now {
                self.shut_down();
            }
            // Requests may be in progress for long after the end was announced.
            let next = if age_end <= now { now + AGE_MAX } else { idle_end.min(age_end) };
            timer.as_mut().reset(next.max(now + Duration::from_millis(1)).into());
        }
    }

    /// Ready when the connection has ended.
    fn poll_input_and_output(&mut self, cx: &mut Context<'_>) -> Poll<End> {
        if let Some(end) = &self.end {
            return Poll::Ready(end.clone());
        }
        for _ in 0..READS_MAX {
            if let Poll::Ready(Err(end)) = self.poll_send(cx) {
                // What was received before tells the requests more than the failed write.
                let _ = (0..READS_MAX).try_for_each(|_| match self.poll_receive(cx) {
                    Poll::Ready(Ok(())) => Ok(()),
                    Poll::Ready(Err(_)) | Poll::Pending => Err(()),
                });
                return Poll::Ready(end);
            }
            // An upstream that does not read gets no acknowledgements for more.
            if self.output.len() > 2 * OUTPUT_BYTES {
                return Poll::Pending;
            }
            if let Err(end) = ready!(self.poll_receive(cx)) {
                return Poll::Ready(end);
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Sends frames. Ready when all were sent, or nothing more will be.
    fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), End>> {
        if self.is_retired && self.is_idle() {
            self.protocol.shut_down(&mut self.output);
        }
        let Some(socket) = &mut self.socket else { return Poll::Ready(Err(End::Closed)) };
        while !self.output.is_empty() {
            let sent = ready!(socket.poll_write(cx, &self.output)).map_err(|error| End::lost(&error))?;
            self.output.advance(sent);
        }
        ready!(socket.poll_flush(cx)).map_err(|error| End::lost(&error))?;
        if self.protocol.is_going_away() && self.is_idle() {
            // The upstream closes its end as well, or already has.
            let _ = self.socket.as_mut().map(Socket::finish);
            return Poll::Ready(Err(End::Closed));
        }
        self.wake_blocked();
        Poll::Ready(Ok(()))
    }

    /// Receives once.
    fn poll_receive(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), End>> {
        with_buffer(|buffer| {
            let Some(socket) = &mut self.socket else { return Poll::Ready(Err(End::Closed)) };
            let received = ready!(socket.poll_read(cx, buffer)).map_err(|error| End::lost(&error))?;
            Poll::Ready(self.receive(&buffer[..received]))
        })
    }

    /// Receives what the kernel has, such as the end of the connection.
    pub(super) fn receive_available(&mut self) {
        let ended = with_buffer(|buffer| {
            for _ in 0..READS_MAX {
                let Some(socket) = &mut self.socket else { break };
                let received = socket.read_now(buffer).map_err(|error| End::lost(&error))?;
                let Some(received) = received else { break };
                self.receive(&buffer[..received])?;
                // There may be acknowledgements to send.
                self.wake_task();
            }
            Ok(())
        });
        if let Err(end) = ended {
            self.close(end);
        }
    }

    fn receive(&mut self, input: &[u8]) -> Result<(), End> {
        if input.is_empty() {
            return Err(End::Closed);
        }
        self.last_received = clock::now();
        let decoded = self.decode(input);
        self.wake_blocked();
        decoded
    }

    fn decode(&mut self, mut input: &[u8]) -> Result<(), End> {
        let now = self.last_received;
        HEADS.with_borrow_mut(|heads| {
            loop {
                match self.protocol.receive(&mut input, heads, now, &LIMITS, &mut self.output) {
                    Ok(Some(event)) => self.handle(event),
                    Ok(None) => return Ok(()),
                    Err(error) => {
                        self.protocol.fail(error, &mut self.output);
                        // GOAWAY tells the upstream why; without room in the socket, it gets lost.
                        let cx = &mut Context::from_waker(std::task::Waker::noop());
                        let socket = self.socket.as_mut();
                        let _ = socket.map(|socket| socket.poll_write(cx, &self.output));
                        return Err(End::Violation(error));
                    }
                }
            }
        })
    }

    fn handle(&mut self, event: Event<'_>) {
        let Self { protocol, streams, output, wakers, requires_http11, .. } = self;
        match event {
            Event::Informational { stream: id, head } => {
                let Some(stream) = streams.get_mut(&id) else { return };
                if let Err(cause) = stream.add_interim(received_head(&head).head) {
                    protocol.cancel(id, output);
                    stream.fail(cause, wakers);
                }
                wakers.extend(stream.waker.take());
            }
            Event::Head { stream, head, ends } => {
                let Some(stream) = streams.get_mut(&stream) else { return };
                stream.parts.head = Some(Head::new(&head, received_head(&head)));
                stream.parts.is_complete = ends;
                wakers.extend(stream.waker.take());
            }
            Event::Data { stream, data, ends } => {
                protocol.open_connection_window(data.len(), output);
                let Some(stream) = streams.get_mut(&stream) else { return };
                stream.parts.body.extend_from_slice(data);
                stream.parts.is_complete = ends;
                wakers.extend(stream.waker.take());
            }
            Event::End { stream, trailers } => {
                let Some(stream) = streams.get_mut(&stream) else { return };
                stream.parts.trailers = trailers;
                stream.parts.is_complete = true;
                wakers.extend(stream.waker.take());
            }
            Event::Reset { stream, code, reason } => {
                let cause = reset_cause(code, reason, protocol.is_going_away(), *requires_http11);
                if let Some(stream) = streams.get_mut(&stream) {
                    stream.fail(cause.into(), wakers);
                }
            }
            Event::GoAway { code, .. } => *requires_http11 |= code == ErrorCode::HTTP_1_1_REQUIRED,
            Event::Settings => {}
        }
    }
}

//! One connection to an app, for one request at a time or for several that share it.

use std::cell::RefCell;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker, ready};

use bytes::{Buf, Bytes, BytesMut};
use rudy_fastcgi::gateway::{Event, GatewayConnection};
use rudy_fastcgi::{Fault, Limits, ProtocolStatus, RequestId, Role};

use super::failure::Failure;
use super::stream::{Home, Stream};

/// What is read at once: four records of php-fpm, whose answers come in pieces of 8 KiB.
const SCRATCH_BYTES: usize = 32 * 1024;

/// Room for a request without a body, as browsers send it: taken at once, so that it is not moved as it grows.
const REQUEST_BYTES: usize = 2 * 1024;

/// What waits to be sent before further pieces of bodies are taken: two pieces as they come from a socket.
const OUTPUT_BYTES: usize = 64 * 1024;

/// What is held for a request whose client does not take it. Beyond that the connection is not read, which holds up all who
/// share it: the protocol has no other way to slow an app down (the specification says so in section 3.3, "multiplexing").
const INBOX_BYTES: usize = 256 * 1024;

thread_local! {
    /// Shared by all connections that this thread reads, since none keeps what it has read.
    static SCRATCH: RefCell<Box<[u8]>> = RefCell::new(vec![0; SCRATCH_BYTES].into());
}

/// A socket, and what is known of the conversation on it. While nothing is under way it holds no buffer.
///
/// No task reads it: whoever waits for an answer reads for all, and wakes those whose answers it finds. What wakes the
/// socket's reader wakes one of those who wait ([`Wake`]); one that stops waiting passes that on.
#[derive(Debug)]
pub(super) struct Link {
    state: Mutex<State>,
    /// Those who wait. Apart from the state, because a socket may wake its reader while it is asked.
    waiting: Mutex<Vec<(Ticket, Waker)>>,
}

/// Names a request on a connection for good: its number is another's as soon as the app has ended it, which may be before it
/// has been told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ticket {
    /// Its number, while it is open.
    pub(super) id: RequestId,
    serial: u64,
    /// What had to be sent on the connection before it, in bytes.
    behind: u64,
}

#[derive(Debug)]
struct State {
    stream: Stream,
    /// Where that is watched.
    home: Home,
    machine: GatewayConnection,
    /// The beginning of a record that is not whole.
    rest: Vec<u8>,
    /// What is to be sent.
    output: BytesMut,
    /// Bytes that were sent so far.
    sent_bytes: u64,
    /// What others have read for a request.
    inboxes: Vec<Inbox>,
    /// Requests that there were so far.
    serial: u64,
    /// Nothing more can be sent. What was on its way from the app still comes.
    is_deaf: bool,
    /// Nothing comes any more, and why.
    broken: Option<Broken>,
}

/// What is held for a request until it asks.
#[derive(Debug)]
struct Inbox {
    ticket: Ticket,
    news: News,
    /// Nothing more comes for it.
    is_over: bool,
}

/// What has come for a request.
#[derive(Debug, Default)]
pub(super) struct News {
    /// Of its answer.
    pub(super) stdout: BytesMut,
    /// For the log.
    pub(super) stderr: BytesMut,
    /// That was all of its answer.
    pub(super) is_said: bool,
    /// It is over: the application status and the protocol status.
    pub(super) end: Option<(u32, ProtocolStatus)>,
}

#[derive(Debug, Clone, Copy)]
enum Broken {
    Lost(io::ErrorKind),
    Fault(Fault),
}

impl From<Broken> for Failure {
    fn from(broken: Broken) -> Self {
        match broken {
            Broken::Lost(kind) => Self::Lost(kind.into()),
            Broken::Fault(fault) => Self::Fault(fault),
        }
    }
}

impl News {
    fn is_empty(&self) -> bool {
        self.stdout.is_empty() && self.stderr.is_empty() && !self.is_said && self.end.is_none()
    }

    fn take(&mut self, event: Event<'_>) {
        match event {
            Event::Stdout { data, .. } => self.stdout.extend_from_slice(data),
            Event::StdoutEnd { .. } => self.is_said = true,
            Event::Stderr { data, .. } => self.stderr.extend_from_slice(data),
            Event::End { app_status, protocol_status, .. } => self.end = Some((app_status, protocol_status)),
            _ => {}
        }
    }
}

impl Link {
    pub(super) fn new(stream: Stream) -> Arc<Self> {
        let state = State {
            stream,
            home: Home::here(),
            machine: GatewayConnection::new(),
            rest: Vec::new(),
            output: BytesMut::new(),
            sent_bytes: 0,
            inboxes: Vec::new(),
            serial: 0,
            is_deaf: false,
            broken: None,
        };
        Arc::new(Self { state: Mutex::new(state), waiting: Mutex::default() })
    }

    /// Begins a request; `write` appends what it consists of. `None` if so many are open as may.
    pub(super) fn begin(
        &self,
        role: Role,
        limits: &Limits,
        write: impl FnOnce(RequestId, &mut BytesMut),
    ) -> Option<Ticket> {
        let mut state = self.lock();
        state.come_here();
        let State { machine, output, sent_bytes, inboxes, serial, .. } = &mut *state;
        let behind = *sent_bytes + output.len() as u64;
        output.reserve(REQUEST_BYTES);
        let id = machine.begin(role, true, limits, output)?;
        *serial += 1;
        let ticket = Ticket { id, serial: *serial, behind };
        inboxes.push(Inbox { ticket, news: News::default(), is_over: false });
        write(id, output);
        Some(ticket)
    }

    /// Sends what is to be sent, of all requests; `more` is asked for more while there is room. Ready when nothing is left and
    /// no more has come.
    pub(super) fn poll_send(
        self: &Arc<Self>,
        cx: &mut Context<'_>,
        ticket: Ticket,
        mut more: impl FnMut(&mut Context<'_>, &mut BytesMut) -> Result<bool, Failure>,
    ) -> Poll<Result<(), Failure>> {
        let mut state = self.lock();
        loop {
            let had_room = state.output.len() < OUTPUT_BYTES;
            // The number of a request that is over may be another's already.
            let has_more = had_room && state.is_open(ticket) && more(cx, &mut state.output)?;
            if state.output.is_empty() {
                // What a large request took is not kept for the small ones after it.
                state.output = BytesMut::new();
                if !has_more {
                    return Poll::Ready(Ok(()));
                }
                continue;
            }
            let waker = Waker::from(self.clone());
            match state.poll_write(&mut Context::from_waker(&waker)) {
                Poll::Ready(Ok(())) => {}
                // The app has not seen a byte of the request, and will not.
                Poll::Ready(Err(error)) if !state.has_sent_of(ticket) => {
                    return Poll::Ready(Err(Failure::Unsent(error)));
                }
                Poll::Ready(Err(error)) => return Poll::Ready(Err(Failure::Lost(error))),
                Poll::Pending => {
                    self.wait(ticket, cx);
                    return Poll::Pending;
                }
            }
            if !had_room {
                // Others may have waited for room as well.
                self.wake_all();
            }
        }
    }

    /// What has come for a request, whoever has read it; else reads, for all.
    pub(super) fn poll_news(
        self: &Arc<Self>,
        cx: &mut Context<'_>,
        ticket: Ticket,
        limits: &Limits,
    ) -> Poll<Result<News, Failure>> {
        let mut state = self.lock();
        let waker = Waker::from(self.clone());
        loop {
            if let Some(news) = state.news(ticket) {
                drop(state);
                self.stop_waiting(ticket);
                return Poll::Ready(Ok(news));
            }
            if let Some(broken) = state.broken {
                return Poll::Ready(Err(broken.into()));
            }
            self.wait(ticket, cx);
            if state.is_full() {
                return Poll::Pending;
            }
            let read = ready!(state.poll_read(&mut Context::from_waker(&waker), limits));
            if let Err(broken) = read {
                state.broken = Some(broken);
                self.wake_all();
            } else {
                self.wake_told(&state, ticket);
            }
        }
    }

    /// Whether a next request may be sent: the app has kept the connection, and ended enough of what it was to give up.
    /// `surely` asks the kernel in addition.
    pub(super) fn is_usable(&self, limits: &Limits, surely: bool) -> bool {
        let mut state = self.lock();
        let open = state.machine.open_requests();
        state.is_sound()
            && state.machine.has_room(limits)
            && (open > 0 || if surely { state.stream.is_surely_quiet() } else { state.stream.is_quiet() })
    }

    /// A request is over, or nobody waits for its answer any more: then the app is told, if it can be told without waiting.
    /// Whether the connection is in order for another one alone.
    pub(super) fn leave(&self, ticket: Ticket) -> bool {
        let mut state = self.lock();
        let is_open = state.is_open(ticket);
        state.inboxes.retain(|inbox| inbox.ticket != ticket);
        if state.is_sound() && is_open {
            let State { machine, output, .. } = &mut *state;
            machine.abort(ticket.id, output);
            // An app that does not take it now is told with what is sent next, or sees the connection close.
            let _ = state.poll_write(&mut Context::from_waker(Waker::noop()));
        }
        // The next one who waits has itself woken. Where there is none, nothing may keep the connection from being closed.
        state.stream.hush();
        if state.output.is_empty() {
            state.stream.rest();
        }
        let is_idle = state.machine.open_requests() == 0 && state.rest.is_empty() && state.output.is_empty();
        let is_in_order = state.is_sound() && is_idle;
        drop(state);
        self.stop_waiting(ticket);
        is_in_order
    }

    /// Whether others go on with it, come what may of one request.
    pub(super) fn is_broken(&self) -> bool {
        !self.lock().is_sound()
    }

    fn wait(&self, ticket: Ticket, cx: &Context<'_>) {
        let mut waiting = self.lock_waiting();
        match waiting.iter_mut().find(|(other, _)| *other == ticket) {
            Some((_, waker)) => waker.clone_from(cx.waker()),
            None => waiting.push((ticket, cx.waker().clone())),
        }
    }

    /// Whoever waits no more may be the one whom the socket would have woken: another one takes its place.
    fn stop_waiting(&self, ticket: Ticket) {
        let mut waiting = self.lock_waiting();
        waiting.retain(|(other, _)| *other != ticket);
        let next = waiting.pop();
        drop(waiting);
        if let Some((_, waker)) = next {
            waker.wake();
        }
    }

    /// Wakes those others for whom something has come.
    fn wake_told(&self, state: &State, except: Ticket) {
        for Inbox { ticket, news, .. } in &state.inboxes {
            if *ticket != except && !news.is_empty() {
                let mut waiting = self.lock_waiting();
                let place = waiting.iter().position(|(other, _)| other == ticket);
                let told = place.map(|place| waiting.swap_remove(place));
                drop(waiting);
                if let Some((_, waker)) = told {
                    waker.wake();
                }
            }
        }
    }

    fn wake_all(&self) {
        let all = std::mem::take(&mut *self.lock_waiting());
        for (_, waker) in all {
            waker.wake();
        }
    }

    /// A panic while it was held is one of a request, and has left the conversation as it was.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_waiting(&self) -> MutexGuard<'_, Vec<(Ticket, Waker)>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Wake for Link {
    /// One of those who wait reads and sends for all.
    fn wake(self: Arc<Self>) {
        let next = self.lock_waiting().pop();
        if let Some((_, waker)) = next {
            waker.wake();
        }
    }
}

impl State {
    /// Has the socket watched where it is asked from now on, unless others are asking elsewhere: an event that another core
    /// hears wakes that and then this one, which costs more than moving.
    fn come_here(&mut self) {
        let here = Home::here();
        if self.home == here || self.machine.open_requests() > 0 {
            return;
        }
        match self.stream.move_here() {
            Ok(()) => self.home = here,
            Err(error) => self.broken = Some(Broken::Lost(error.kind())),
        }
    }

    /// What has come for a request, if anything has.
    fn news(&mut self, ticket: Ticket) -> Option<News> {
        let Inbox { news, .. } = self.inboxes.iter_mut().find(|inbox| inbox.ticket == ticket)?;
        (!news.is_empty()).then(|| std::mem::take(news))
    }

    fn is_open(&self, ticket: Ticket) -> bool {
        self.inboxes.iter().any(|inbox| inbox.ticket == ticket && !inbox.is_over)
    }

    fn is_full(&self) -> bool {
        self.inboxes.iter().any(|Inbox { news, .. }| news.stdout.len() + news.stderr.len() > INBOX_BYTES)
    }

    /// Whether a byte of a request may have reached the app.
    fn has_sent_of(&self, ticket: Ticket) -> bool {
        self.sent_bytes > ticket.behind
    }

    /// Whether it goes both ways.
    fn is_sound(&self) -> bool {
        self.broken.is_none() && !self.is_deaf
    }

    /// Writes once what is to be sent.
    fn poll_write(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let sent = ready!(self.stream.poll_write(cx, &self.output));
        self.is_deaf |= sent.is_err();
        Poll::Ready(sent.map(|sent| {
            self.output.advance(sent);
            self.sent_bytes += sent as u64;
        }))
    }

    /// Reads once, and hands out what has come.
    fn poll_read(&mut self, cx: &mut Context<'_>, limits: &Limits) -> Poll<Result<(), Broken>> {
        SCRATCH.with_borrow_mut(|scratch| {
            let kept = self.rest.len();
            scratch[..kept].copy_from_slice(&self.rest);
            let came = ready!(self.stream.poll_read(cx, &mut scratch[kept..]));
            let came = came.map_err(|error| Broken::Lost(error.kind()))?;
            if came == 0 {
                let open = self.machine.open_requests();
                return Poll::Ready(Err(Broken::Fault(Fault::Closed { open })));
            }
            let mut bytes = &scratch[..kept + came];
            loop {
                let (used, event) = self.machine.decode(bytes, limits).map_err(Broken::Fault)?;
                bytes = &bytes[used..];
                let id = match event {
                    Event::More => break,
                    Event::Stdout { id, .. }
                    | Event::StdoutEnd { id }
                    | Event::Stderr { id, .. }
                    | Event::End { id, .. } => id,
                    _ => continue,
                };
                // What comes for a request that was given up is nobody's.
                let is_for = |inbox: &&mut Inbox| inbox.ticket.id == id && !inbox.is_over;
                if let Some(inbox) = self.inboxes.iter_mut().find(is_for) {
                    inbox.is_over = matches!(event, Event::End { .. });
                    inbox.news.take(event);
                }
            }
            self.rest.clear();
            self.rest.extend_from_slice(bytes);
            Poll::Ready(Ok(()))
        })
    }
}

impl News {
    /// The piece of the answer, if there is one.
    pub(super) fn piece(&mut self) -> Option<Bytes> {
        (!self.stdout.is_empty()).then(|| self.stdout.split().freeze())
    }
}

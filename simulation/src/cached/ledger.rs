//! What the origin has sent and what was purged, and whether a cache may send a response then.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::{ITEMS, Item, Rules};
use crate::content::{content, first_wrong};
use crate::disk::SimDisk;
use crate::judge::Judge;
use crate::origin::Received;
use crate::trace::Trace;

/// Seconds are whole for a cache, so an age may be one less than it is. Half a second more is for what is in flight.
const INACCURACY: Duration = Duration::from_millis(1500);

/// The field of the errors of an origin.
pub(super) const OUTAGE: &str = "x-outage";

/// All that is known of the items.
pub(crate) struct Ledger {
    judge: Arc<Judge>,
    trace: Arc<Trace>,
    disk: &'static SimDisk,
    start: Instant,
    /// Those that clients request: few, so that most requests meet something stored.
    items: Vec<Item>,
    /// Whether the origin supports ranges.
    has_ranges: bool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    fetches: Vec<Fetch>,
    purges: Vec<Purged>,
    /// When the wall clock of the server was set, and by how many seconds, which are negative if it was set back.
    clock_steps: Vec<(Duration, i64)>,
    changes: Vec<Purged>,
    /// The number of old processes that finish their requests.
    takeovers: u32,
    /// Whether the process has replaced another one. Until it has the lock of the folder, it only reads.
    has_replaced: bool,
    /// Changes from before are forgotten.
    known_since: Duration,
}

/// A response of the origin.
#[derive(Debug, Clone, Copy)]
struct Fetch {
    /// The request of a client that has led to it.
    request: u64,
    item: Item,
    version: u64,
    at: Duration,
}

/// A purge, or a request that has changed an item.
#[derive(Debug, Clone, Copy)]
struct Purged {
    /// All items, if it is none.
    item: Option<Item>,
    begun: Duration,
    ended: Duration,
}

/// A response that a client has received.
pub(super) struct Answer<'a> {
    pub(super) id: u64,
    pub(super) item: Item,
    pub(super) sent: Duration,
    pub(super) received: Duration,
    pub(super) head: &'a Head,
    /// `None` for HEAD.
    pub(super) body: Option<&'a [u8]>,
    /// The entity tag of the condition of the request.
    pub(super) condition: Option<&'a str>,
    /// The first byte and the one behind the last one that were requested.
    pub(super) range: Option<(usize, usize)>,
    /// Whether the client wants no stored response without a validation.
    pub(super) is_reload: bool,
}

/// The head of a response, in lower case.
pub(super) struct Head(pub(super) String);

impl Head {
    pub(super) fn status(&self) -> u16 {
        self.0.get(9..12).and_then(|status| status.parse().ok()).unwrap_or(0)
    }

    pub(super) fn field(&self, name: &str) -> Option<&str> {
        field(&self.0, name)
    }

    fn number(&self, name: &str) -> Option<u64> {
        self.field(name)?.parse().ok()
    }
}

pub(super) fn field<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    let mut lines = head.lines().filter_map(|line| line.split_once(": "));
    lines.find_map(|(own, value)| (own == name).then(|| value.trim()))
}

impl Ledger {
    pub(crate) fn new(
        judge: Arc<Judge>,
        trace: Arc<Trace>,
        disk: &'static SimDisk,
        random: &mut fastrand::Rng,
    ) -> Self {
        let items = (0..random.u32(1..5)).map(|_| Item(random.u64(..ITEMS))).collect();
        let has_ranges = random.bool();
        Self { judge, trace, disk, start: Instant::now(), items, has_ranges, state: Mutex::default() }
    }

    /// Chooses an item.
    pub(super) fn item(&self, random: &mut fastrand::Rng) -> Item {
        self.items[random.usize(..self.items.len())]
    }

    pub(super) fn now(&self) -> Duration {
        self.start.elapsed()
    }

    /// Whether the origin responds to a request with an error now.
    pub(crate) fn is_down(&self, request: &Received) -> bool {
        Item(request.resource.number).is_down(self.now()) && !request.head.starts_with("post")
    }

    /// Returns the response of the origin to a request.
    pub(crate) fn respond(&self, request: &Received) -> Vec<u8> {
        let (item, at) = (Item(request.resource.number), self.now());
        if self.is_down(request) {
            return format!(
                "HTTP/1.1 503 Service Unavailable\r\nX-Request: {}\r\n{OUTAGE}: yes\r\nContent-Length: 0\r\n\r\n",
                request.id
            )
            .into_bytes();
        }
        let version = item.version(at);
        let number = {
            let mut state = self.state.lock();
            state.fetches.push(Fetch { request: request.id, item, version, at });
            state.fetches.len() - 1
        };
        let (tag, length) = (item.tag(version), item.length(version));
        let field = |name: &str| field(&request.head, name);
        let of_tag = tag.as_ref().map_or_else(String::new, |tag| format!("ETag: {tag}\r\n"));
        let common = format!(
            "X-Request: {}\r\nX-Fetch: {number}\r\nX-Version: {version}\r\nCache-Control: {}\r\nCache-Tag: item-{}\r\n{of_tag}",
            request.id,
            item.cache_control(),
            item.0,
        );
        if request.head.starts_with("post") {
            return format!("HTTP/1.1 200 OK\r\nX-Fetch: {number}\r\nContent-Length: 0\r\n\r\n").into_bytes();
        }
        if tag.is_some() && field("if-none-match") == tag.as_deref() {
            return format!("HTTP/1.1 304 Not Modified\r\n{common}\r\n").into_bytes();
        }
        let range = field("range").and_then(|range| parse_range(range.strip_prefix("bytes=")?, length));
        let range = range
            .filter(|_| self.has_ranges && field("if-range").is_none_or(|own| Some(own) == tag.as_deref()));
        let (first, end) = range.unwrap_or((0, length));
        let body =
            if request.is_head { Vec::new() } else { content(item.content(version), first, end - first) };
        let status = match range {
            Some(_) => format!("206 Partial Content\r\nContent-Range: bytes {first}-{}/{length}", end - 1),
            None => "200 OK".to_owned(),
        };
        let mut response = format!("HTTP/1.1 {status}\r\n{common}").into_bytes();
        if item.is_chunked() && range.is_none() {
            response.extend_from_slice(b"Transfer-Encoding: chunked\r\n\r\n");
            append_chunks(&mut response, &body, request.is_head);
        } else {
            response.extend_from_slice(format!("Content-Length: {}\r\n\r\n", end - first).as_bytes());
            response.extend_from_slice(&body);
        }
        response
    }

    /// Notes that an item, or all of them, are purged.
    pub(super) fn purged(&self, item: Option<Item>, begun: Duration) {
        let ended = self.now();
        self.state.lock().purges.push(Purged { item, begun, ended });
    }

    /// Notes that a request with this response, sent at this time, has changed an item.
    pub(super) fn changed(&self, item: Item, sent: Duration, head: &Head) {
        let (Some(fetch), ended) = (self.fetch(head), self.now()) else { return };
        let mut state = self.state.lock();
        if state.has_replaced && self.disk.fails_reads() {
            // A process without the lock cannot know what the change concerns, nor get the lock.
            return;
        }
        if state.takeovers == 0 && sent >= state.known_since {
            state.changes.push(Purged { item: Some(item), begun: fetch.at, ended });
        }
    }

    /// A process has begun to replace another one. A change that one of them knows of, the other one need not know.
    pub(crate) fn begin_takeover(&self) {
        let mut state = self.state.lock();
        (state.takeovers, state.has_replaced) = (state.takeovers + 1, true);
        drop(state);
        self.forget_changes();
    }

    /// A process starts that replaces none.
    pub(crate) fn begin_alone(&self) {
        self.state.lock().has_replaced = false;
    }

    /// Whether one process replaces another one.
    pub(super) fn is_takeover(&self) -> bool {
        self.state.lock().takeovers > 0
    }

    /// The replaced process has ended.
    pub(crate) fn end_takeover(&self) {
        self.state.lock().takeovers -= 1;
        self.forget_changes();
    }

    /// All processes have ended.
    pub(crate) fn end_all_takeovers(&self) {
        let mut state = self.state.lock();
        if std::mem::take(&mut state.takeovers) > 0 {
            state.known_since = self.now();
        }
    }

    /// Removals because of changes, unlike purges, may be lost: they are not synced to the disk. A process without the lock of the folder
    /// only remembers them itself.
    pub(crate) fn forget_changes(&self) {
        let now = self.now();
        let mut state = self.state.lock();
        state.changes.clear();
        state.known_since = now;
    }

    /// The wall clock of the server was set by a number of seconds.
    pub(crate) fn clock_is_set(&self, by: i64) {
        let now = self.now();
        self.state.lock().clock_steps.push((now, by));
    }

    /// Returns by how much the wall clock was set back since a time, shortly before which a response may have been on its way, and by how
    /// much it was ever set forward: a clock that was wrong at that time finds the `Date` of a response too old.
    fn clock_steps(&self, time: Duration) -> [Duration; 2] {
        let state = self.state.lock();
        let seconds = |by: i64| Duration::from_secs(u64::try_from(by).unwrap_or(0));
        let later = state.clock_steps.iter().filter(|(at, _)| *at + INACCURACY >= time);
        let forward = state.clock_steps.iter().map(|(_, by)| seconds(*by)).sum();
        [later.map(|(_, by)| seconds(-by)).sum(), forward]
    }

    pub(super) fn tell(&self, text: &str) {
        self.trace.tell(text);
    }

    pub(super) fn fault(&self, text: String) {
        self.judge.fault(text);
    }

    fn fetch(&self, head: &Head) -> Option<Fetch> {
        let number = head.number("x-fetch").and_then(|number| usize::try_from(number).ok())?;
        self.state.lock().fetches.get(number).copied()
    }

    /// Decides about a successful response.
    pub(super) fn check(&self, answer: &Answer<'_>) {
        let Some(fetch) = self.fetch(answer.head) else {
            return self.judge.fault(format!("request {}: a response of no origin", answer.id));
        };
        let why = [
            identity(answer, &fetch),
            freshness(answer, &fetch, self.clock_steps(fetch.at)),
            self.purge(answer, &fetch),
            representation(answer, &fetch),
        ];
        for why in why.into_iter().filter_map(Result::err) {
            self.judge.fault(format!("request {} for {:?}: {why}; {fetch:?}", answer.id, answer.item));
        }
        self.judge.count(|counts| counts.hits += u64::from(fetch.request != answer.id));
    }

    /// Nothing that was stored before a purge ended is sent after it.
    fn purge(&self, answer: &Answer<'_>, fetch: &Fetch) -> Result<(), String> {
        let state = self.state.lock();
        let concerns = |purge: &&Purged| {
            purge.item.is_none_or(|item| item == answer.item)
                && purge.ended <= answer.sent
                && fetch.at < purge.begun
        };
        match state.purges.iter().chain(&state.changes).find(concerns) {
            Some(purge) => Err(format!("it is older than {purge:?}")),
            None => Ok(()),
        }
    }
}

/// A response is that of the item, and only of the request itself if it must not be stored.
fn identity(answer: &Answer<'_>, fetch: &Fetch) -> Result<(), String> {
    if fetch.item != answer.item {
        return Err("it is that of another item".to_owned());
    }
    if answer.head.number("x-version") != Some(fetch.version) {
        return Err(format!("its version is {:?}", answer.head.number("x-version")));
    }
    if answer.head.field("etag").map(ToOwned::to_owned) != answer.item.tag(fetch.version) {
        return Err(format!("its entity tag is {:?}", answer.head.field("etag")));
    }
    if !answer.item.rules().is_stored && fetch.request != answer.id {
        return Err("it must not be stored".to_owned());
    }
    Ok(())
}

/// A response is no older than its origin permits, and tells its age. Stored responses have the time of the wall clock, so that their ages
/// hold across restarts: a response may be older by what that clock was set back since, and say more by what it was set forward.
fn freshness(answer: &Answer<'_>, fetch: &Fetch, [back, forward]: [Duration; 2]) -> Result<(), String> {
    let Rules { lifetime, stale_while_revalidate, stale_if_error, .. } = answer.item.rules();
    let age = answer.sent.saturating_sub(fetch.at).saturating_sub(back);
    // Who reloads gets no stale response, also in place of an error (RFC 9111 §5.2.1.4).
    let stale = if answer.is_reload { 0 } else { stale_while_revalidate.max(stale_if_error) };
    let permitted = Duration::from_secs(lifetime + stale);
    if age > permitted + INACCURACY {
        return Err(format!("it is {age:?} old"));
    }
    let told = Duration::from_secs(answer.head.number("age").unwrap_or(0));
    if told + INACCURACY < age {
        return Err(format!("it is {age:?} old, and says {told:?}"));
    }
    if told > answer.received.saturating_sub(fetch.at) + forward + Duration::from_mins(2) {
        return Err(format!("it cannot be {told:?} old"));
    }
    Ok(())
}

/// The status, the fields and the bytes are those of one version.
fn representation(answer: &Answer<'_>, fetch: &Fetch) -> Result<(), String> {
    let length = answer.item.length(fetch.version);
    let (first, end) = match answer.head.status() {
        200 => (0, length),
        206 => answer.range.map(|(first, end)| (first, end.min(length))).ok_or("no range was requested")?,
        304 if answer.condition.is_some() && answer.condition == answer.head.field("etag") => return Ok(()),
        416 if answer.range.is_some_and(|(first, _)| first >= length) => return Ok(()),
        status => return Err(format!("its status is {status}")),
    };
    if answer.head.status() == 206
        && answer.head.field("content-range")
            != Some(&format!("bytes {first}-{}/{length}", end.saturating_sub(1)))
    {
        return Err(format!("its range is {:?}", answer.head.field("content-range")));
    }
    if answer.head.number("content-length").is_some_and(|own| own != (end - first) as u64) {
        return Err(format!("its length is {:?} of {}", answer.head.number("content-length"), end - first));
    }
    let Some(body) = answer.body else { return Ok(()) };
    if body.len() != end - first {
        return Err(format!("it has {} bytes of {}", body.len(), end - first));
    }
    let content = answer.item.content(fetch.version);
    match first_wrong(content, first, body) {
        Some(at) => Err(format!("byte {} is wrong", first + at)),
        None => Ok(()),
    }
}

/// Returns the first byte and the one behind the last one of a satisfiable range.
fn parse_range(range: &str, length: usize) -> Option<(usize, usize)> {
    let (first, last) = range.split_once('-')?;
    let first: usize = first.parse().ok()?;
    let end = last.parse().map_or(length, |last: usize| last + 1).min(length);
    (first < end).then_some((first, end))
}

fn append_chunks(response: &mut Vec<u8>, body: &[u8], is_head: bool) {
    if is_head {
        return;
    }
    for chunk in body.chunks(1 + body.len() / 3) {
        response.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
        response.extend_from_slice(chunk);
        response.extend_from_slice(b"\r\n");
    }
    response.extend_from_slice(b"0\r\n\r\n");
}

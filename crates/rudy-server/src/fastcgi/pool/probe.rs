//! Asks an app whether several requests may share a connection.

use std::future::poll_fn;
use std::sync::Weak;
use std::time::Duration;

use bytes::{Buf, BytesMut};
use rudy_fastcgi::Limits;
use rudy_fastcgi::gateway::{Event, GatewayConnection};
use rudy_fastcgi::values::Values;
use tokio::time::timeout;

use super::{MemberId, Pool};
use crate::fastcgi::stream::Stream;
use crate::fastcgi::upstream::Upstream;

/// How long it may take to answer. Many apps close the connection at such a question, and some say nothing at all.
const TIME: Duration = Duration::from_secs(5);

/// Asks a member, on a connection of its own, and tells the pool. An error, a close or silence means no: the pool goes by that
/// already.
pub(super) async fn ask(pool: Weak<Pool>, member: MemberId, upstream: Upstream) {
    let Ok(Some(values)) = timeout(TIME, values(&upstream)).await else { return };
    if values.multiplexes == Some(true)
        && let Some(pool) = pool.upgrade()
    {
        let most = usize::from(pool.limits.open_requests);
        let taken = values.max_requests.and_then(|most| usize::try_from(most).ok()).unwrap_or(most);
        pool.share(member, taken.clamp(1, most));
    }
}

async fn values(upstream: &Upstream) -> Option<Values> {
    let limits = Limits::default();
    let mut stream = Stream::connect(upstream).await.ok()?;
    let mut machine = GatewayConnection::new();
    let mut question = BytesMut::new();
    machine.ask_values(&mut question);
    while !question.is_empty() {
        let sent = poll_fn(|cx| stream.poll_write(cx, &question)).await.ok()?;
        question.advance(sent);
    }
    let mut all = Vec::new();
    let mut room = [0; 1024];
    loop {
        let came = poll_fn(|cx| stream.poll_read(cx, &mut room)).await.ok().filter(|came| *came > 0)?;
        all.extend_from_slice(&room[..came]);
        let (used, event) = machine.decode(&all, &limits).ok()?;
        match event {
            Event::Values(values) => return Some(values),
            Event::More => drop(all.drain(..used)),
            _ => return None,
        }
    }
}

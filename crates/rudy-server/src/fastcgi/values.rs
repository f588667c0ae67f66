//! How many connections an app can serve at once: it is asked once, by `FCGI_GET_VALUES`.

use std::future::poll_fn;
use std::sync::Weak;
use std::time::Duration;

use bytes::{Buf, BytesMut};
use rudy_fastcgi::Limits;
use rudy_fastcgi::gateway::Event;
use rudy_fastcgi::values::Values;
use tokio::time::timeout;

use super::connection::Connection;
use super::pool::Pool;
use crate::upstream::{Connection as _, Endpoint};

/// How long the response may take. Many apps close the connection at the question, and some send nothing at all.
const TIME: Duration = Duration::from_secs(5);

/// Connections that an app gets at most, whatever it says.
const CONNECTIONS_MAX: u32 = 1024;

/// Asks an app on a connection of its own. One that multiplexes its connections (`FCGI_MPXS_CONNS` is 1) serves them side by
/// side, and gets as many as it takes (`FCGI_MAX_CONNS`). After an error, a close or silence nothing changes.
pub(super) async fn ask(pool: Weak<Pool>, endpoint: Endpoint) {
    let Ok(Some(values)) = timeout(TIME, values(&endpoint)).await else { return };
    if values.multiplexes == Some(true)
        && let Some(pool) = pool.upgrade()
    {
        let connections = values.max_connections.unwrap_or(CONNECTIONS_MAX).clamp(1, CONNECTIONS_MAX);
        pool.raise_connections(connections as usize);
    }
}

async fn values(endpoint: &Endpoint) -> Option<Values> {
    let mut connection = Connection::new(endpoint.connect(TIME).await.ok()?);
    let mut question = BytesMut::new();
    connection.query_values(&mut question);
    while !question.is_empty() {
        let sent = poll_fn(|cx| connection.poll_send(cx, &question)).await.ok()?;
        question.advance(sent);
    }
    let mut values = None;
    while values.is_none() {
        let mut take = |event: Event<'_>| {
            match event {
                Event::Values(came) => values = Some(Some(came)),
                Event::UnknownType(_) => values = Some(None),
                _ => {}
            }
            Ok(())
        };
        poll_fn(|cx| connection.poll_receive(cx, &Limits::default(), &mut take)).await.ok()?;
    }
    values?
}

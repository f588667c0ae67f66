//! Queries an app for the number of connections it can serve (`FCGI_GET_VALUES`).

use std::future::poll_fn;
use std::sync::Weak;
use std::time::Duration;

use bytes::{Buf, BytesMut};
use rudy_client::{Endpoint, SocketConnection as _};
use rudy_fastcgi::Limits;
use rudy_fastcgi::gateway::Event;
use rudy_fastcgi::values::Values;
use tokio::time::timeout;

use super::connection::Connection;
use super::pool::Pool;

/// The timeout of the query. Many apps close the connection on it, and some send nothing at all.
const TIMEOUT: Duration = Duration::from_secs(5);

/// The maximum number of connections, regardless of what the app reports.
const CONNECTIONS_MAX: u32 = 1024;

/// Queries an app on a separate connection. An app that multiplexes (`FCGI_MPXS_CONNS` is 1) serves
/// connections concurrently, and gets as many as it accepts (`FCGI_MAX_CONNS`). An error, a close or a
/// timeout changes nothing.
pub(super) async fn query_limits(pool: Weak<Pool>, endpoint: Endpoint) {
    let Ok(Some(values)) = timeout(TIMEOUT, values(&endpoint)).await else { return };
    if values.multiplexes == Some(true)
        && let Some(pool) = pool.upgrade()
    {
        let connections = values.max_connections.unwrap_or(CONNECTIONS_MAX).clamp(1, CONNECTIONS_MAX);
        pool.raise_connections(connections as usize);
    }
}

async fn values(endpoint: &Endpoint) -> Option<Values> {
    let mut connection = Connection::new(endpoint.connect(TIMEOUT).await.ok()?);
    let mut query = BytesMut::new();
    connection.query_values(&mut query);
    while !query.is_empty() {
        let sent = poll_fn(|cx| connection.poll_send(cx, &query)).await.ok()?;
        query.advance(sent);
    }
    let mut values = None;
    while values.is_none() {
        let mut on_event = |event: Event<'_>| {
            match event {
                Event::Values(received) => values = Some(Some(received)),
                Event::UnknownType(_) => values = Some(None),
                _ => {}
            }
            Ok(())
        };
        poll_fn(|cx| connection.poll_receive(cx, &Limits::default(), &mut on_event)).await.ok()?;
    }
    values?
}

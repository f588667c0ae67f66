//! The server of the crate `h2`, whose responses depend on the path.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};
use h2::server::{Builder, Connection, SendResponse};
use h2::{Ping, PingPong, Reason, RecvStream};
use http::{Method, Request, Response, StatusCode, header};
use tokio::io::DuplexStream;
use tokio::task::JoinSet;

use crate::h2_pair::{collect, send_body};

/// What a server does when a number of requests have arrived.
#[derive(Debug, Clone)]
pub(crate) enum Action {
    /// Changes the initial window of streams, also that of the open ones, to each of these in turn. The last one must be the largest:
    /// when the crate reduces a window, it keeps back what was read of the larger one until more arrives. A client that has used
    /// all of the smaller window then waits without end.
    Windows(Vec<u32>),
    /// Announces the end, and then completes what has arrived.
    ShutDown,
    /// Announces the end with the last stream so far, and closes the connection.
    Abort,
    /// Sends a PING.
    Ping,
}

/// What a server saw of its client.
#[derive(Debug, Default)]
pub(crate) struct Served {
    /// The paths of the requests.
    pub(crate) requests: Vec<String>,
    /// The codes of the requests that the client cancelled while they had no response.
    pub(crate) cancelled: Vec<Reason>,
    pub(crate) pongs: usize,
    pub(crate) error: Option<h2::Error>,
}

/// Serves a connection until one side closes it.
pub(crate) async fn serve(io: DuplexStream, builder: Builder, actions: Vec<(usize, Action)>) -> Served {
    let mut connection = builder.handshake::<_, Bytes>(io).await.unwrap();
    let mut pings = connection.ping_pong().unwrap();
    let (mut served, mut handlers) = (Served::default(), JoinSet::new());
    let mut windows = VecDeque::new();
    loop {
        let next = tokio::select! {
            next = connection.accept() => next,
            pong = std::future::poll_fn(|context| pings.poll_pong(context)) => {
                if pong.is_ok() {
                    served.pongs += 1;
                    change_window(&mut windows, &mut connection, &mut pings);
                }
                continue;
            }
        };
        match next {
            None => break,
            Some(Err(error)) => {
                served.error = Some(error);
                break;
            }
            Some(Ok((request, respond))) => {
                served.requests.push(request.uri().path().to_owned());
                let path = served.requests.last();
                let attempt = served.requests.iter().filter(|other| Some(*other) == path).count();
                handlers.spawn(handle(request, respond, attempt));
            }
        }
        for (_, action) in actions.iter().filter(|(requests, _)| *requests == served.requests.len()) {
            match action {
                Action::Windows(sizes) => {
                    windows.extend(sizes);
                    change_window(&mut windows, &mut connection, &mut pings);
                }
                Action::ShutDown => connection.graceful_shutdown(),
                Action::Abort => connection.abrupt_shutdown(Reason::NO_ERROR),
                // As above.
                Action::Ping => drop(pings.send_ping(Ping::opaque())),
            }
        }
    }
    drop(connection);
    for result in handlers.join_all().await {
        // The other errors are those of streams that the client has cancelled.
        served.cancelled.extend(result.ok().flatten());
    }
    served
}

/// Changes the initial window to the next size. The crate permits that only after the acknowledgement of the one before, for which
/// the server waits with a PING.
fn change_window(
    windows: &mut VecDeque<u32>,
    connection: &mut Connection<DuplexStream, Bytes>,
    pings: &mut PingPong,
) {
    let Some(size) = windows.front() else { return };
    if connection.set_initial_window_size(*size).is_ok() {
        windows.pop_front();
    }
    // A PING that is in transit has the same effect.
    drop(pings.send_ping(Ping::opaque()));
}

/// Responds to a request. Returns the code if the client cancels it instead.
async fn handle(
    request: Request<RecvStream>,
    mut respond: SendResponse<Bytes>,
    attempt: usize,
) -> Result<Option<Reason>, h2::Error> {
    let (head, mut body) = request.into_parts();
    let path = &head.uri.path()[1..];
    let (name, number) = path.split_once('/').unwrap_or((path, "0"));
    let number: usize = number.parse().unwrap();
    match name {
        "hang" => return std::future::poll_fn(|context| respond.poll_reset(context)).await.map(Some),
        "refuse" if attempt <= number => {
            respond.send_reset(Reason::REFUSED_STREAM);
            return Ok(None);
        }
        "interim" => {
            let interim = |status: StatusCode| Response::builder().status(status).header("link", "</a>");
            respond.send_informational(interim(StatusCode::CONTINUE).body(()).unwrap())?;
            respond.send_informational(interim(StatusCode::EARLY_HINTS).body(()).unwrap())?;
        }
        _ => {}
    }
    let (bytes, trailers) =
        if name == "early" { (BytesMut::new(), None) } else { collect(&mut body).await? };
    let fields_bytes: usize =
        head.headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
    let mut response = Response::builder().header("x-head-bytes", fields_bytes);
    let mut content = vec![b'x'; number];
    match name {
        "size" | "early" => response = response.header(header::CONTENT_LENGTH, number),
        "echo" => content = bytes.to_vec(),
        "head" => response = response.header("large", "~".repeat(std::mem::take(&mut content).len())),
        "status" => {
            response = response.status(u16::try_from(number).unwrap());
            content.clear();
        }
        _ => {}
    }
    let is_whole = head.method == Method::HEAD || content.is_empty() && trailers.is_none() && name != "reset";
    let mut stream = respond.send_response(response.body(()).unwrap(), is_whole)?;
    if name == "reset" {
        stream.send_data(Bytes::from_static(b"incomplete"), false)?;
        stream.send_reset(Reason::INTERNAL_ERROR);
    } else if !is_whole {
        send_body(&mut stream, &content, trailers).await?;
    }
    Ok(None)
}

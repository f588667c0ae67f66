//! The applications behind the server, in all protocols.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use crate::cached::Ledger;
use crate::fastcgi_origin::FastCgiOrigin;
use crate::http2_origin::Http2Origin;
use crate::judge::{Excuse, Judge};
use crate::network::{End, Name, SimNetwork};
use crate::origin::Origin;
use crate::request::Route;
use crate::shrink::Reduction;
use crate::tls::{ORIGIN, Socket, server_config};

/// How long the server may wait for a response: its `response_timeout` of 10 s, and the time of the network.
const PATIENCE: Duration = Duration::from_secs(12);

/// The addresses: two of each protocol.
const HTTP1: [([u8; 4], u16); 2] = [([10, 0, 1, 1], 80), ([10, 0, 1, 2], 80)];
const HTTP1_WITH_TLS: [([u8; 4], u16); 2] = [([10, 0, 1, 1], 443), ([10, 0, 1, 2], 443)];
const HTTP2: [([u8; 4], u16); 2] = [([10, 0, 1, 3], 80), ([10, 0, 1, 4], 80)];
const FASTCGI: [([u8; 4], u16); 2] = [([10, 0, 1, 5], 9000), ([10, 0, 1, 6], 9000)];
/// That of the cached items.
const CACHED: ([u8; 4], u16) = ([10, 0, 1, 7], 80);

/// Starts all applications.
pub(crate) fn start(
    (network, judge, ledger): (&'static SimNetwork, &Arc<Judge>, &Arc<Ledger>),
    random: &mut fastrand::Rng,
    reduction: Reduction,
) {
    let mut parts = |route| {
        let is_right = random.bool() || reduction.origins_respond;
        let faults_per_mille = if is_right { 0 } else { 100 };
        if faults_per_mille > 0 {
            judge.excuse(Excuse::Application(route));
        }
        (judge.clone(), Mutex::new(random.fork()), faults_per_mille)
    };
    let (judge, random, faults_per_mille) = parts(Route::Http1);
    let origin = Arc::new(Origin { judge, random, faults_per_mille, patience: PATIENCE, ledger: None });
    let with_tls = origin.clone();
    serve(network, &HTTP1, move |end| origin.clone().serve(Socket::Plain(end)));
    let config = server_config();
    serve(network, &HTTP1_WITH_TLS, move |end| {
        let (origin, config) = (with_tls.clone(), config.clone());
        async move { origin.serve(Socket::accept(end, config).await?).await }
    });
    let addresses = HTTP1.map(SocketAddr::from).to_vec();
    network.add_name(Name { host: (ORIGIN, 80), addresses });
    let addresses = HTTP1_WITH_TLS.map(SocketAddr::from).to_vec();
    network.add_name(Name { host: (ORIGIN, 443), addresses });
    let (judge, random, faults_per_mille) = parts(Route::Cached);
    let ledger = Some(ledger.clone());
    let origin = Arc::new(Origin { judge, random, faults_per_mille, patience: PATIENCE, ledger });
    serve(network, &[CACHED], move |end| origin.clone().serve(Socket::Plain(end)));
    let (judge, random, faults_per_mille) = parts(Route::Http2);
    let origin = Arc::new(Http2Origin { judge, random, faults_per_mille, patience: PATIENCE });
    serve(network, &HTTP2, move |end| origin.clone().serve(end));
    let (judge, random, faults_per_mille) = parts(Route::FastCgi);
    let origin = Arc::new(FastCgiOrigin { judge, random, faults_per_mille, patience: PATIENCE });
    serve(network, &FASTCGI, move |end| origin.clone().serve(end));
}

/// Serves addresses, which are free: each connection in a task of its own. A client that has gone is no fault.
fn serve<F, T>(
    network: &'static SimNetwork,
    addresses: &[([u8; 4], u16)],
    serve: impl Fn(End) -> F + Clone + Send + Sync + 'static,
) where
    F: Future<Output = T> + Send + 'static,
    T: Send + 'static,
{
    for address in addresses {
        let (listener, serve) = (network.open(SocketAddr::from(*address)), serve.clone());
        let listener = listener.expect("an address of its own");
        tokio::spawn(async move {
            loop {
                tokio::spawn(serve(listener.accept().await));
            }
        });
    }
}

//! A run of the world with one seed.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::applications;
use crate::attacker::Attacker;
use crate::cached::{Cached, CachedClient, Ledger};
use crate::client::Client;
use crate::disk::SimDisk;
use crate::http2_client::Http2Client;
use crate::http3::{Http3Attacker, Http3Client};
use crate::judge::{Counts, Excuse, Judge, Kind};
use crate::network::{Conditions, DatagramConditions, SimNetwork};
use crate::operator::{Action, Operator};
use crate::request::Route;
use crate::shrink::Reduction;
use crate::tls::authority::Authority;
use crate::tls::{WallClock, client_config};
use crate::trace::Trace;

/// The result of a run.
#[derive(Debug)]
pub struct Outcome {
    /// The hash of everything that has happened.
    pub hash: u64,
    /// The number of events.
    pub events: u64,
    /// What happened, for people.
    pub story: Vec<String>,
    /// The faults of the server.
    pub faults: Vec<String>,
    /// What was counted.
    pub counts: Counts,
    /// The kinds of what has happened.
    pub kinds: BTreeSet<Kind>,
    /// The simulated time.
    pub time: Duration,
}

/// How to run.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// The seed.
    pub seed: u64,
    /// Whether to keep the story.
    pub keeps_story: bool,
    /// What is left out.
    pub reduction: Reduction,
}

/// The wall clock at the start: 2026-01-01.
const DATE: u64 = 1_767_225_600;

/// What HTTP/2 stores is counted for the whole process of the operating system, so only one world runs at a time.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Runs the world.
///
/// # Panics
///
/// The runtime or a temporary folder cannot be created.
#[must_use]
pub fn run(options: Options) -> Outcome {
    let _alone = ONE_AT_A_TIME.lock();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime without threads");
    // In memory, where there is a file system for that: a run has many small files.
    let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
    let folder = folder.expect("a temporary folder");
    runtime.block_on(async { World::new(options, folder.path()).run().await })
}

struct World<'f> {
    random: fastrand::Rng,
    folder: &'f Path,
    trace: Arc<Trace>,
    judge: Arc<Judge>,
    network: &'static SimNetwork,
    disk: &'static SimDisk,
    ledger: Arc<Ledger>,
    reduction: Reduction,
    /// Both clocks at the start.
    start: (Instant, SystemTime),
    /// What signs the certificate of the server, if it has TLS.
    authority: Option<Arc<Authority>>,
    /// The longest pause of clients and of the operator.
    pause_max: Duration,
}

/// Chooses what happens to datagrams.
fn datagrams(random: &mut fastrand::Rng) -> DatagramConditions {
    let mut choose = |values: &[u32]| random.choice(values).copied().unwrap_or_default();
    DatagramConditions {
        lost_per_mille: choose(&[0, 0, 10, 50, 200]),
        repeated_per_mille: choose(&[0, 20]),
        reordered_per_mille: choose(&[0, 20, 300]),
        full_per_mille: choose(&[0, 0, 20]),
        rebound_per_mille: choose(&[0, 300]),
        // The smallest one that QUIC needs, that of a tunnel, and that of Ethernet.
        largest_bytes: [1_200, 1_350, 1_472][random.usize(..3)],
    }
}

const SERVER: ([u8; 4], u16) = ([10, 0, 0, 1], 80);
const WITH_TLS: ([u8; 4], u16) = ([10, 0, 0, 1], 443);

/// The longest pause in a run in which certificates expire.
const LONG_PAUSE: Duration = Duration::from_secs(200);

impl<'f> World<'f> {
    fn new(Options { seed, keeps_story, reduction }: Options, folder: &'f Path) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        let trace = Arc::new(Trace::new(keeps_story));
        let mut conditions = Conditions {
            delay_us: (10, *[100, 5_000, 80_000].get(random.usize(..3)).unwrap_or(&100)),
            broken_per_mille: if random.u32(..3) > 0 { 0 } else { 50 },
            buffer_bytes: 1 << random.u32(12..20),
            is_choppy: random.bool(),
            descriptors: 1000,
            failed_lookups_per_mille: if random.u32(..4) > 0 { 0 } else { 200 },
            datagrams: datagrams(&mut random),
        };
        if reduction.network_is_calm {
            (conditions.broken_per_mille, conditions.is_choppy) = (0, false);
            conditions.failed_lookups_per_mille = 0;
            conditions.datagrams = DatagramConditions { largest_bytes: 1_500, ..Default::default() };
        } else if conditions.broken_per_mille == 0 {
            conditions.datagrams.lost_per_mille = conditions.datagrams.lost_per_mille.min(50);
        }
        trace.tell(&format!("seed {seed}: {conditions:?}, {reduction:?}"));
        // Never freed: the connections refer to it, and a run has one.
        let network = Box::leak(Box::new(SimNetwork::new(random.fork(), conditions, trace.clone())));
        let start = (Instant::now(), SystemTime::UNIX_EPOCH + Duration::from_secs(DATE));
        let judge = Arc::new(Judge::new(trace.clone()));
        let disk = SimDisk::new(random.fork(), folder.join("cache"), trace.clone());
        let ledger = Arc::new(Ledger::new(judge.clone(), trace.clone(), disk, &mut random));
        let has_tls = random.u32(..3) == 0 && !reduction.without_tls;
        let parts = (&*network, judge.clone(), trace.clone());
        let authority = has_tls.then(|| Authority::new(parts, WallClock { start }, random.fork()));
        let pause_max = if has_tls && random.u32(..3) == 0 { LONG_PAUSE } else { Duration::ZERO };
        Self { random, folder, trace, judge, network, disk, ledger, reduction, start, authority, pause_max }
    }

    async fn run(mut self) -> Outcome {
        let _on_network = rudy_net::network::Entered::new(Box::leak(Box::new(self.network)));
        let _on_disk = rudy_store::OnDisk::enter(Box::leak(Box::new(self.disk)));
        let network = self.network;
        tokio::spawn(network.run());
        if network.conditions.broken_per_mille > 0 {
            self.judge.excuse(Excuse::Network);
        }
        if network.conditions.failed_lookups_per_mille > 0 {
            self.judge.excuse(Excuse::Application(Route::Http1));
        }
        let parts = (network, &self.judge, &self.ledger);
        applications::start(parts, &mut self.random, self.reduction);
        self.operator().await;
        self.outcome()
    }

    /// Runs the server and its clients.
    async fn operator(&mut self) {
        let mut actions = Vec::from(Action::ALL);
        actions.retain(|_| self.random.bool());
        actions.retain(|action| self.reduction.without_actions & (1 << *action as u32) == 0);
        let parts = (self.network, self.judge.clone(), self.trace.clone());
        let cached = Cached { disk: self.disk, ledger: self.ledger.clone() };
        let (random, folder) = (self.random.fork(), self.folder.to_owned());
        let tls = (self.authority.clone(), self.pause_max);
        let mut operator = Operator::new(parts, cached, random, folder, self.start, actions, tls);
        operator.start().await;
        let mut clients = JoinSet::new();
        for number in 0..self.random.u8(1..6) {
            let mut client = self.client(number);
            client.requests = client.requests.min(self.reduction.requests_max);
            if self.reduction.clients_follow {
                client.faults_per_mille = 0;
            }
            let (kind, chance) = (self.random.u32(..9), self.random.u32(..3));
            let is_over_quic = chance == 0 && self.authority.is_some();
            if self.authority.is_some() && chance < 2 {
                let protocol = match kind {
                    _ if is_over_quic => "h3",
                    0..4 => "http/1.1",
                    _ => "h2",
                };
                client.tls = Some(client_config(WallClock { start: self.start }, protocol));
                client.server = WITH_TLS.into();
            }
            if self.reduction.without_clients & (1 << number) == 0 {
                match kind {
                    8.. if is_over_quic => clients.spawn(Http3Attacker(client).run()),
                    _ if is_over_quic => clients.spawn(Http3Client(client).run()),
                    0..4 => clients.spawn(client.run()),
                    4..8 => clients.spawn(Http2Client(client).run()),
                    _ => clients.spawn(Attacker(client).run()),
                };
            }
        }
        for number in 0..self.random.u8(0..4) {
            let mut client = self.cached_client(number);
            client.client.requests = client.client.requests.min(self.reduction.requests_max);
            if self.reduction.without_clients & (1 << (5 + number)) == 0 {
                clients.spawn(client.run());
            }
        }
        operator.act(clients).await;
        operator.end().await;
    }

    fn client(&mut self, number: u8) -> Client {
        Client {
            name: format!("client {number}"),
            network: self.network,
            judge: self.judge.clone(),
            trace: self.trace.clone(),
            random: self.random.fork(),
            address: SocketAddr::from(([10, 1, 0, number], 40_000)),
            server: SERVER.into(),
            tls: None,
            pause_max: self.pause_max,
            requests: self.random.u32(1..18),
            first_id: u64::from(number) * 1000,
            faults_per_mille: if self.random.bool() { 0 } else { 200 },
        }
    }

    fn cached_client(&mut self, number: u8) -> CachedClient {
        let client = Client {
            name: format!("cache client {number}"),
            address: SocketAddr::from(([10, 2, 0, number], 40_000)),
            first_id: 1_000_000 + u64::from(number) * 1000,
            ..self.client(number)
        };
        CachedClient { client, ledger: self.ledger.clone(), tags: BTreeMap::new() }
    }

    fn outcome(self) -> Outcome {
        Outcome {
            hash: self.trace.hash(),
            events: self.trace.events(),
            story: self.trace.story(),
            faults: self.judge.faults(),
            counts: self.judge.counts(),
            kinds: self.judge.kinds(),
            time: self.start.0.elapsed(),
        }
    }
}

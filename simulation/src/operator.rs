//! The operator: starts the server, reloads valid and broken configurations, upgrades, stops and starts it, and pulls the plug.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use rudy_runtime::{Entered, inside};
use rudy_server::run::simulated::{SimulatedServer, Surroundings, Usage};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use crate::cached::Cached;
use crate::content::content;
use crate::disk::{Death, DiskConditions};
use crate::judge::{Excuse, Judge, Kind};
use crate::network::SimNetwork;
use crate::process::{ClockError, Process};
use crate::request;
use crate::settings::Settings;
use crate::tls::authority::{Authority, ISSUER, Reached};
use crate::trace::Trace;

/// How long an old process has after a stop or an upgrade: longer than any request takes.
const GRACE: Duration = Duration::from_mins(5);

/// How long both processes live after an upgrade, at least.
const TAKEOVER_PERIOD: Duration = Duration::from_secs(1);

/// How wrong the wall clock is at most, in seconds.
const CLOCK_ERROR_S: i64 = 3 * 60 * 60;

/// After this time, the server has noticed that its wall clock was set: it computes the time of renewal each hour, and orders a
/// certificate that has expired already an hour after the last one.
const CLOCK_NOTICED: Duration = Duration::from_mins(65);

/// A response that the last client no longer wanted is received and stored for the next one within this time, in at most this number of polls.
const REST: Duration = Duration::from_mins(1);
const REST_POLLS: u64 = 1_000;

/// Longer than any timeout of the server.
const QUIET: Duration = Duration::from_mins(15);

/// More polls than the timeouts of the last connections, and the lookups of a name every 30 s, need in that time.
const QUIET_POLLS: u64 = 200;

/// With TLS, files are compared every two seconds, for which two tasks are polled twice; and a certificate may be renewed.
const QUIET_POLLS_WITH_TLS: u64 = 2_200;

/// The server, in one process or two.
pub(crate) struct Operator {
    pub(crate) network: &'static SimNetwork,
    pub(crate) judge: Arc<Judge>,
    pub(crate) trace: Arc<Trace>,
    pub(crate) random: fastrand::Rng,
    pub(crate) folder: PathBuf,
    /// Both clocks at the start of the world.
    pub(crate) start: (Instant, SystemTime),
    /// What it does.
    pub(crate) actions: Vec<Action>,
    /// Its longest pause.
    pub(crate) pause_max: Duration,
    /// What signs the certificate of the server, if it has TLS.
    pub(crate) authority: Option<Arc<Authority>>,
    /// By how much the wall clock of the server is wrong.
    clock_error: &'static ClockError,
    /// The response cache.
    cached: Cached,
    current: Option<Running>,
    /// The processes that finish their requests.
    retiring: JoinSet<()>,
    /// All processes that were started since the last crash.
    processes: Vec<&'static Process>,
}

/// A running server.
struct Running {
    process: &'static Process,
    server: SimulatedServer,
}

/// Something that an operator does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    /// Reloads another configuration.
    Reload,
    /// Reloads something that is none.
    ReloadBroken,
    /// Replaces the process.
    Upgrade,
    /// Stops the server, and starts it again.
    Restart,
    /// Kills the server, and starts it again.
    Crash,
    /// As `Crash`, and what was not synced to the disk may be lost.
    PowerFailure,
    /// Purges cached responses.
    Purge,
    /// Lets the disk of the cache fail, or work again.
    ChangeDisk,
    /// Sets the wall clock of the machine of the server, wrong or right.
    SetClock,
}

impl Action {
    /// All actions.
    pub(crate) const ALL: [Self; 9] = [
        Self::Reload,
        Self::ReloadBroken,
        Self::Upgrade,
        Self::Restart,
        Self::Crash,
        Self::PowerFailure,
        Self::Purge,
        Self::ChangeDisk,
        Self::SetClock,
    ];
}

impl Operator {
    pub(crate) fn new(
        (network, judge, trace): (&'static SimNetwork, Arc<Judge>, Arc<Trace>),
        cached: Cached,
        random: fastrand::Rng,
        folder: PathBuf,
        start: (Instant, SystemTime),
        actions: Vec<Action>,
        (authority, pause_max): (Option<Arc<Authority>>, Duration),
    ) -> Self {
        let (current, retiring, processes) = (None, JoinSet::new(), Vec::new());
        // Never freed: the processes refer to it, and a run has one.
        let clock_error = Box::leak(Box::new(ClockError::new(0)));
        Self {
            network,
            judge,
            trace,
            random,
            folder,
            start,
            actions,
            pause_max,
            authority,
            clock_error,
            cached,
            current,
            retiring,
            processes,
        }
    }

    /// Starts the server.
    pub(crate) async fn start(&mut self) {
        fs::write(self.folder.join("authority.pem"), ISSUER.pem()).expect("the folder is this run's");
        self.make_files().expect("the folder is this run's");
        let text = self.settings().text(&self.folder);
        self.write(&text);
        self.current = self.start_process(Vec::new()).await;
        if let Some(authority) = &self.authority {
            authority.wait_for_certificate().await;
        }
    }

    fn make_files(&self) -> io::Result<()> {
        let folder = self.folder.join("files");
        fs::create_dir(&folder)?;
        for resource in request::files() {
            let path = folder.join(resource.path());
            fs::write(&path, content(resource.number, 0, resource.length))?;
            // Its length depends on the date, in HTTP/2.
            fs::File::options().write(true).open(path)?.set_modified(self.start.1)?;
        }
        Ok(())
    }

    fn settings(&mut self) -> Settings {
        let settings = Settings::random(&mut self.random, self.authority.is_some());
        if settings.has_few_connections() {
            self.judge.permits_few_connections();
        }
        settings
    }

    fn pause(&mut self) -> Duration {
        let pause = Duration::from_millis(self.random.u64(10..3_000));
        if self.random.u32(..10) == 0 { pause.max(self.pause_max.mul_f64(self.random.f64())) } else { pause }
    }

    /// Acts at random times until the clients are done.
    pub(crate) async fn act(&mut self, clients: JoinSet<()>) {
        let mut clients = pin!(clients.join_all());
        loop {
            let pause = sleep(self.pause());
            tokio::select! {
                biased;
                _ = &mut clients => return,
                Some(_) = self.retiring.join_next() => {
                    self.serve_http3().await;
                    continue;
                }
                () = pause => {}
            }
            let Some(action) = self.random.choice(self.actions.clone()) else { continue };
            self.trace.tell(&format!("operator: {action:?}"));
            self.judge.count(|counts| counts.disturbances += 1);
            match action {
                Action::Reload => self.judge.happens(Kind::Reload),
                Action::Upgrade => self.judge.happens(Kind::Upgrade),
                Action::Crash | Action::PowerFailure => self.judge.happens(Kind::Crash),
                Action::Purge => self.judge.happens(Kind::Purge),
                Action::ChangeDisk => self.judge.happens(Kind::Disk),
                Action::ReloadBroken | Action::Restart | Action::SetClock => {}
            }
            match action {
                Action::Reload => self.reload(true).await,
                Action::ReloadBroken => self.reload(false).await,
                Action::Upgrade => self.upgrade().await,
                Action::Restart => self.restart().await,
                Action::Crash => self.crash(Death::Killed).await,
                Action::PowerFailure => self.crash(Death::PowerFailure).await,
                Action::Purge => self.purge().await,
                Action::ChangeDisk => self.cached.disk.change(&mut self.random),
                Action::SetClock => {
                    let is_right = self.random.u32(..3) == 0;
                    let error = self.random.i64(-CLOCK_ERROR_S..CLOCK_ERROR_S);
                    self.set_clock(if is_right { 0 } else { error });
                }
            }
        }
    }

    /// Waits until the server has finished everything, and stops it.
    pub(crate) async fn end(mut self) {
        while self.retiring.join_next().await.is_some() {
            self.serve_http3().await;
        }
        if self.clock_error.load(Ordering::Relaxed) != 0 {
            self.set_clock(0);
        }
        // A store tries for as long as its disk fails.
        self.cached.disk.set(DiskConditions::default());
        if let Some(authority) = &self.authority {
            authority.recover();
            // Ends the pauses after failures.
            self.reload(true).await;
            if self.judge.has_set_clock() {
                sleep(CLOCK_NOTICED).await;
            }
        }
        let Some(running) = self.current.take() else { return };
        let quiet_polls = if self.authority.is_some() { QUIET_POLLS_WITH_TLS } else { QUIET_POLLS };
        for (time, most) in [(REST, REST_POLLS), (QUIET, quiet_polls)] {
            let polls = running.process.polls();
            sleep(time).await;
            let polls = running.process.polls() - polls;
            if polls > most {
                self.judge.fault(format!("without clients, tasks were polled {polls} times in {time:?}"));
            }
        }
        let usage = running.server.usage();
        if usage != Usage::default() {
            self.judge.fault(format!("without clients, the server holds {usage:?}"));
        }
        match self.network.descriptors() {
            0 => {}
            count => self.judge.fault(format!("without clients, the server has {count} connections")),
        }
        if let Some(authority) = self.authority.as_ref().filter(|_| !self.judge.has_long_pauses()) {
            authority.check_server().await;
        }
        if stop(self.network, &self.judge, running, Duration::from_secs(5)).await > 0 {
            self.judge.fault("connections were aborted by a stop without clients".to_owned());
        }
    }

    fn file(&self) -> PathBuf {
        self.folder.join("rudy.toml")
    }

    fn write(&self, text: &str) {
        fs::write(self.file(), text).expect("the folder is this run's");
    }

    async fn start_process(&mut self, inherited: Vec<rudy_net::listen::Listener>) -> Option<Running> {
        let (instant, date) = self.start;
        let process = Process::new(self.random.fork(), (instant.into_std(), date), self.clock_error);
        self.processes.push(process);
        self.cached.disk.repair();
        let file = self.file();
        let starting = {
            let _inside = Entered::new(process);
            let state = self.folder.join("state");
            let authority = self.authority.clone();
            inside(SimulatedServer::start(
                &file,
                Surroundings { inherited, state, authority: Arc::new(Reached(authority)) },
            ))
        };
        match starting.await {
            Ok(server) => Some(Running { process, server }),
            Err(why) => {
                self.judge.fault(format!("the server does not start: {why}"));
                None
            }
        }
    }

    async fn reload(&mut self, is_valid: bool) {
        let before = fs::read_to_string(self.file()).unwrap_or_default();
        let settings = self.settings();
        let text = if is_valid {
            settings.text(&self.folder)
        } else {
            settings.broken(&mut self.random, &self.folder)
        };
        self.write(&text);
        let file = self.file();
        let Some(running) = &mut self.current else { return };
        let reloading = {
            let _inside = Entered::new(running.process);
            inside(running.server.reload(&file))
        };
        match (is_valid, reloading.await) {
            (true, Err(why)) => self.judge.fault(format!("a reload of a valid configuration fails: {why}")),
            (false, Ok(())) => self.judge.fault("a reload of a broken configuration succeeds".to_owned()),
            (true, Ok(())) => {}
            // The file is that of the configuration in effect again.
            (false, Err(_)) => self.write(&before),
        }
    }

    async fn upgrade(&mut self) {
        let Some(old) = self.current.take() else { return };
        let listeners = match old.server.share_listeners() {
            Ok(listeners) => listeners,
            Err(why) => return self.judge.fault(format!("the listeners cannot be shared: {why}")),
        };
        let Some(new) = self.start_process(listeners).await else {
            self.current = Some(old);
            return;
        };
        self.judge.leaves_http3();
        in_process(&old, old.server.hand_over_listeners()).await;
        new.server.take_ownership();
        self.current = Some(new);
        let (judge, network, ledger) = (self.judge.clone(), self.network, self.cached.ledger.clone());
        let authority = self.authority.clone();
        ledger.begin_takeover();
        self.retiring.spawn(async move {
            sleep(TAKEOVER_PERIOD).await;
            if stop(network, &judge, old, GRACE).await > 0 {
                judge.fault(format!("requests were not finished {GRACE:?} after an upgrade"));
            }
            ledger.end_takeover();
            if let Some(authority) = authority {
                authority.process_ended();
            }
        });
    }

    /// Sets the wall clock of the server, which is wrong by `error` seconds from now on. All others have the right time.
    fn set_clock(&mut self, error: i64) {
        let before = self.clock_error.swap(error, Ordering::Relaxed);
        self.trace.tell(&format!("operator: the wall clock is set by {} s", error - before));
        // Certificates that are valid for minutes expire, or are not yet valid, by that clock.
        self.judge.excuse(Excuse::Clock);
        self.cached.ledger.clock_is_set(error - before);
    }

    /// An old process has ended, and with it its use of the port.
    async fn serve_http3(&self) {
        if let Some(running) = &self.current {
            in_process(running, async { running.server.serve_http3() }).await;
        }
        self.judge.has_http3(false);
    }

    async fn restart(&mut self) {
        self.judge.goes_down();
        if let Some(running) = self.current.take()
            && stop(self.network, &self.judge, running, GRACE).await > 0
        {
            self.judge.fault(format!("requests were not finished {GRACE:?} after a stop"));
        }
        if !self.cached.disk.faults().is_empty() {
            // Removals that the disk has refused end with the process.
            self.cached.ledger.forget_changes();
        }
        sleep(Duration::from_millis(self.random.u64(1..500))).await;
        self.cached.ledger.begin_alone();
        self.current = self.start_process(Vec::new()).await;
        self.judge.is_up();
    }

    async fn crash(&mut self, death: Death) {
        self.judge.goes_down();
        self.cached.die(death);
        // Also the old ones.
        for process in self.processes.drain(..) {
            process.kill();
            let _inside = Entered::new(process);
            self.network.exit();
        }
        self.retiring.shutdown().await;
        self.judge.has_http3(true);
        if let Some(Running { process, server }) = self.current.take() {
            check_panics(&self.judge, &server);
            let _inside = Entered::new(process);
            drop(server);
        }
        self.network.close_all();
        sleep(Duration::from_millis(self.random.u64(1..500))).await;
        self.cached.ledger.begin_alone();
        self.current = self.start_process(Vec::new()).await;
        self.judge.is_up();
    }

    async fn purge(&mut self) {
        let Some(running) = &self.current else { return };
        let purge = self.cached.purge(&mut self.random);
        sleep(Duration::from_micros(self.random.u64(..5_000))).await;
        let result = in_process(running, async { running.server.purge(purge.request.clone()) }).await;
        self.cached.purged(&purge, &result);
    }
}

/// Runs something inside of the process of a server.
async fn in_process<T>(running: &Running, work: impl Future<Output = T>) -> T {
    let work = {
        let _inside = Entered::new(running.process);
        inside(work)
    };
    work.await
}

/// A panic ends one connection, and is a fault.
fn check_panics(judge: &Judge, server: &SimulatedServer) {
    let panics = server.usage().panics;
    if panics > 0 {
        judge.fault(format!("{panics} connections have panicked"));
    }
}

/// Stops a server and ends its process. Returns how many connections were cut off.
async fn stop(network: &SimNetwork, judge: &Judge, running: Running, grace: Duration) -> u64 {
    let cut_off = in_process(&running, running.server.stop(grace)).await;
    check_panics(judge, &running.server);
    running.process.kill();
    let _inside = Entered::new(running.process);
    network.exit();
    drop(running.server);
    cut_off
}

//! The state of the process that all configurations share.

use std::convert::Infallible;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use rudy_admin::{RunningServer, StatusReport, UpstreamStatus};
use rudy_caching::Caches;
use rudy_client::buffer::Buffers;
use rudy_gateway::fastcgi::Apps;
use rudy_guard::Limits;
use rudy_log::{ErrorLog, ErrorLogOptions};
use rudy_pipeline::Resources;
use rudy_proxy::{ProxyPools, UpstreamChange};
use rudy_service::ServiceSource as _;
use rudy_site_tls::TlsState;
use rudy_site_tls::acme::{self, Renewals};
use rudy_system::admin::Responder;
use rudy_system::watched_files::{INTERVAL, WatchedFiles};
use rudy_units::visible;
use rudy_watch::access_log::AccessLogs;
use rudy_watch::metrics::{Format, Metrics, MetricsText};
use rudy_watch::status::{Activity, LIMIT_MAX, Selection};
use rudy_watch::traces::Exporters;
use tokio::task::JoinHandle;
use tokio::time::MissedTickBehavior;

use super::current_app::CurrentApp;
use super::exit::Failure;
use crate::App;
use crate::config::Config;

/// The state that all configurations of a process share. Clones share it too.
#[derive(Clone)]
pub(super) struct Context {
    pub(super) errors: ErrorLog,
    pub(super) metrics: Arc<Metrics>,
    pub(super) apps: Arc<Apps>,
    pub(super) activity: Arc<Activity>,
    pub(super) buffers: Arc<Buffers>,
    proxies: Arc<ProxyPools>,
    pub(super) tls: Arc<TlsState>,
    watched_files: Arc<WatchedFiles>,
    resources: Arc<Resources>,
    /// The number of workers of the engine.
    workers: usize,
    /// The process that replaces this one, and has its caches.
    successor: Arc<ArcSwapOption<RunningServer>>,
}

impl Context {
    /// Creates the state of an engine with this number of workers, with an error log, and a folder for what a restart needs.
    pub(super) fn new(log: &ErrorLogOptions, workers: usize, folder: Option<PathBuf>) -> io::Result<Self> {
        let errors = ErrorLog::open(log)?;
        errors.subscribe();
        let resources = Resources::default()
            .with(Arc::new(Metrics::of_workers(workers)))
            .with(Arc::new(TlsState::in_folder(folder)));
        Ok(Self {
            errors,
            metrics: resources.of(),
            activity: resources.of(),
            apps: resources.of(),
            buffers: resources.of(),
            proxies: resources.of(),
            tls: resources.of(),
            watched_files: resources.of(),
            resources: Arc::new(resources),
            workers,
            successor: Arc::default(),
        })
    }

    /// Builds the app of a configuration. Its processes are not started.
    pub(super) fn build_app(&self, config: &Config, logs: Option<&AccessLogs>) -> Result<App, Failure> {
        let app = App::new(config, &self.resources).map_err(Failure::Config)?;
        let app = app.with_error_log(self.errors.clone());
        Ok(match logs {
            Some(logs) => app.with_access_logs(logs.clone()),
            None => app,
        })
    }

    /// Opens the access logs of a configuration.
    pub(super) fn open_access_logs(&self, config: &Config) -> Result<Option<AccessLogs>, Failure> {
        AccessLogs::open(&config.access_logs(), &self.errors)
            .map_err(|error| Failure::Cannot(error.to_string()))
    }

    /// Sends the spans that wait for a collector, within the time for a stop.
    pub(super) fn close_exporters(&self, within: Duration) {
        let lost = self.resources.of::<Exporters>().close(within);
        if lost > 0 {
            let within = within.as_secs_f32();
            let message = format!(
                "tracing: {lost} spans lost at the end, because the collector has not accepted them within {within} s"
            );
            self.errors.error(&message);
        }
    }

    /// Lets the dashboard, the metrics and purges of apps ask for the current app.
    pub(super) fn serve_admin(&self, current_app: &Arc<CurrentApp>) {
        let (reporting, of_app) = (self.clone(), current_app.clone());
        self.activity.set_source(move |selection| reporting.status(selection, &of_app.current()));
        let (writing, of_app) = (self.clone(), current_app.clone());
        self.set_metrics_source(move |format| of_app.current().metrics(writing.resources(), format));
        self.apps.respond_to_purges(self.responder(current_app));
    }

    /// What outlives a configuration.
    pub(super) fn resources(&self) -> &Resources {
        &self.resources
    }

    /// Sets what writes the metrics for Prometheus.
    fn set_metrics_source(&self, source: impl Fn(Format) -> String + Send + Sync + 'static) {
        self.resources.of::<MetricsText>().set_source(source);
    }

    /// Returns what responds to requests to the admin socket, and to purges of apps.
    pub(super) fn responder(&self, current_app: &Arc<CurrentApp>) -> Responder {
        let (context, current_app) = (self.clone(), current_app.clone());
        Responder::new(move |request| context.respond(&request, &current_app.current()))
    }

    /// Responds to a request; `app` is the current configuration.
    pub(super) fn respond(&self, request: &rudy_admin::Request, app: &App) -> rudy_admin::Response {
        match request {
            rudy_admin::Request::Certificates => rudy_admin::Response::Certificates(self.tls.certificates()),
            rudy_admin::Request::Metrics => {
                rudy_admin::Response::Metrics(app.metrics(&self.resources, Format::Prometheus))
            }
            rudy_admin::Request::Status { filter, limit, queries } => {
                let selection = Selection { filter, limit: (*limit).min(LIMIT_MAX), queries: *queries };
                rudy_admin::Response::Status(Box::new(self.status(selection, app)))
            }
            rudy_admin::Request::Kill { id } => self.killed(Activity::kill(&self.metrics, id), id),
            rudy_admin::Request::KillClient { address } => {
                self.killed(Activity::kill_client(&self.metrics, address), address)
            }
            rudy_admin::Request::Upstreams => rudy_admin::Response::Upstreams(self.upstreams(app)),
            rudy_admin::Request::Limits => {
                rudy_admin::Response::Limits(self.resources.of::<Limits>().status())
            }
            rudy_admin::Request::DrainUpstream { name } => {
                self.change_upstream(name, UpstreamChange::Drain, app)
            }
            rudy_admin::Request::RestoreUpstream { name } => {
                self.change_upstream(name, UpstreamChange::Up, app)
            }
            of_cache => match &*self.successor.load() {
                Some(successor) if matches!(of_cache, rudy_admin::Request::CachePurge(_)) => {
                    rudy_admin::ask(successor, of_cache).unwrap_or_else(rudy_admin::Response::Error)
                }
                _ => rudy_caching::respond(of_cache, &app.caches().collect::<Vec<_>>()),
            },
        }
    }

    /// Returns the state of all upstreams; `app` is the current configuration.
    pub(super) fn upstreams(&self, app: &App) -> Vec<UpstreamStatus> {
        app.upstreams(&self.proxies)
    }

    /// Returns the state of the server; `app` is the current configuration.
    pub(super) fn status(&self, selection: Selection<'_>, app: &App) -> StatusReport {
        StatusReport { upstreams: self.upstreams(app), ..self.activity.report(&self.metrics, selection) }
    }

    fn killed(&self, count: usize, what: &str) -> rudy_admin::Response {
        if count > 0 {
            let requests = rudy_units::counted(count, "active request");
            self.errors.notice(&format!("by `rudy status`, {requests} of {} ended", visible(what)));
        }
        rudy_admin::Response::Killed(count)
    }

    fn change_upstream(&self, name: &str, change: UpstreamChange, app: &App) -> rudy_admin::Response {
        if !self.proxies.change_upstream(name, change) {
            return rudy_admin::Response::Error(format!("no upstream is named \"{}\"", visible(name)));
        }
        let done = match change {
            UpstreamChange::Drain => "is drained: it finishes its requests and gets no new ones",
            UpstreamChange::Up => "gets requests",
        };
        self.errors.notice(&format!("by `rudy upstreams`, {} {done}", visible(name)));
        rudy_admin::Response::Upstreams(self.upstreams(app))
    }

    /// Creates the folders for certificates from an authority.
    pub(super) fn prepare_renewals(&self, config: &Config) -> Result<(), Failure> {
        acme::prepare(&config.wanted_certificates(), self.tls.acme())
            .map_err(|why| Failure::Cannot(format!("keep certificates (`tls = \"auto\"`): {why}")))
    }

    /// Keeps the certificates of a configuration valid.
    pub(super) fn renew(&self, renewals: &mut Renewals, config: &Config) {
        if let Err(error) = renewals.set(config.wanted_certificates(), self.tls.acme(), &self.errors) {
            self.errors.error(&format!("cannot start the thread that renews certificates: {error}"));
        }
    }

    /// Lets the process that replaces this one store responses, while this one finishes its requests. Purges go to that process.
    pub(super) fn release_caches(&self, successor: RunningServer) {
        let successor = Arc::new(successor);
        self.successor.store(Some(successor.clone()));
        self.resources.of::<Caches>().open().iter().for_each(|open| open.release(successor.clone()));
    }

    /// Stores responses again, after the process that replaced this one has ended.
    pub(super) fn reclaim_caches(&self) {
        self.successor.store(None);
        self.resources.of::<Caches>().open().iter().for_each(|open| open.reclaim());
    }

    /// Writes the secrets of all TLS sessions to a file.
    pub(super) fn write_key_log(&self, path: &Path, file: File) {
        self.tls.set_key_log(file);
        self.errors.notice(&format!(
            "--tls-key-log writes the secrets of all TLS sessions to {}: its readers can decrypt all traffic",
            path.display()
        ));
    }

    /// Logs what the operator should know about certificates, keys and other files.
    pub(super) fn log_notices(&self) {
        let Self { tls, watched_files, .. } = self;
        let notices = tls.take_notices().into_iter().chain(watched_files.take_notices());
        notices.for_each(|notice| self.errors.notice(&notice));
    }

    /// Returns whether files are in use that may change.
    pub(super) fn watches_files(&self, config: &Config) -> bool {
        config.has_tls() || self.watched_files.is_in_use()
    }

    /// Reads certificates and other files again whenever they have changed, one task after the other: `reading` is the last one, which
    /// another call may have started.
    pub(super) async fn watch_files(&self, reading: &mut Option<JoinHandle<()>>) -> Infallible {
        let mut interval = tokio::time::interval(INTERVAL);
        interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            if let Some(task) = reading.as_mut() {
                // An error means a panic, which is logged.
                let _ = task.await;
                *reading = None;
            }
            interval.tick().await;
            let context = self.clone();
            *reading = Some(rudy_runtime::blocking(move || context.update_files()));
        }
    }

    /// Replaces certificates and other settings whose files have changed. May wait for the file system.
    fn update_files(&self) {
        let Self { tls, watched_files, .. } = self;
        for replaced in tls.replace_changed().into_iter().chain(watched_files.update()) {
            match replaced {
                Ok(line) => self.errors.notice(&line),
                Err(line) => self.errors.error(&line),
            }
        }
        self.log_notices();
    }

    /// Uses the keys of session tickets of a configuration that is in effect, if it has a site with TLS.
    pub(super) fn use_ticket_keys(&self, config: &Config) {
        if config.has_tls() {
            self.tls.use_ticket_keys(config.ticket_keys.as_deref());
        }
    }

    /// Starts the processes of a configuration that are not running yet, its proxies and caches. Their errors say what cannot be done.
    pub(super) fn start_apps(&self, app: &App) -> Result<(), Failure> {
        app.start(&self.resources, self.workers, &self.errors)
            .map_err(|error| Failure::Cannot(error.to_string()))
    }
}

//! The engine and its settings.

use std::num::NonZeroUsize;
use std::time::Duration;

use rudy_config::{Diagnostics, Int, Location, Problem, Table};
use rudy_net::engine::{self, Model};
use rudy_pipeline::HandlerConfig;

use super::values::EngineName;
use super::{Config, CongestionControl};
use crate::step_settings::StepsTable;

/// The maximum linger timeout of engines with few threads, where a lingering connection occupies one of them.
const SCARCE_LINGER_TIME: Duration = Duration::from_secs(1);

/// The engine and its settings, for the lifetime of the process: a reload does not change them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Table)]
#[setting(default)]
pub struct EngineOptions {
    /// Concurrency model: `percore` (a task per connection, on the core that accepted it), `task` (a task per
    /// connection, on any core), `mailbox` (like `task`, with received data passed as messages), `thread` (a thread
    /// per connection), `pool:16` (16 threads, each serving one connection at a time), `serial` (one connection at a
    /// time). A change needs a restart.
    #[setting(name = "engine", read = EngineName, default = EngineName::default())]
    pub model: Model,
    /// Number of worker threads of the engines `percore`, `task` and `mailbox`. The default is one per core available
    /// to the process.
    #[setting(read = Int<1, 1024>, example = 2)]
    pub cores: Option<NonZeroUsize>,
    /// Maximum number of threads of the engine `thread`, which uses one per connection. The default is 4096. Further
    /// connections wait.
    #[setting(read = Int<1, 100_000>, example = 1000)]
    pub threads: Option<NonZeroUsize>,
    /// Allows several requests per connection. The default is `true`, except for the engines `serial` and `pool:N`,
    /// where an idle connection occupies a thread.
    pub keep_alive: Option<bool>,
}

impl EngineOptions {
    /// Whether a connection can have several requests. On an engine with few threads, the default is no, because an idle connection
    /// would occupy a thread.
    #[must_use]
    pub fn keeps_alive(&self) -> bool {
        self.keep_alive.unwrap_or(!self.model.has_fixed_threads())
    }

    /// The options to start the engine with.
    pub(crate) fn for_start(&self) -> engine::Options {
        engine::Options { model: self.model, cores: self.cores, threads_max: self.threads, quic_keys: None }
    }

    /// Reports settings that the engine does not use.
    pub(crate) fn problems(&self, location: &Location) -> Vec<Problem> {
        let Self { model, cores, threads, keep_alive: _ } = *self;
        let wrong = |key: &str, help: &str| {
            let problem =
                Problem::key(&location.key(key), format!("`{key}` does not apply to the engine `{model}`"));
            problem.label("has no effect").help(help)
        };
        let mut problems = Vec::new();
        if cores.is_some() && model.has_thread_per_connection() {
            problems.push(wrong(
                "cores",
                "it applies to `percore`, `task` and `mailbox`; `pool:N` has N threads",
            ));
        }
        if threads.is_some() && model != Model::Thread {
            problems.push(wrong(
                "threads",
                "it applies to `thread`; use `cores` with `percore`, `task` and `mailbox`, and `pool:N` has N threads",
            ));
        }
        problems
    }
}

impl Config {
    /// The limits, adjusted to the engine.
    pub(crate) fn limits_in_effect(&self) -> rudy_service::Limits {
        let mut limits = self.limits.clone();
        if !self.engine.keeps_alive() {
            limits.http.requests_per_connection = Some(1);
        }
        if self.engine.model.has_fixed_threads() {
            limits.linger_timeout = limits.linger_timeout.min(SCARCE_LINGER_TIME);
        }
        limits.http.body_bytes = self.body_bytes_max();
        limits.http3_uses_bbr = self.http3_congestion == CongestionControl::Bbr;
        limits
    }

    /// The maximum size of a request body that connections check: the largest of all sites and routes. None if a response to a larger
    /// one has header fields or an error page of its site, because connections know no sites. Then each route checks it.
    pub(crate) fn body_bytes_max(&self) -> u64 {
        let routes = self.sites.iter().flat_map(|site| &site.routes).map(|route| &route.steps);
        let steps = routes.chain(self.sites.iter().map(|site| &site.steps)).chain([&self.defaults.steps]);
        if steps.clone().any(StepsTable::changes_errors) {
            return u64::MAX;
        }
        let sizes = steps.filter_map(|steps| steps.body_bytes).map(|size| size.0);
        sizes.chain([self.limits.http.body_bytes]).max().unwrap_or_default()
    }

    /// Replaces the configured engine by the running one, and returns whether they differ. Problems are reported now, not at the
    /// next start.
    pub(crate) fn keep_engine(&mut self, running: EngineOptions) -> Result<bool, Diagnostics> {
        let problems = self.engine.problems(&Location::file(0));
        if !problems.is_empty() {
            return Err(Diagnostics::new(self.sources.clone(), problems));
        }
        let configured = self.engine;
        self.engine = EngineOptions { keep_alive: configured.keep_alive, ..running };
        Ok(configured != self.engine)
    }

    /// Notices that are not errors: skipped files, and an engine that does not suit the routes.
    #[must_use]
    pub fn notices(&self) -> Vec<String> {
        let model = self.engine.model;
        let routes = self.sites.iter().flat_map(|site| &site.routes);
        let endless =
            routes.filter(|route| model.has_fixed_threads() && route.handler.is_endless()).map(|route| {
                let paths: Vec<_> = route.paths.iter().map(ToString::to_string).collect();
                let what = match model {
                    Model::Pool(threads) => format!("each of its clients occupies one of {threads} threads"),
                    _ => {
                        "its first client occupies the only thread, and no other client is served".to_owned()
                    }
                };
                format!("{} is an endless stream: with the engine `{model}`, {what}", paths.join(" "))
            });
        self.ignored
            .iter()
            .cloned()
            .chain(endless)
            .chain(self.without_http2())
            .chain(self.absent_sockets())
            .chain(self.php_without_bypass())
            .chain(self.caches_for_users())
            .chain(self.reachable_as_path_info())
            .chain(self.closed_front_controllers())
            .chain(self.with_path_info())
            .chain(super::acme::notices(self))
            .collect()
    }

    /// A notice if clients over TLS expect HTTP/2, which the engine does not speak.
    fn without_http2(&self) -> Option<String> {
        let is_expected = self.http2 && self.addresses().iter().any(|address| address.tls);
        (is_expected && !self.offers_http2()).then(|| {
            format!(
                "the engine `{}` does not offer HTTP/2; `percore`, `task` and `mailbox` do",
                self.engine.model
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keep_alive_is_off_by_default_in_engines_with_few_threads() {
        for model in Model::all(NonZeroUsize::MIN) {
            let options = EngineOptions { model, ..EngineOptions::default() };
            assert_eq!(options.keeps_alive(), !matches!(model, Model::Serial | Model::Pool(_)), "{model}");
            assert!(EngineOptions { keep_alive: Some(true), ..options }.keeps_alive());
            assert!(!EngineOptions { keep_alive: Some(false), ..options }.keeps_alive());
        }
    }
}

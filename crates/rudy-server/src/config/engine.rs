//! The engine that is chosen, and what goes with it.

use std::num::NonZeroUsize;
use std::time::Duration;

use rudy_net::engine::{self, Model};

use super::{Config, Diagnostics, Location, Problem};
use crate::handlers::HandlerConfig;

/// How long a connection that is being closed may go on sending where it holds one of few threads meanwhile: a client that
/// is told of the close and does not close is not to keep others waiting for the usual 5 s.
const SCARCE_LINGER_TIME: Duration = Duration::from_secs(1);

/// The engine, and its settings. They hold from the start to the end of the process: a reload does not change them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EngineOptions {
    /// The concurrency model.
    pub model: Model,
    /// Threads that serve connections; `None` is one for each core that the process may use. For `percore`, `task` and
    /// `mailbox`.
    pub cores: Option<NonZeroUsize>,
    /// Connections served at once, each by a thread of its own. For `thread`.
    pub threads: Option<NonZeroUsize>,
    /// Whether a connection may have more than one request; `None` is what suits the engine.
    pub keep_alive: Option<bool>,
}

impl EngineOptions {
    /// Whether a connection may have more than one request. On an engine with few threads an idle connection would hold one
    /// for itself, so it has to be asked for there.
    #[must_use]
    pub fn keeps_alive(&self) -> bool {
        self.keep_alive.unwrap_or(!self.model.has_fixed_threads())
    }

    /// What the engine is started with.
    pub(crate) fn for_start(&self) -> engine::Options {
        engine::Options { model: self.model, cores: self.cores, threads_max: self.threads }
    }

    /// Settings that the engine has no use for. `place` is where they stand.
    pub(crate) fn problems(&self, location: &Location) -> Vec<Problem> {
        let Self { model, cores, threads, keep_alive: _ } = *self;
        let wrong = |key: &str, help: &str| {
            let problem =
                Problem::key(&location.key(key), format!("`{key}` is not for the engine `{model}`"));
            problem.label("has no effect").help(help)
        };
        let mut problems = Vec::new();
        if cores.is_some() && model.has_thread_per_connection() {
            problems
                .push(wrong("cores", "it is for `percore`, `task` and `mailbox`; `pool:N` has N threads"));
        }
        if threads.is_some() && model != Model::Thread {
            problems.push(wrong(
                "threads",
                "it is for `thread`; others have `cores`, and `pool:N` has N threads",
            ));
        }
        problems
    }
}

impl Config {
    /// The limits, with what the engine makes of them.
    pub(crate) fn limits_in_effect(&self) -> rudy_net::Limits {
        let mut limits = self.limits.clone();
        if !self.engine.keeps_alive() {
            limits.http.requests_per_connection = Some(1);
        }
        if self.engine.model.has_fixed_threads() {
            limits.linger_timeout = limits.linger_timeout.min(SCARCE_LINGER_TIME);
        }
        limits
    }

    /// Takes the engine that runs for the one asked for; true where they differ. What is wrong is said now, not at the next
    /// start.
    pub(crate) fn go_on_with(&mut self, running: EngineOptions) -> Result<bool, Diagnostics> {
        let problems = self.engine.problems(&Location::file(0));
        if !problems.is_empty() {
            return Err(Diagnostics::new(self.sources.clone(), problems));
        }
        let asked = self.engine;
        self.engine = EngineOptions { keep_alive: asked.keep_alive, ..running };
        Ok(asked != self.engine)
    }

    /// What is worth saying though it is no error: files that were not taken, and an engine that will not do well here.
    #[must_use]
    pub fn notices(&self) -> Vec<String> {
        let model = self.engine.model;
        let routes = self.sites.iter().flat_map(|site| &site.routes);
        let endless =
            routes.filter(|route| model.has_fixed_threads() && route.handler.is_endless()).map(|route| {
                let paths: Vec<_> = route.paths.iter().map(ToString::to_string).collect();
                let what = match model {
                    Model::Pool(threads) => format!("each client of it holds one of {threads} threads"),
                    _ => "its first client holds the only thread, and nobody else is answered".to_owned(),
                };
                format!("{} never ends: with the engine `{model}` {what}", paths.join(" "))
            });
        self.ignored
            .iter()
            .cloned()
            .chain(endless)
            .chain(self.absent_sockets())
            .chain(self.reopened_folders())
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keep_alive_is_off_where_an_idle_connection_would_hold_one_of_few_threads() {
        for model in Model::all(NonZeroUsize::MIN) {
            let options = EngineOptions { model, ..EngineOptions::default() };
            assert_eq!(options.keeps_alive(), !matches!(model, Model::Serial | Model::Pool(_)), "{model}");
            assert!(EngineOptions { keep_alive: Some(true), ..options }.keeps_alive());
            assert!(!EngineOptions { keep_alive: Some(false), ..options }.keeps_alive());
        }
    }
}

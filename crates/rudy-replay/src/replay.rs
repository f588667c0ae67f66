//! Sends requests to both servers and compares the responses.

use std::time::{Duration, Instant};

use http::HeaderMap;
use rudy_request::Waiter;

use crate::compare::{Comparison, Difference, Kind};
use crate::follow_up::{FollowUp, Samples};
use crate::response::Outcome;
use crate::server::{CODINGS, NotSent, Server};
use crate::{Options, Report, Request, curl};

/// The shortest pause between requests that a rate can mean.
const RATE_MAX: f64 = 100_000.0;

/// Sends requests to both servers, one after the other.
pub struct Replay<'a> {
    options: &'a Options,
    old: Server<'a>,
    new: Server<'a>,
    /// When the next request may be sent.
    next: Instant,
    samples: Samples,
    report: Report,
}

/// Why a replay ends before its source does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ended {
    /// A signal.
    Interrupted(u8),
    /// The first request has not reached a server.
    Unreachable(String),
}

impl<'a> Replay<'a> {
    /// A replay of a source, by its name.
    #[must_use]
    pub fn new(options: &'a Options, source: &str, waiter: &'a Waiter) -> Self {
        let report = Report {
            old: options.old.to_string(),
            new: options.new.to_string(),
            source: source.to_owned(),
            ..Report::default()
        };
        Self {
            options,
            old: Server::new(options, &options.old, waiter),
            new: Server::new(options, &options.new, waiter),
            next: Instant::now(),
            samples: Samples::new(options.samples),
            report,
        }
    }

    /// The report so far.
    #[must_use]
    pub fn report(&mut self) -> &mut Report {
        &mut self.report
    }

    /// The final report.
    #[must_use]
    pub fn finish(mut self) -> Report {
        self.report.sort();
        self.report
    }

    /// Sends a request to both servers, and adds the differences to the report. Returns the response of the old one.
    ///
    /// # Errors
    ///
    /// The replay ends.
    pub fn send(&mut self, request: &Request) -> Result<Option<Outcome>, Ended> {
        let Some(comparison) = self.comparison(request) else { return Ok(self.skip()) };
        let none = HeaderMap::new();
        let Some((old, new)) = self.exchange(request, [&none, &none])? else { return Ok(self.skip()) };
        self.check_reachable(&old, &new)?;
        self.report.requests += 1;
        self.report.failed_on_both += u64::from(old.is_err() && new.is_err());
        let mut differences = comparison.compare(&request.method, &old, &new);
        self.remove_unstable(request, &comparison, &old, &mut differences)?;
        let mut found: Vec<_> = differences.into_iter().map(|difference| (difference, None)).collect();
        if let (Ok(old), Ok(new)) = (&old, &new) {
            let is_equal = !found.iter().any(|(found, _)| matches!(found.kind, Kind::Status | Kind::Body));
            for follow_up in self.samples.follow_ups(request, old, new, is_equal) {
                found.extend(self.follow_up(request, &comparison, &follow_up)?);
            }
            self.report.sampled = self.samples.taken();
        }
        self.report.different += u64::from(!found.is_empty());
        for (difference, follow_up) in &found {
            self.add(request, difference, follow_up.as_ref());
        }
        Ok(Some(old))
    }

    fn skip(&mut self) -> Option<Outcome> {
        self.report.skip("no valid request", 1);
        None
    }

    fn comparison(&self, request: &Request) -> Option<Comparison> {
        Some(Comparison {
            old: self.old.side(request)?,
            new: self.new.side(request)?,
            ignored: self.options.ignored.clone(),
            ignores_error_pages: self.options.ignores_error_pages,
            values: self.options.values,
        })
    }

    /// Sends a request to both servers, with these fields for each. None if it is not valid.
    fn exchange(
        &mut self,
        request: &Request,
        fields: [&HeaderMap; 2],
    ) -> Result<Option<(Outcome, Outcome)>, Ended> {
        self.pace()?;
        let sent =
            self.old.send(request, fields[0]).and_then(|old| Ok((old, self.new.send(request, fields[1])?)));
        match sent {
            Ok(outcomes) => Ok(Some(outcomes)),
            Err(NotSent::Invalid) => Ok(None),
            Err(NotSent::Interrupted(signal)) => Err(Ended::Interrupted(signal)),
        }
    }

    /// Waits until the next request may be sent.
    fn pace(&mut self) -> Result<(), Ended> {
        let now = Instant::now();
        if self.next > now {
            self.old.rest(self.next).map_err(Ended::Interrupted)?;
        }
        let pause = Duration::from_secs_f64(1.0 / self.options.rate.clamp(1.0 / RATE_MAX, RATE_MAX));
        self.next = self.next.max(now) + pause;
        Ok(())
    }

    /// A first request that does not reach a server ends the replay.
    fn check_reachable(&self, old: &Outcome, new: &Outcome) -> Result<(), Ended> {
        if self.report.requests > 0 {
            return Ok(());
        }
        for (url, outcome) in [(&self.options.old, old), (&self.options.new, new)] {
            if let Err(failed) = outcome
                && matches!(failed.kind, "connect" | "connect_timeout" | "lookup" | "tls")
            {
                return Err(Ended::Unreachable(format!("cannot reach {url}: {}", failed.message)));
            }
        }
        Ok(())
    }

    /// Removes differences that another response of the old server has, too. Only safe requests are sent again.
    fn remove_unstable(
        &mut self,
        request: &Request,
        comparison: &Comparison,
        old: &Outcome,
        differences: &mut Vec<Difference>,
    ) -> Result<(), Ended> {
        if differences.is_empty() || !request.method.is_safe() {
            return Ok(());
        }
        self.pace()?;
        let again = match self.old.send(request, &HeaderMap::new()) {
            Ok(again) => again,
            Err(NotSent::Interrupted(signal)) => return Err(Ended::Interrupted(signal)),
            Err(NotSent::Invalid) => return Ok(()),
        };
        let itself = Comparison { new: comparison.old.clone(), ..comparison.clone() };
        let itself = itself.compare(&request.method, old, &again);
        let before = differences.len();
        differences.retain(|difference| !itself.iter().any(|own| own.subject == difference.subject));
        self.report.unstable += u64::from(differences.len() < before);
        Ok(())
    }

    /// Sends a request again with a condition or a range.
    fn follow_up(
        &mut self,
        request: &Request,
        comparison: &Comparison,
        follow_up: &FollowUp,
    ) -> Result<Vec<(Difference, Option<FollowUp>)>, Ended> {
        let Some((old, new)) = self.exchange(request, [&follow_up.old, &follow_up.new])? else {
            return Ok(Vec::new());
        };
        let differences = match follow_up.kind {
            Kind::Range => comparison.compare_ranges(&old, &new),
            kind => comparison.compare_statuses(kind, follow_up.name, &old, &new),
        };
        Ok(differences.into_iter().map(|difference| (difference, Some(follow_up.clone()))).collect())
    }

    fn add(&mut self, request: &Request, difference: &Difference, follow_up: Option<&FollowUp>) {
        let options = self.options;
        self.report.add(difference, request.place.0, || {
            let value = follow_up.and_then(|follow_up| Some((follow_up.name, follow_up.value()?)));
            let coding = (difference.kind == Kind::Compression).then_some(("accept-encoding", CODINGS));
            curl::command(options, request, value.or(coding))
        });
    }
}

//! A cache in memory, as the caller of the crate has to build it, and the lines of a case that drive it.

mod cache;

use http::{HeaderMap, HeaderName, HeaderValue, Request, Response};
use rudy_cache::{ByStatus, CacheStatus, Decision, Exchange, Heuristic, HttpDate, Policy, Seconds, Verdict};

use cache::Cache;

/// The state of a case.
#[derive(Default)]
pub(crate) struct Runner {
    cache: Cache,
    now: i64,
    requested_at: i64,
    request: Request<()>,
    decision: Option<Decision>,
    upstream: HeaderMap,
    response: Response<()>,
    /// The response from the cache, if there is one.
    reply: Option<(HeaderMap, Verdict)>,
}

type Step = Result<(), String>;

impl Runner {
    /// Runs the lines of a case. Returns the number of the first line that does not hold, and why.
    pub(crate) fn run(&mut self, lines: &[(usize, &str)]) -> Result<(), (usize, String)> {
        for (number, line) in lines {
            self.step(line).map_err(|problem| (*number, problem))?;
        }
        Ok(())
    }

    fn step(&mut self, line: &str) -> Step {
        let (mark, text) = line.split_once(' ').unwrap_or((line, ""));
        match mark {
            "policy" => text.split(' ').try_for_each(|setting| set(&mut self.cache.policy, setting)),
            "wait" => number(text).map(|seconds| self.now += seconds),
            ">" if append(self.request.headers_mut(), text) => Ok(()),
            ">" => self.request(text),
            "=" => self.decide(text),
            ">>" => expect_field(&self.upstream, text),
            "<" if append(self.response.headers_mut(), text) => Ok(()),
            "<" => self.respond(text),
            "received" => number(text).map(|bytes| self.cache.truncate(&self.request, bytes.unsigned_abs())),
            "*" => self.receive(text),
            "<<" => self.expect_reply(text),
            _ => Err(format!("not a line of a case: `{line}`")),
        }
    }

    fn request(&mut self, text: &str) -> Step {
        let (method, target) = text.split_once(' ').ok_or("expected a method and a target")?;
        let request = Request::builder().method(method).uri(target).body(());
        self.request = request.map_err(|error| error.to_string())?;
        self.requested_at = self.now;
        Ok(())
    }

    fn respond(&mut self, text: &str) -> Step {
        let response = Response::builder().status(text).body(());
        self.response = response.map_err(|error| error.to_string())?;
        Ok(())
    }

    fn decide(&mut self, expected: &str) -> Step {
        let stored = self.cache.stored(&self.request);
        let decision = self.cache.policy.lookup(&self.request, stored, date(self.now));
        self.decision = Some(decision);
        self.upstream = self.request.headers().clone();
        decision.prepare(stored, &mut self.upstream);
        let selected = match decision {
            Decision::Hit(selected) | Decision::StaleHit(selected) => Some(selected),
            _ => None,
        };
        self.reply = selected.map(|selected| {
            let stored = &stored[selected.index];
            (stored.fields_at(selected.age), stored.verdict(&self.request))
        });
        let status = CacheStatus::of(&decision).to_string();
        let status = status.trim_start_matches("Rudy").trim_start_matches("; ");
        expect(
            expected,
            &match decision {
                Decision::StaleHit(_) => format!("{status}; background"),
                Decision::Validate { stale_if_error: true, .. } => format!("{status}; stale-if-error"),
                Decision::OnlyIfCached => "504".into(),
                _ => status.into(),
            },
        )
    }

    fn receive(&mut self, expected: &str) -> Step {
        let exchange = Exchange { requested_at: date(self.requested_at), received_at: date(self.now) };
        let decision = self.decision.ok_or("expected a decision before")?;
        let (outcome, stored) = self.cache.receive(decision, &self.request, &self.response, exchange);
        self.reply = stored
            .map(|stored| (stored.fields_at(stored.age(date(self.now))), stored.verdict(&self.request)));
        expect(expected, &outcome)
    }

    fn expect_reply(&self, text: &str) -> Step {
        let (fields, verdict) = self.reply.as_ref().ok_or("expected a response from the cache")?;
        let verdict = match verdict {
            Verdict::Proceed => "proceed",
            Verdict::IgnoreRange => "whole",
            Verdict::NotModified => "304",
            Verdict::PreconditionFailed => "412",
        };
        match text {
            "proceed" | "whole" | "304" | "412" => expect(text, verdict),
            _ => expect_field(fields, text),
        }
    }
}

fn set(policy: &mut Policy, setting: &str) -> Step {
    let (name, value) = setting.split_once('=').unwrap_or((setting, ""));
    match name {
        "targets" => {
            policy.targets = value.split(',').map(|name| name.parse().expect("a field name")).collect();
        }
        "heuristic" => {
            let percent = value.parse().map_err(|_| "not a share")?;
            policy.heuristic = Some(Heuristic { percent, max: Seconds::new(86_400) });
        }
        "default" => policy.default_freshness = by_status(value)?,
        "max" => policy.max_freshness = by_status(value)?,
        "ignore-origin" => policy.ignore_origin = true,
        "ignore-authorization" => policy.ignore_authorization = true,
        "ignore-client" => policy.ignore_client = true,
        "remove-set-cookie" => policy.remove_set_cookie = true,
        "stale-if-error" => policy.stale_if_error = Seconds::new(number(value)?.unsigned_abs()),
        "stale-beside-s-maxage" => policy.stale_beside_s_maxage = true,
        _ => return Err(format!("not a setting: `{setting}`")),
    }
    Ok(())
}

/// Parses `200:60,404:10`.
fn by_status(text: &str) -> Result<ByStatus, String> {
    let of_status = |part: &str| {
        let (status, seconds) = part.split_once(':').ok_or("expected STATUS:SECONDS")?;
        let status = status.parse::<u16>().map_err(|_| format!("not a status: `{status}`"))?;
        Ok((status..=status, Seconds::new(number(seconds)?.unsigned_abs())))
    };
    text.split(',').map(of_status).collect::<Result<_, String>>().map(ByStatus::new)
}

fn date(second: i64) -> HttpDate {
    HttpDate::from_unix_seconds(784_111_777 + second)
}

fn number(text: &str) -> Result<i64, String> {
    text.parse().map_err(|_| format!("not a number: `{text}`"))
}

/// Appends `NAME: VALUE`. Returns whether the text is a field.
fn append(fields: &mut HeaderMap, text: &str) -> bool {
    let Some((name, value)) = text.split_once(':') else { return false };
    match (HeaderName::from_bytes(name.as_bytes()), HeaderValue::from_str(value.trim())) {
        (Ok(name), Ok(value)) => {
            fields.append(name, value);
            true
        }
        _ => false,
    }
}

fn expect(expected: &str, found: &str) -> Step {
    if expected == found { Ok(()) } else { Err(format!("expected `{expected}`, found `{found}`")) }
}

fn expect_field(fields: &HeaderMap, text: &str) -> Step {
    let lines = |name: &str| {
        let lines = fields.get_all(name).iter().map(|line| line.to_str().unwrap_or("?").to_owned());
        lines.collect::<Vec<_>>().join(", ")
    };
    if let Some(name) = text.strip_prefix('!') {
        let found = lines(name);
        return if fields.contains_key(name) {
            Err(format!("expected no `{name}`, found `{found}`"))
        } else {
            Ok(())
        };
    }
    let (name, value) = text.split_once(':').ok_or("expected a field")?;
    let found = lines(name);
    if found == value.trim() { Ok(()) } else { Err(format!("expected `{text}`, found `{found}`")) }
}

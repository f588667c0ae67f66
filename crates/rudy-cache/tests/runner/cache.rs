//! A cache in memory: a map of keys to lists of stored responses, and the calls in the order of the crate's documentation.

use std::collections::HashMap;

use http::{Method, Request, Response, StatusCode};
use rudy_cache::{Change, Content, Decision, Exchange, Forward, Key, Policy, Stored, is_error};

#[derive(Default)]
pub(crate) struct Cache {
    pub(crate) policy: Policy,
    responses: HashMap<Key, Vec<Stored>>,
}

fn key(request: &Request<()>) -> Key {
    let target = request.uri().path_and_query().map_or("/", |target| target.as_str());
    Key::new(true, b"a.example", target.as_bytes())
}

impl Cache {
    pub(crate) fn stored(&self, request: &Request<()>) -> &[Stored] {
        self.responses.get(&key(request)).map_or(&[], Vec::as_slice)
    }

    /// Handles the origin's response. Returns what happened, and the stored response that is sent to the client, if any.
    pub(crate) fn receive(
        &mut self,
        decision: Decision,
        request: &Request<()>,
        response: &Response<()>,
        exchange: Exchange,
    ) -> (String, Option<Stored>) {
        let key = key(request);
        if !request.method().is_safe() {
            return (self.invalidate(request, response, &key), None);
        }
        if decision == Decision::Forward(Forward::Bypass) {
            return ("not stored: bypass".into(), None);
        }
        let (policy, stored) = (&self.policy, self.responses.entry(key).or_default());
        let mut outcome = match (response.status(), decision) {
            (StatusCode::NOT_MODIFIED, _) => {
                let changes = policy.freshen(request, response, stored, exchange);
                let newest = changes.iter().map(|change| stored[change.index].clone()).next();
                (apply(&changes, stored), newest)
            }
            (_, _) if *request.method() == Method::HEAD => {
                let changes = policy.freshen_from_head(request, response, stored, exchange);
                (apply(&changes, stored), None)
            }
            (status, Decision::Validate { selected, stale_if_error: true, .. }) if is_error(status) => {
                ("stale response".into(), Some(stored[selected.index].clone()))
            }
            (StatusCode::PARTIAL_CONTENT, _) => (combine(policy, request, response, stored, exchange), None),
            _ => (store(policy, request, response, stored, exchange), None),
        };
        for stored in stored.iter_mut().chain(&mut outcome.1) {
            *stored = copy(stored);
        }
        outcome
    }

    /// Records that the transfer of the stored response failed.
    pub(crate) fn truncate(&mut self, request: &Request<()>, received: u64) {
        if let Some(stored) = self.responses.get_mut(&key(request)) {
            stored.retain_mut(|stored| stored.truncate(received));
        }
    }

    fn invalidate(&mut self, request: &Request<()>, response: &Response<()>, key: &Key) -> String {
        let keys = self.policy.invalidated(request, response, key);
        let found = keys.iter().filter(|key| self.responses.remove(key).is_some());
        let mut found: Vec<_> =
            found.map(|key| String::from_utf8_lossy(key.as_bytes()).into_owned()).collect();
        found.sort();
        let found = if found.is_empty() { "nothing".into() } else { found.join(" ") };
        format!("invalidated {}", found.replace("https://a.example", ""))
    }
}

/// Removes the responses that may not remain, and describes the changes.
fn apply(changes: &[Change], stored: &mut Vec<Stored>) -> String {
    let mut outcome = format!("changed {}", changes.len());
    for Change { index, kept } in changes.iter().rev() {
        if let Err(reason) = kept {
            stored.remove(*index);
            outcome = format!("{outcome}, removed: {reason}");
        }
    }
    outcome
}

fn combine(
    policy: &Policy,
    request: &Request<()>,
    response: &Response<()>,
    stored: &mut Vec<Stored>,
    exchange: Exchange,
) -> String {
    for candidate in stored.iter_mut() {
        if let Ok(span) = policy.combine(request, response, candidate, exchange) {
            let whole = if *candidate.content() == Content::Whole { ", complete" } else { "" };
            return format!("combined {}-{}{whole}", span.start, span.end() - 1);
        }
    }
    store(policy, request, response, stored, exchange)
}

fn store(
    policy: &Policy,
    request: &Request<()>,
    response: &Response<()>,
    stored: &mut Vec<Stored>,
    exchange: Exchange,
) -> String {
    match policy.store(request, response, exchange) {
        Ok(new) => {
            stored.retain(|old| !old.variant().matches(request.headers()));
            stored.push(new);
            "stored".into()
        }
        Err(reason) => format!("not stored: {reason}"),
    }
}

/// Returns the response from its bytes.
fn copy(stored: &Stored) -> Stored {
    let mut record = Vec::new();
    stored.encode(&mut record);
    let copy = Stored::decode(&record).expect("a record");
    assert_eq!(&copy, stored);
    copy
}

//! The sidebar: the last good responses of other services.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use jiff::Timestamp;
use rudy_poll::{Outcome, Poll, Stop};
use serde::Serialize;
use serde_json::Value;

use crate::cache::Changes;
use crate::report;
use crate::settings::Service;

/// Polls that the admin page shows for each service.
const LOG: usize = 20;

/// The services, each with a thread that polls it. The threads end when it is dropped.
#[derive(Debug)]
pub(crate) struct Sidebar {
    panels: Vec<Arc<Mutex<Panel>>>,
    _stops: Vec<Stop>,
}

/// What a service has returned.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct Panel {
    pub(crate) title: String,
    pub(crate) url: String,
    pub(crate) items: Vec<Item>,
    /// The last polls, the newest first.
    pub(crate) polls: VecDeque<Line>,
    pub(crate) left_today: u32,
}

/// An item of a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Item {
    pub(crate) text: String,
    pub(crate) link: Option<String>,
}

/// A poll on the admin page.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Line {
    pub(crate) time: String,
    pub(crate) result: String,
    pub(crate) connection: &'static str,
    pub(crate) next_seconds: u64,
}

impl Sidebar {
    /// Starts to poll. New lists are added to `changes`. The error is a message for the operator.
    pub(crate) fn start(services: &[Service], changes: &Arc<Changes>) -> Result<Self, String> {
        let (mut panels, mut stops) = (Vec::new(), Vec::new());
        for service in services {
            let (panel, stop) =
                start(service, changes.clone()).map_err(|error| format!("{}: {error}", service.url))?;
            panels.push(panel);
            stops.push(stop);
        }
        Ok(Self { panels, _stops: stops })
    }

    /// The panels as they are now.
    pub(crate) fn panels(&self) -> Vec<Panel> {
        self.panels.iter().map(|panel| lock(panel).clone()).collect()
    }
}

fn start(service: &Service, changes: Arc<Changes>) -> Result<(Arc<Mutex<Panel>>, Stop), String> {
    let mut options = rudy_poll::Options::new(service.url.parse().map_err(|error| format!("{error}"))?);
    options.interval = service.interval.map_or(options.interval, |interval| interval.0);
    options.per_day = service.per_day.unwrap_or(options.per_day);
    options.timeout = service.timeout.map_or(options.timeout, |timeout| timeout.0);
    let panel = Panel { title: service.title.clone(), url: service.url.clone(), ..Panel::default() };
    let panel = Arc::new(Mutex::new(panel));
    let (stop, stopped) = Stop::new().map_err(|error| error.to_string())?;
    let (shared, service) = (panel.clone(), service.clone());
    thread::Builder::new()
        .name("sidebar".into())
        .spawn(move || {
            rudy_poll::poll(&options, stopped, &mut |poll| {
                if lock(&shared).record(&service, &poll) {
                    changes.add();
                }
            });
        })
        .map_err(|error| error.to_string())?;
    Ok((panel, stop))
}

fn lock(panel: &Mutex<Panel>) -> MutexGuard<'_, Panel> {
    panel.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Panel {
    /// Takes the items of a good response. Without one, those of before stay. Returns whether they have changed.
    fn record(&mut self, service: &Service, poll: &Poll) -> bool {
        let before = self.items.clone();
        let mut result = poll.outcome.to_string();
        if let Outcome::Changed(body) = &poll.outcome {
            match items(service, body) {
                Ok(items) => self.items = items,
                Err(error) => result = error,
            }
        }
        if matches!(poll.outcome, Outcome::Rejected(_) | Outcome::Status(_) | Outcome::Failed(_)) {
            report(&format!("{}: {result}; the next poll is in {} s", service.url, poll.pause.as_secs()));
        }
        let time = Timestamp::try_from(poll.began).unwrap_or_default();
        let connection = if poll.has_reused { "kept" } else { "new" };
        self.left_today = poll.left_today;
        self.polls.truncate(LOG - 1);
        self.polls.push_front(Line {
            time: time.strftime("%F %T").to_string(),
            result,
            connection,
            next_seconds: poll.pause.as_secs(),
        });
        self.items != before
    }
}

/// The items in a response. The error says what is missing.
fn items(service: &Service, body: &[u8]) -> Result<Vec<Item>, String> {
    let json: Value = serde_json::from_slice(body).map_err(|error| format!("not JSON: {error}"))?;
    let list = json.pointer(&service.items).and_then(Value::as_array);
    let list = list.ok_or_else(|| format!("no list at {:?} (`items`)", service.items))?;
    let items = list.iter().take(service.shows).map(|item| {
        let text = item.pointer(&service.text).and_then(Value::as_str);
        let text = text.ok_or_else(|| format!("an item has no text at {:?} (`text`)", service.text))?;
        let link = service.link.as_ref().and_then(|path| item.pointer(path)?.as_str());
        // A link from elsewhere must not run a script.
        let link = link.filter(|link| link.starts_with("https://") || link.starts_with("http://"));
        Ok(Item { text: text.to_owned(), link: link.map(str::to_owned) })
    });
    items.collect()
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use super::*;

    fn service() -> Service {
        toml::from_str(
            "title = \"a\"\nurl = \"http://a/\"\nitems = \"/list\"\ntext = \"/name\"\nlink = \"/url\"",
        )
        .unwrap()
    }

    fn poll(outcome: Outcome) -> Poll {
        let (began, duration) = (SystemTime::UNIX_EPOCH, Duration::ZERO);
        Poll { began, duration, outcome, has_reused: true, left_today: 9, pause: Duration::from_mins(1) }
    }

    #[test]
    fn the_last_good_items_stay() {
        let mut panel = Panel::default();
        let good = br#"{"list": [{"name": "One", "url": "https://a/"}, {"name": "Two", "url": "javascript:alert(1)"}]}"#;
        assert!(panel.record(&service(), &poll(Outcome::Changed(good.to_vec()))));
        let expected = [("One", Some("https://a/")), ("Two", None)];
        for bad in [
            Outcome::Unchanged,
            Outcome::Rejected(999),
            Outcome::Changed(b"<html>".to_vec()),
            Outcome::Changed(b"{}".to_vec()),
            Outcome::Changed(br#"{"list": [{}]}"#.to_vec()),
            Outcome::Failed("timeout".into()),
        ] {
            assert!(!panel.record(&service(), &poll(bad)));
            let items: Vec<_> =
                panel.items.iter().map(|item| (item.text.as_str(), item.link.as_deref())).collect();
            assert_eq!(items, expected);
        }
        assert_eq!(panel.polls.len(), 7);
        assert!(panel.polls[1].result.starts_with("an item has no text at \"/name\""), "{:?}", panel.polls);
        (0..LOG).for_each(|_| assert!(!panel.record(&service(), &poll(Outcome::Unchanged))));
        assert_eq!(panel.polls.len(), LOG);
    }
}

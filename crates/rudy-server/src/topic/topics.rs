//! The topics of a server, by name.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::{Framing, Topic};

/// How often topics that are over are looked for when no new one asks for their place.
const SWEEP_TIME: Duration = Duration::from_mins(1);

/// Where those who publish and those who listen meet: one for the life of the process, whatever is reloaded.
#[derive(Debug, Default)]
pub struct Topics(Mutex<Named>);

#[derive(Debug, Default)]
struct Named {
    sites: BTreeMap<Box<str>, BTreeMap<Box<str>, Entry>>,
    swept_at: Option<Instant>,
}

#[derive(Debug)]
struct Entry {
    topic: Arc<Topic>,
    /// How long it is kept when nobody listens.
    history_time: Duration,
}

impl Topics {
    /// The topic of this name, made where there is none; `None` where the site has `most` already.
    pub(crate) fn get(
        &self,
        site: &str,
        name: &str,
        most: usize,
        history_time: Duration,
        now: Instant,
    ) -> Option<Arc<Topic>> {
        let mut named = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = named.sites.get_mut(site).and_then(|topics| topics.get_mut(name));
        if let Some(entry) = known {
            entry.history_time = history_time;
            let topic = entry.topic.clone();
            named.sweep_at_times(now);
            return Some(topic);
        }
        named.sweep(now);
        let topics = named.sites.entry(site.into()).or_default();
        if topics.len() >= most {
            return None;
        }
        let topic = Arc::new(Topic::new(Framing::Sse));
        topics.insert(name.into(), Entry { topic: topic.clone(), history_time });
        Some(topic)
    }
}

impl Named {
    fn sweep_at_times(&mut self, now: Instant) {
        if self.swept_at.is_none_or(|at| now.saturating_duration_since(at) >= SWEEP_TIME) {
            self.sweep(now);
        }
    }

    /// Forgets what is over. Who was just handed a topic has not used it yet; holding it is enough to keep it.
    fn sweep(&mut self, now: Instant) {
        self.swept_at = Some(now);
        for topics in self.sites.values_mut() {
            topics.retain(|_, entry| {
                Arc::strong_count(&entry.topic) > 1 || !entry.topic.is_over(now, entry.history_time)
            });
        }
        self.sites.retain(|_, topics| !topics.is_empty());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topic::{Draft, History};

    const HOUR: Duration = Duration::from_hours(1);

    fn publish(topic: &Topic) {
        let mut draft = Draft::default();
        draft.push("x");
        topic.publish(&draft, History { messages: 1, bytes: 1000 });
    }

    #[test]
    fn who_asks_for_the_same_name_gets_the_same_topic() {
        let topics = Topics::default();
        let now = Instant::now();
        let get = |site, name| topics.get(site, name, 9, HOUR, now).unwrap();
        let news = get("a.org", "/news");
        assert!(Arc::ptr_eq(&news, &get("a.org", "/news")));
        assert!(!Arc::ptr_eq(&news, &get("b.org", "/news")));
        assert!(!Arc::ptr_eq(&news, &get("a.org", "/prices")));
    }

    #[test]
    fn topics_are_bounded_and_what_is_over_makes_room() {
        let topics = Topics::default();
        let now = Instant::now();
        let get = |name: &str, now| topics.get("", name, 2, HOUR, now);
        publish(&get("/published", now).unwrap());
        let held = get("/held", now).unwrap();
        assert!(get("/third", now).is_none());
        assert!(topics.get("other site", "/third", 2, HOUR, now).is_some());
        drop(held);
        publish(&get("/third", now).unwrap());
        assert!(get("/fourth", now).is_none(), "what was published is kept for an hour");
        assert!(get("/fourth", now + 2 * HOUR).is_some());
        let sites = &topics.0.lock().unwrap().sites;
        assert_eq!(sites.values().map(BTreeMap::len).sum::<usize>(), 1);
    }
}

//! The topics of a server, by name.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::{Framing, Topic};

/// The interval between removals of expired topics, if no publisher needs room earlier.
const SWEEP_INTERVAL: Duration = Duration::from_mins(1);
/// A site sweeps its unpublished names when their number reaches twice the number that had a subscriber at the
/// last sweep, plus this slack. The slack is small enough to cost little memory, and large enough that
/// short-lived clients do not each cause a sweep.
const UNPUBLISHED_SLACK: usize = 100;

/// All topics of the process. They survive a reload.
#[derive(Debug, Default)]
pub struct Topics(Mutex<Sites>);

#[derive(Debug, Default)]
struct Sites {
    by_name: BTreeMap<Box<str>, Site>,
    swept_at: Option<Instant>,
}

#[derive(Debug, Default)]
struct Site {
    /// Topics with messages. Only these count towards the limit.
    published: BTreeMap<Box<str>, Entry>,
    unpublished: Unpublished,
}

#[derive(Debug)]
struct Entry {
    topic: Arc<Topic>,
    /// The lifetime of the topic without subscribers and new messages.
    history_timeout: Duration,
}

impl Topics {
    /// Returns the topic with this name for a subscriber. A topic that was never published to lives as long
    /// as its subscribers and does not count towards the limit: otherwise clients could exhaust the topics of
    /// a site.
    pub fn subscribe(&self, site: &str, name: &str, now: Instant) -> Arc<Topic> {
        let mut sites = self.0.lock();
        sites.sweep_if_due(now);
        let site = sites.by_name.entry(site.into()).or_default();
        match site.published.get(name) {
            Some(entry) => entry.topic.clone(),
            None => site.unpublished.get(name),
        }
    }

    /// Returns the topic with this name for a publisher, or `None` if the site already has `max` topics.
    pub fn publish(
        &self,
        site: &str,
        name: &str,
        max: usize,
        history_timeout: Duration,
        now: Instant,
    ) -> Option<Arc<Topic>> {
        let mut sites = self.0.lock();
        let known = sites.by_name.get_mut(site).and_then(|site| site.published.get_mut(name));
        if let Some(entry) = known {
            entry.history_timeout = history_timeout;
            let topic = entry.topic.clone();
            sites.sweep_if_due(now);
            return Some(topic);
        }
        sites.sweep(now);
        let site = sites.by_name.entry(site.into()).or_default();
        if site.published.len() >= max {
            return None;
        }
        let topic = site.unpublished.remove(name);
        site.published.insert(name.into(), Entry { topic: topic.clone(), history_timeout });
        Some(topic)
    }
}

impl Sites {
    fn sweep_if_due(&mut self, now: Instant) {
        if self.swept_at.is_none_or(|at| now.saturating_duration_since(at) >= SWEEP_INTERVAL) {
            self.sweep(now);
        }
    }

    /// Removes expired topics. A topic that a caller has just received is still referenced, so it stays.
    fn sweep(&mut self, now: Instant) {
        self.swept_at = Some(now);
        for site in self.by_name.values_mut() {
            site.published.retain(|_, entry| {
                Arc::strong_count(&entry.topic) > 1 || !entry.topic.is_expired(now, entry.history_timeout)
            });
            site.unpublished.sweep();
        }
        self.by_name.retain(|_, site| !site.published.is_empty() || !site.unpublished.names.is_empty());
    }
}

/// Topics that have subscribers but were never published to, by name. Only the subscribers own these topics, so the
/// number of connections bounds them.
#[derive(Debug, Default)]
struct Unpublished {
    names: BTreeMap<Box<str>, Weak<Topic>>,
    /// The number of names that had a subscriber at the last sweep.
    alive: usize,
}

impl Unpublished {
    fn get(&mut self, name: &str) -> Arc<Topic> {
        if let Some(topic) = self.names.get(name).and_then(Weak::upgrade) {
            return topic;
        }
        // Sweeps when the number has doubled, so the amortised cost per new name is constant.
        if self.names.len() >= 2 * self.alive + UNPUBLISHED_SLACK {
            self.sweep();
        }
        let topic = Arc::new(Topic::new(Framing::Sse));
        self.names.insert(name.into(), Arc::downgrade(&topic));
        topic
    }

    /// Removes a name and returns its topic, with its subscribers if there are any.
    fn remove(&mut self, name: &str) -> Arc<Topic> {
        let topic = self.names.remove(name).and_then(|topic| topic.upgrade());
        topic.unwrap_or_else(|| Arc::new(Topic::new(Framing::Sse)))
    }

    fn sweep(&mut self) {
        self.names.retain(|_, topic| topic.strong_count() > 0);
        self.alive = self.names.len();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topic::{Batch, History};

    const HOUR: Duration = Duration::from_hours(1);

    fn publish(topic: &Topic) {
        let mut batch = Batch::default();
        batch.push("x");
        topic.publish(&batch, History { messages: 1, bytes: 1000 });
    }

    #[test]
    fn subscribers_and_publishers_of_a_name_share_a_topic() {
        let topics = Topics::default();
        let now = Instant::now();
        let subscribe = |site, name| topics.subscribe(site, name, now);
        let news = subscribe("a.org", "/news");
        assert!(Arc::ptr_eq(&news, &subscribe("a.org", "/news")));
        assert!(Arc::ptr_eq(&news, &topics.publish("a.org", "/news", 9, HOUR, now).unwrap()));
        assert!(Arc::ptr_eq(&news, &subscribe("a.org", "/news")));
        assert!(!Arc::ptr_eq(&news, &subscribe("b.org", "/news")));
        assert!(!Arc::ptr_eq(&news, &subscribe("a.org", "/prices")));
    }

    #[test]
    fn the_number_of_topics_is_limited_and_expired_topics_make_room() {
        let topics = Topics::default();
        let now = Instant::now();
        let get = |name: &str, now| topics.publish("", name, 2, HOUR, now);
        publish(&get("/published", now).unwrap());
        let empty = get("/empty", now).unwrap();
        assert!(get("/third", now).is_none());
        assert!(topics.publish("other site", "/third", 2, HOUR, now).is_some());
        drop(empty);
        publish(&get("/third", now).unwrap());
        assert!(get("/fourth", now).is_none(), "a published topic stays for an hour");
        assert!(get("/fourth", now + 2 * HOUR).is_some());
        let sites = &topics.0.lock().by_name;
        assert_eq!(sites.values().map(|site| site.published.len()).sum::<usize>(), 1);
    }

    #[test]
    fn subscribers_of_unpublished_names_do_not_count_towards_the_limit() {
        let topics = Topics::default();
        let now = Instant::now();
        let subscribers: Vec<_> = (0..101).map(|n| topics.subscribe("", &format!("/{n}"), now)).collect();
        let get = |name| topics.publish("", name, 2, HOUR, now);
        publish(&get("/news").unwrap());
        let unpublished = get("/7").unwrap();
        assert!(Arc::ptr_eq(&unpublished, &subscribers[7]), "a publisher gets the topic of the subscribers");
        publish(&unpublished);
        assert!(get("/8").is_none(), "two topics have messages");
    }

    #[test]
    fn a_name_is_removed_with_its_last_subscriber() {
        let topics = Topics::default();
        let now = Instant::now();
        let names = || topics.0.lock().by_name.get("").map_or(0, |site| site.unpublished.names.len());
        let subscribers: Vec<_> = (0..10).map(|n| topics.subscribe("", &format!("/{n}"), now)).collect();
        for n in 0..1000 {
            drop(topics.subscribe("", &format!("/gone/{n}"), now));
            assert!(
                names() <= 2 * subscribers.len() + UNPUBLISHED_SLACK,
                "names of clients that left accumulate"
            );
        }
        topics.subscribe("", "/0", now + SWEEP_INTERVAL);
        assert_eq!(names(), subscribers.len());
        drop(subscribers);
        topics.subscribe("other site", "/0", now + 2 * SWEEP_INTERVAL);
        assert_eq!(names(), 0);
    }
}

//! The topics of a server, by name.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use super::{Framing, Topic};

/// How often topics that are over are looked for when no new one asks for their place.
const SWEEP_TIME: Duration = Duration::from_mins(1);
/// Names without a listener that a site may keep beside twice as many as had one: few enough to take no memory worth
/// a thought, enough that clients who come and go do not have all names looked through for each of them.
const AWAITED_SLACK: usize = 100;

/// Where those who publish and those who listen meet: one for the life of the process, whatever is reloaded.
#[derive(Debug, Default)]
pub struct Topics(Mutex<Named>);

#[derive(Debug, Default)]
struct Named {
    sites: BTreeMap<Box<str>, Site>,
    swept_at: Option<Instant>,
}

#[derive(Debug, Default)]
struct Site {
    /// The topics that were published to. Only these count.
    published: BTreeMap<Box<str>, Entry>,
    awaited: Awaited,
}

#[derive(Debug)]
struct Entry {
    topic: Arc<Topic>,
    /// How long it is kept when nobody listens.
    history_timeout: Duration,
}

impl Topics {
    /// The topic of this name, to listen to it. One that was never published to lives as long as its listeners, and
    /// takes no room from publishers: otherwise any client could use up the topics of a site.
    pub(crate) fn listen(&self, site: &str, name: &str, now: Instant) -> Arc<Topic> {
        let mut named = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        named.sweep_at_times(now);
        let site = named.sites.entry(site.into()).or_default();
        match site.published.get(name) {
            Some(entry) => entry.topic.clone(),
            None => site.awaited.get(name),
        }
    }

    /// The topic of this name, to publish to it; `None` where the site has `most` already.
    pub(crate) fn publish(
        &self,
        site: &str,
        name: &str,
        most: usize,
        history_timeout: Duration,
        now: Instant,
    ) -> Option<Arc<Topic>> {
        let mut named = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = named.sites.get_mut(site).and_then(|site| site.published.get_mut(name));
        if let Some(entry) = known {
            entry.history_timeout = history_timeout;
            let topic = entry.topic.clone();
            named.sweep_at_times(now);
            return Some(topic);
        }
        named.sweep(now);
        let site = named.sites.entry(site.into()).or_default();
        if site.published.len() >= most {
            return None;
        }
        let topic = site.awaited.take(name);
        site.published.insert(name.into(), Entry { topic: topic.clone(), history_timeout });
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
        for site in self.sites.values_mut() {
            site.published.retain(|_, entry| {
                Arc::strong_count(&entry.topic) > 1 || !entry.topic.is_over(now, entry.history_timeout)
            });
            site.awaited.sweep();
        }
        self.sites.retain(|_, site| !site.published.is_empty() || !site.awaited.names.is_empty());
    }
}

/// Names that clients listen to and that were never published to. Only the listeners hold these topics, so the number
/// of connections bounds them.
#[derive(Debug, Default)]
struct Awaited {
    names: BTreeMap<Box<str>, Weak<Topic>>,
    /// How many had a listener when they were last swept.
    alive: usize,
}

impl Awaited {
    fn get(&mut self, name: &str) -> Arc<Topic> {
        if let Some(topic) = self.names.get(name).and_then(Weak::upgrade) {
            return topic;
        }
        // Swept at twice the number, so that one sweep is paid for by as many new names.
        if self.names.len() >= 2 * self.alive + AWAITED_SLACK {
            self.sweep();
        }
        let topic = Arc::new(Topic::new(Framing::Sse));
        self.names.insert(name.into(), Arc::downgrade(&topic));
        topic
    }

    /// Gives the name up to who publishes to it, with its listeners if it has any.
    fn take(&mut self, name: &str) -> Arc<Topic> {
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
    use crate::topic::{Draft, History};

    const HOUR: Duration = Duration::from_hours(1);

    fn publish(topic: &Topic) {
        let mut draft = Draft::default();
        draft.push("x");
        topic.publish(&draft, History { messages: 1, bytes: 1000 });
    }

    #[test]
    fn the_same_name_is_the_same_topic_for_listeners_and_publishers() {
        let topics = Topics::default();
        let now = Instant::now();
        let listen = |site, name| topics.listen(site, name, now);
        let news = listen("a.org", "/news");
        assert!(Arc::ptr_eq(&news, &listen("a.org", "/news")));
        assert!(Arc::ptr_eq(&news, &topics.publish("a.org", "/news", 9, HOUR, now).unwrap()));
        assert!(Arc::ptr_eq(&news, &listen("a.org", "/news")));
        assert!(!Arc::ptr_eq(&news, &listen("b.org", "/news")));
        assert!(!Arc::ptr_eq(&news, &listen("a.org", "/prices")));
    }

    #[test]
    fn topics_are_bounded_and_what_is_over_makes_room() {
        let topics = Topics::default();
        let now = Instant::now();
        let get = |name: &str, now| topics.publish("", name, 2, HOUR, now);
        publish(&get("/published", now).unwrap());
        let held = get("/held", now).unwrap();
        assert!(get("/third", now).is_none());
        assert!(topics.publish("other site", "/third", 2, HOUR, now).is_some());
        drop(held);
        publish(&get("/third", now).unwrap());
        assert!(get("/fourth", now).is_none(), "what was published is kept for an hour");
        assert!(get("/fourth", now + 2 * HOUR).is_some());
        let sites = &topics.0.lock().unwrap().sites;
        assert_eq!(sites.values().map(|site| site.published.len()).sum::<usize>(), 1);
    }

    #[test]
    fn listeners_of_unpublished_names_take_no_room_from_publishers() {
        let topics = Topics::default();
        let now = Instant::now();
        let listeners: Vec<_> = (0..101).map(|n| topics.listen("", &format!("/{n}"), now)).collect();
        let get = |name| topics.publish("", name, 2, HOUR, now);
        publish(&get("/news").unwrap());
        let awaited = get("/7").unwrap();
        assert!(Arc::ptr_eq(&awaited, &listeners[7]), "publishing reaches the listeners of the name");
        publish(&awaited);
        assert!(get("/8").is_none(), "two topics were published to");
    }

    #[test]
    fn a_name_goes_with_its_last_listener() {
        let topics = Topics::default();
        let now = Instant::now();
        let names = || topics.0.lock().unwrap().sites.get("").map_or(0, |site| site.awaited.names.len());
        let kept: Vec<_> = (0..10).map(|n| topics.listen("", &format!("/{n}"), now)).collect();
        for n in 0..1000 {
            drop(topics.listen("", &format!("/gone/{n}"), now));
            assert!(names() <= 2 * kept.len() + AWAITED_SLACK, "clients that come and go pile names up");
        }
        topics.listen("", "/0", now + SWEEP_TIME);
        assert_eq!(names(), kept.len());
        drop(kept);
        topics.listen("other site", "/0", now + 2 * SWEEP_TIME);
        assert_eq!(names(), 0);
    }
}

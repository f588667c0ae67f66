//! Requests to the origin in flight, which other requests for the same key wait for.
//!
//! One flight is for the response that the first request leads to. Others join it by key while its head is unknown; those that the
//! response does not match leave then. A flight ends when its response is complete, or when it proves to be for one request only.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::{HeaderMap, HeaderValue, StatusCode};
use parking_lot::Mutex;
use rudy_cache::{Key, Stored};
use rudy_pipeline::request_state::Storing;
use rudy_runtime::{clock, watch};
use rudy_store::{FillSource, Object};

/// All flights of a store.
#[derive(Debug, Default)]
pub(super) struct Flights(Mutex<ByKey>);

/// With the time when each began.
type ByKey = HashMap<Key, Vec<(Instant, Arc<Flight>)>>;

/// A request to the origin. Its receivers are the requests that wait for its response, or receive it.
pub(super) type Flight = watch::Sender<Progress>;

/// Returns the end of a flight: its sender is dropped then.
pub(super) fn storing(mut progress: watch::Receiver<Progress>) -> Storing {
    Storing::new(async move { while progress.changed().await.is_ok() {} })
}

/// How far a flight is.
#[derive(Debug, Clone)]
pub(super) enum Progress {
    /// The head of the response is unknown.
    Waiting,
    /// The response is being received and stored.
    Receiving(Arc<Incoming>),
    /// A stored object is the response: validated, or in place of an error.
    Ready(Arc<Object>, Validated),
    /// The response is for the first request only, or there is none.
    Nothing,
}

/// A response that is being received.
#[derive(Debug)]
pub(super) struct Incoming {
    pub(super) stored: Stored,
    pub(super) source: FillSource,
    /// Whether the body will be stored, as far as it is known.
    pub(super) is_stored: bool,
    /// The head for the first request, if it is not that of the stored response: that of a part.
    pub(super) part: Option<(StatusCode, HeaderMap)>,
    /// The stored beginning of the body, which `source` continues.
    pub(super) start: Option<Arc<Object>>,
    /// The status of the response to the request of the cache.
    pub(super) status: StatusCode,
    /// `Age` of the origin, for the first request.
    pub(super) age: Option<HeaderValue>,
    /// The fields of the origin that are for the first request alone.
    pub(super) unshared: HeaderMap,
}

/// The response of the origin to a validation.
#[derive(Debug, Clone, Copy)]
pub(super) struct Validated {
    pub(super) status: StatusCode,
}

/// The place of a request in the flights of its key.
pub(super) enum Place {
    /// The first request. It has to start the flight.
    First(Registration),
    /// One that joined a flight, which had begun this long ago.
    Joined(watch::Receiver<Progress>, Duration),
}

/// A flight that requests can join until this is dropped.
#[derive(Debug)]
pub(super) struct Registration {
    pub(super) flight: Arc<Flight>,
    /// `None` for a flight that no request can join.
    registered: Option<(Arc<Flights>, Key)>,
}

impl Flights {
    /// Joins a flight whose response may suit a request, by `suits`, or begins one.
    pub(super) fn join(self: &Arc<Self>, key: &Key, suits: impl Fn(&Stored) -> bool) -> Place {
        let now = clock::now();
        let mut flights = self.0.lock();
        let of_key = flights.entry(key.clone()).or_default();
        let joined = of_key.iter().find(|(_, flight)| match &*flight.borrow() {
            Progress::Waiting => true,
            Progress::Receiving(incoming) => incoming.part.is_none() && suits(&incoming.stored),
            Progress::Ready(..) | Progress::Nothing => false,
        });
        if let Some((begun, flight)) = joined {
            return Place::Joined(flight.subscribe(), now.saturating_duration_since(*begun));
        }
        let flight = Arc::new(Flight::new(Progress::Waiting));
        of_key.push((now, flight.clone()));
        Place::First(Registration { flight, registered: Some((self.clone(), key.clone())) })
    }

    /// Begins a flight unless there is one for the key.
    pub(super) fn begin(self: &Arc<Self>, key: &Key) -> Option<Registration> {
        match self.join(key, |_| true) {
            Place::First(registration) => Some(registration),
            Place::Joined(..) => None,
        }
    }

    /// Lets no further request join the flights of these keys, which may have the response from before a change. Those that have joined
    /// remain.
    pub(super) fn close(&self, keys: &[Key]) {
        let mut flights = self.0.lock();
        for key in keys {
            flights.remove(key);
        }
    }

    /// As [`Self::close`], for all keys.
    pub(super) fn close_all(&self) {
        self.0.lock().clear();
    }
}

impl Registration {
    /// A flight that no request can join.
    pub(super) fn exclusive() -> Self {
        Self { flight: Arc::new(Flight::new(Progress::Waiting)), registered: None }
    }

    /// Lets no other request join.
    pub(super) fn close(&mut self) {
        if let Some((flights, key)) = self.registered.take() {
            remove(&mut flights.0.lock(), &key, &self.flight);
        }
    }

    /// Ends the flight if no request waits for it or receives it. Otherwise it goes on.
    pub(super) fn end_if_abandoned(&mut self) -> bool {
        let Some((flights, key)) = &self.registered else { return self.flight.receiver_count() == 0 };
        // Under the lock, no request can join in between.
        let mut all = flights.0.lock();
        let is_abandoned = self.flight.receiver_count() == 0;
        if is_abandoned {
            remove(&mut all, key, &self.flight);
            drop(all);
            self.registered = None;
        }
        is_abandoned
    }
}

impl Drop for Registration {
    /// Also after a panic, so that no request waits forever.
    fn drop(&mut self) {
        self.close();
        self.flight.send_if_modified(|progress| {
            let is_waiting = matches!(progress, Progress::Waiting);
            if is_waiting {
                *progress = Progress::Nothing;
            }
            is_waiting
        });
    }
}

fn remove(flights: &mut ByKey, key: &Key, flight: &Arc<Flight>) {
    if let Some(of_key) = flights.get_mut(key) {
        of_key.retain(|(_, other)| !Arc::ptr_eq(other, flight));
        if of_key.is_empty() {
            flights.remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first(place: Place) -> Registration {
        match place {
            Place::First(registration) => registration,
            Place::Joined(..) => panic!("it joined another"),
        }
    }

    #[test]
    fn requests_join_a_flight_of_their_key_until_it_ends() {
        let (flights, key) = (Arc::new(Flights::default()), Key::new(false, b"a", b"/"));
        let registration = first(flights.join(&key, |_| true));
        let Place::Joined(joined, _) = flights.join(&key, |_| true) else { panic!("it is in flight") };
        assert!(flights.begin(&key).is_none());
        let other = first(flights.join(&Key::new(false, b"a", b"/other"), |_| true));
        registration.flight.send_replace(Progress::Nothing);
        let second = first(flights.join(&key, |_| true));
        drop((registration, second, other));
        assert!(matches!(*joined.borrow(), Progress::Nothing));
        assert!(flights.0.lock().is_empty());
    }

    #[test]
    fn a_closed_flight_remains_for_those_that_have_joined() {
        let (flights, key) = (Arc::new(Flights::default()), Key::new(false, b"a", b"/"));
        let closes: [fn(&Flights, &Key); 2] =
            [|flights, key| flights.close(std::slice::from_ref(key)), |flights, _| flights.close_all()];
        for close in closes {
            let registration = first(flights.join(&key, |_| true));
            let Place::Joined(joined, _) = flights.join(&key, |_| true) else { panic!("it is in flight") };
            close(&flights, &key);
            let second = first(flights.join(&key, |_| true));
            drop(registration);
            assert!(matches!(*joined.borrow(), Progress::Nothing));
            assert!(flights.begin(&key).is_none(), "the second one is in flight");
            drop(second);
        }
    }

    #[test]
    fn a_flight_that_panics_releases_those_that_wait() {
        let (flights, key) = (Arc::new(Flights::default()), Key::new(false, b"a", b"/"));
        let registration = first(flights.join(&key, |_| true));
        let Place::Joined(joined, _) = flights.join(&key, |_| true) else { panic!("it is in flight") };
        drop(registration);
        assert!(matches!(*joined.borrow(), Progress::Nothing));
    }

    #[test]
    fn an_abandoned_flight_cannot_be_joined() {
        let (flights, key) = (Arc::new(Flights::default()), Key::new(false, b"a", b"/"));
        let mut registration = first(flights.join(&key, |_| true));
        let receiver = registration.flight.subscribe();
        assert!(!registration.end_if_abandoned());
        drop(receiver);
        assert!(registration.end_if_abandoned());
        drop(first(flights.join(&key, |_| true)));
    }
}

//! The order in which responses are sent (RFC 9218 §10).

use super::Http2;
use super::exchange::Phase;

impl Http2 {
    /// Returns the exchange whose body is sent next, of those that are not blocked: the most urgent ones; among them, responses that
    /// are not incremental one after the other, and incremental ones in turn with the first of those.
    pub(super) fn next_to_send(&self) -> Option<usize> {
        let bodies = self.exchanges.iter().enumerate();
        let bodies =
            bodies.filter(|(_, exchange)| matches!(exchange.phase, Phase::Body(_)) && !exchange.is_blocked);
        let urgency = bodies.clone().map(|(_, exchange)| exchange.priority.urgency).min()?;
        let urgent = bodies.filter(|(_, exchange)| exchange.priority.urgency == urgency);
        let first = urgent.clone().find(|(_, exchange)| !exchange.priority.incremental).map(|(at, _)| at);
        let in_turn = urgent.filter(|(at, exchange)| exchange.priority.incremental || first == Some(*at));
        in_turn.min_by_key(|(_, exchange)| exchange.served).map(|(at, _)| at)
    }
}

//! The hosts of a service, as SRV records state them (RFC 2782).

use std::fmt;

/// The maximum number of targets that are used.
const TARGETS_MAX: usize = 64;

/// The highest weight of an upstream in a configuration. Higher ones of records are reduced in proportion.
const WEIGHT_MAX: u32 = 1000;

/// A host and a port that provide a service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// The name of the machine.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// Requests go to targets of a higher number only while no target of a lower one is up.
    pub priority: u16,
    /// Its share of the requests in relation to the targets of the same priority.
    pub weight: u32,
}

/// Returns the targets that can be used, or why there is none.
pub(super) fn usable(mut targets: Vec<Target>) -> Result<Vec<Target>, String> {
    // RFC 2782: the root means that the service is not available.
    targets.retain(|target| target.host != "." && target.port > 0);
    // Those that matter most come first, and a target that is stated twice has its lowest priority.
    targets.sort_by(|one, other| {
        let key = |target: &Target| (target.priority, u32::MAX - target.weight);
        (key(one), &one.host, one.port).cmp(&(key(other), &other.host, other.port))
    });
    let mut unique: Vec<Target> = Vec::new();
    for target in targets {
        let is_same = |known: &Target| (&known.host, known.port) == (&target.host, target.port);
        if unique.len() < TARGETS_MAX && !unique.iter().any(is_same) {
            unique.push(target);
        }
    }
    let highest = unique.iter().map(|target| target.weight).max().ok_or("the service is not available")?;
    let divisor = highest.div_ceil(WEIGHT_MAX).max(1);
    for target in &mut unique {
        // RFC 2782: a weight of 0 has a very small chance of being selected.
        target.weight = (target.weight / divisor).max(1);
    }
    Ok(unique)
}

/// As in `web1.example.org:8080`, without the dot of the root.
impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host.trim_end_matches('.'), self.port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(host: &str, priority: u16, weight: u32) -> Target {
        Target { host: host.to_owned(), port: 80, priority, weight }
    }

    #[test]
    fn targets_are_sorted_unique_and_have_weights_of_upstreams() {
        let given = vec![
            target("b.", 1, 0),
            target("a.", 0, 10),
            target("c.", 0, 65_535),
            target("a.", 1, 99),
            target(".", 0, 1),
        ];
        let expected = vec![target("c.", 0, 992), target("a.", 0, 1), target("b.", 1, 1)];
        assert_eq!(usable(given), Ok(expected));
        let kept = vec![target("a.", 0, 1000), target("b.", 0, 1)];
        assert_eq!(usable(vec![target("b.", 0, 0), target("a.", 0, 1000)]), Ok(kept));
        assert_eq!(target("a.example.", 0, 1).to_string(), "a.example:80");
    }

    #[test]
    fn a_service_without_targets_is_not_available() {
        for given in [Vec::new(), vec![target(".", 0, 0)]] {
            assert_eq!(usable(given), Err("the service is not available".to_owned()));
        }
        let many = (0..1000).map(|number| target(&format!("{number}."), 0, 1)).collect();
        assert_eq!(usable(many).unwrap().len(), TARGETS_MAX);
    }
}

//! The plans that Rudy has with it, and the configurations of the peers that they name.

use std::path::Path;

use super::{Plan, parse};

/// Each by its name.
const PLANS: [(&str, &str); 3] = [
    ("files", include_str!("../../../../labs/files.toml")),
    ("schedulers", include_str!("../../../../labs/schedulers.toml")),
    ("seminar", include_str!("../../../../labs/seminar.toml")),
];

const PEERS: [(&str, &str); 2] = [
    ("peers/big.erl", include_str!("../../../../labs/peers/big.erl")),
    ("peers/nginx-static.conf", include_str!("../../../../labs/peers/nginx-static.conf")),
];

/// The text of a built-in plan.
pub(crate) fn text(name: &str) -> Option<&'static str> {
    PLANS.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
}

/// All of them, checked.
pub(crate) fn all() -> impl Iterator<Item = Result<Plan, String>> {
    PLANS.iter().map(|(name, text)| parse(text, name, None))
}

/// A peer's configuration, named as a plan in `labs` names it.
pub(super) fn peer(path: &Path) -> Option<&'static str> {
    PEERS.iter().find(|(known, _)| Path::new(known) == path).map(|(_, text)| *text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_whole_and_has_a_question() {
        for plan in all() {
            let plan = plan.unwrap();
            assert!(!plan.question.is_empty() && !plan.comparisons.is_empty(), "{}", plan.name);
        }
    }
}

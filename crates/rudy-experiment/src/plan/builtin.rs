//! The built-in plans, and the peer configurations that they use.

use std::path::Path;

use super::{Plan, parse};

/// The plans by name.
const PLANS: &[(&str, &str)] = &[
    ("c10k", include_str!("../../labs/c10k.toml")),
    ("calibrate", include_str!("../../labs/calibrate.toml")),
    ("fastcgi-nines", include_str!("../../labs/fastcgi-nines.toml")),
    ("files", include_str!("../../labs/files.toml")),
    ("gateway", include_str!("../../labs/gateway.toml")),
    ("generators", include_str!("../../labs/generators.toml")),
    ("handshakes", include_str!("../../labs/handshakes.toml")),
    ("hot-threads", include_str!("../../labs/hot-threads.toml")),
    ("http2", include_str!("../../labs/http2.toml")),
    ("leak", include_str!("../../labs/leak.toml")),
    ("max-rate", include_str!("../../labs/max-rate.toml")),
    ("peers", include_str!("../../labs/peers.toml")),
    ("schedulers", include_str!("../../labs/schedulers.toml")),
    ("seminar", include_str!("../../labs/seminar.toml")),
    ("signatures", include_str!("../../labs/signatures.toml")),
];

/// The peer files by their path in `labs`.
macro_rules! peers {
    ($($path:literal),* $(,)?) => {
        &[$(($path, include_str!(concat!("../../labs/", $path)))),*]
    };
}

const PEERS: &[(&str, &str)] = peers![
    "peers/apache-fcgid.conf",
    "peers/apache-proxy-fcgi.conf",
    "peers/apache-static.conf",
    "peers/big.erl",
    "peers/fastcgi-app.sh",
    "peers/goconntest/main.go",
    "peers/h2o-static.yaml",
    "peers/jetty/Jetty.java",
    "peers/lighttpd-fastcgi.conf",
    "peers/lighttpd-static.conf",
    "peers/nginx-fastcgi.conf",
    "peers/nginx-http2.conf",
    "peers/nginx-static.conf",
    "peers/nginx-tls.conf",
    "peers/openssl-speed.sh",
    "peers/polling-client.py",
    "peers/rudy-delay.toml",
    "peers/rudy-fastcgi.toml",
    "peers/rudy-streams.toml",
    "peers/rudy-tls.toml",
    "peers/seminar.escript",
    "peers/streams.escript",
    "peers/web-apache.conf",
    "peers/web-caddy.Caddyfile",
    "peers/web-h2o.yaml",
    "peers/web-haproxy.cfg",
    "peers/web-lighttpd.conf",
    "peers/web-nginx.conf",
    "peers/web-rudy.toml",
    "peers/web-upstream.toml",
    "peers/web-varnish.vcl",
];

/// The text of a built-in plan.
#[must_use]
pub fn text(name: &str) -> Option<&'static str> {
    PLANS.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
}

/// The names of all built-in plans and files.
#[must_use]
pub fn names() -> String {
    let names = PLANS.iter().chain(PEERS).map(|(name, _)| *name);
    names.collect::<Vec<_>>().join(", ")
}

/// All built-in plans, parsed.
pub fn all() -> impl Iterator<Item = Result<Plan, String>> {
    PLANS.iter().map(|(name, text)| parse(text, name, None))
}

/// A peer file, by its path in a plan of `labs`.
#[must_use]
pub fn peer(path: &Path) -> Option<&'static str> {
    PEERS.iter().find(|(known, _)| Path::new(known) == path).map(|(_, text)| *text)
}

#[cfg(test)]
mod tests {
    use rudy_stats::compare::rounds_needed;

    use super::*;

    #[test]
    fn each_is_whole_and_has_a_question() {
        for plan in all() {
            let plan = plan.unwrap();
            let answers = plan.comparisons.len() + plan.baselines.len();
            assert!(!plan.question.is_empty() && answers > 0, "{}", plan.name);
        }
    }

    #[test]
    fn each_has_the_rounds_that_its_comparisons_need() {
        for plan in all() {
            let plan = plan.unwrap();
            assert!(
                plan.comparison_count() == 0 || plan.rounds >= rounds_needed(plan.comparison_count()),
                "{}",
                plan.name
            );
        }
    }
}

//! What conflicts with the trusted proxies.

use rudy_config::{Location, Problem};
use rudy_pipeline::client_address::{AddressField, Options};

use super::Config;

/// Reports options that conflict with the rest of the configuration.
pub(crate) fn problems(config: &Config) -> Vec<Problem> {
    let Options { trusted_proxies, trust_host, source } = &config.client_address;
    if !trusted_proxies.is_empty() {
        return Vec::new();
    }
    let mut problems = Vec::new();
    let mut needs = |location: &Location, needed_by: &str| {
        let problem = Problem::value(location, format!("`{needed_by}` needs `trusted_proxies`"));
        let help = "write the addresses of the proxies: trusted_proxies = [\"10.0.0.1\"]";
        let problem = problem.label("no proxy is trusted").help(help);
        problems.push(problem.unless_invalid(&Location::file(0).key("trusted_proxies")));
    };
    let addresses = config.located_addresses();
    if let Some((_, location)) = addresses.iter().find(|(address, _)| address.proxy_protocol) {
        needs(location, "proxy_protocol");
    }
    if *trust_host {
        needs(&Location::file(0).key("trust_forwarded_host"), "trust_forwarded_host");
    }
    if *source != AddressField::default() {
        needs(&Location::file(0).key("client_address"), "client_address");
    }
    problems
}

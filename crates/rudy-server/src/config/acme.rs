//! Checks what can be known about certificates before an authority is asked.

use rudy_config::{Location, OneOrMany, Problem};
use rudy_pipeline::routing::HostPattern;
use rudy_service::listen_address::{Address, Endpoint};
use rudy_site_tls::acme::Wanted;

use super::{ChallengeName, Config, Site};

/// The ports that authorities connect to.
const PORTS: [(u16, bool); 2] = [(80, false), (443, true)];

impl Config {
    /// The sites whose certificates are ordered.
    pub(crate) fn sites_with_auto(&self) -> impl Iterator<Item = &Site> {
        self.sites.iter().filter(|site| site.is_auto())
    }

    /// The addresses of sites whose certificates are ordered, if none are given.
    pub(crate) fn public_addresses() -> Vec<Address> {
        let on = |(port, tls)| Address { tls, ..Endpoint::AllInterfaces { port }.into() };
        PORTS.into_iter().map(on).collect()
    }

    /// The names to order certificates for, each once.
    pub(crate) fn auto_names(&self) -> Vec<String> {
        let mut names: Vec<_> = self
            .sites_with_auto()
            .flat_map(|site| {
                site.hosts.iter().filter_map(HostPattern::certificate_name).map(std::borrow::Cow::into_owned)
            })
            .collect();
        names.sort();
        names.dedup();
        names
    }

    /// The certificates to order.
    pub(crate) fn wanted_certificates(&self) -> Wanted<'_> {
        let has_http = self.addresses().iter().any(|address| !address.tls);
        Wanted { names: self.auto_names(), table: &self.acme, has_http }
    }
}

/// Reports problems of `[acme]` and of sites with `tls = "auto"`.
pub(crate) fn problems(config: &Config) -> Vec<Problem> {
    let location = Location::file(0).key("acme");
    let mut problems: Vec<_> = config.sites_with_auto().flat_map(|site| of_site(config, site)).collect();
    let acme = &config.acme;
    for (key, url) in [("directory", &acme.directory), ("test_directory", &acme.test_directory)] {
        if url.as_ref().is_some_and(|url| !url.starts_with("https://")) {
            let problem = Problem::value(&location.key(key), "an authority needs an https URL");
            problems.push(problem.label("expected `https://…`"));
        }
    }
    if acme.staging && acme.directory.is_some() && acme.test_directory.is_none() {
        let problem =
            Problem::key(&location.key("staging"), "Rudy does not know the test authority of this directory");
        problems
            .push(problem.label("set `test_directory`").also(&location.key("directory"), "this directory"));
    }
    if acme.authority.is_some()
        && let Err(error) = acme.authority().trust.client_config()
    {
        problems.push(Problem::value(&location.key("authority"), error.to_string()).label("this file"));
    }
    if acme.account().is_none() {
        let key = location.key("external_account").key("key");
        problems
            .push(Problem::value(&key, "the key is not Base64 for URLs").label("as the authority shows it"));
    }
    let needs_hook =
        acme.challenges.iter().flat_map(OneOrMany::as_slice).any(|kind| *kind == ChallengeName::Dns01);
    if needs_hook && acme.dns_hook.is_none() {
        let problem =
            Problem::value(&location.key("challenges"), "`dns-01` needs a program that sets TXT records");
        problems.push(problem.label("set `dns_hook`"));
    }
    problems
}

fn of_site(config: &Config, site: &Site) -> Vec<Problem> {
    let hosts = site.location.key("hosts");
    if site.hosts.is_empty() {
        let problem =
            Problem::value(&site.location.key("tls"), "an authority certifies names, and this site has none");
        return vec![problem.label("needs `hosts`").help("write `hosts = \"example.org\"` in this [[site]]")];
    }
    let refused = site.hosts.iter().enumerate().filter_map(|(index, host)| {
        let why = unsuitable(config, host)?;
        Some(Problem::value(&hosts.index(index), format!("no authority certifies {host}")).label(why))
    });
    refused.collect()
}

/// Returns why an authority cannot certify a host.
pub(super) fn unsuitable(config: &Config, host: &HostPattern) -> Option<&'static str> {
    match host {
        HostPattern::Unnamed => Some("write the address itself"),
        HostPattern::Below(_) if config.acme.dns_hook.is_none() => {
            Some("a wildcard needs the challenge `dns-01`: set `dns_hook` in [acme]")
        }
        HostPattern::Above(_) | HostPattern::Regex(_) => {
            Some("no authority signs such names: write each one")
        }
        // An authority in a company may certify any name.
        _ if config.acme.directory.is_some() => None,
        HostPattern::Below(parent) if !parent.contains('.') => Some("only names below a domain of your own"),
        HostPattern::Exact(name) if !name.contains(['.', ':']) || has_local_end(name) => {
            Some("a name of this machine or network: use `tls = \"internal\"`")
        }
        _ => None,
    }
}

/// Whether a name is below a domain that does not exist in the public DNS (RFC 6761, RFC 6762, RFC 8375).
fn has_local_end(name: &str) -> bool {
    let ends = ["localhost", "local", "internal", "test", "example", "invalid", "home.arpa"];
    ends.iter().any(|end| name.strip_suffix(end).is_some_and(|rest| rest.ends_with('.')))
}

/// Returns a line about ports that an authority cannot reach, unless something passes connections on.
pub(crate) fn notices(config: &Config) -> Vec<String> {
    if config.sites_with_auto().next().is_none() || config.acme.dns_hook.is_some() {
        return Vec::new();
    }
    let addresses = config.addresses();
    let has = |port, tls| {
        let mut addresses = addresses.iter().filter(|address| address.tls == tls);
        addresses.any(|address| address.endpoint.port().is_none_or(|own| own == port))
    };
    if PORTS.into_iter().any(|(port, tls)| has(port, tls)) {
        return Vec::new();
    }
    vec![
        "authorities connect to port 80 or 443 to verify a name: pass these ports on to Rudy, or listen on them"
            .to_owned(),
    ]
}

//! The `[[tcp]]` tables: connections that go to upstreams as they are. Each becomes a site without routes, so that names, addresses,
//! certificates and logs are those of sites.

use rudy_config::{Location, OneOrMany, OrOff, Problem, Table, missing};
use rudy_pipeline::routing::HostPattern;
use rudy_proxy::TcpProxyTable;
use rudy_service::listen_address::Address;
use rudy_site_tls::TlsTable;
use rudy_watch::access_log::AccessLogOptions;

use super::values::Addresses;
use super::{Config, Site};

/// Passes connections to upstreams, whatever their protocol is.
#[derive(Debug, Clone, Table)]
#[setting(default)]
pub struct TcpTable {
    /// Server names (SNI) of the connections, in the notation of `hosts`. They need an address with the option `,tls`, which other tables
    /// and sites may share. A table without names gets all other connections of its addresses, also those without a name.
    #[setting(read = OneOrMany<HostPattern>, example = ["db.example.org", "*.apps.example.org"])]
    pub server_names: Vec<HostPattern>,
    /// Addresses to accept connections on, in the notation of `listen` of the main file. With the option `,tls`, connections begin with
    /// TLS, and Rudy reads the server name. Without it, the address belongs to this table alone.
    #[setting(example = ":5432", example = ":443,tls")]
    pub listen: Option<Addresses>,
    /// Certificate with which Rudy ends TLS, as in a site: the upstream gets what was encrypted. The default is to pass TLS on to the
    /// upstream, which has the certificate.
    #[setting(example = "auto", example = { certificate = "cert.pem", key = "key.pem" })]
    pub tls: Option<TlsTable>,
    /// Protocols that Rudy offers to clients when it ends TLS (ALPN), the preferred one first. The default is none: a client that offers
    /// protocols is accepted without one.
    #[setting(example = "postgresql")]
    pub alpn: Option<OneOrMany<String>>,
    /// Access log of the connections, instead of that of the server; `false` for none. A connection has its line when it ends.
    #[setting(example = "/var/log/rudy/db.log")]
    pub access_log: Option<OrOff<AccessLogOptions>>,
    /// Where the connections go.
    #[setting(part)]
    pub proxy: TcpProxyTable,
    /// Where the table is written.
    #[setting(location)]
    pub location: Location,
}

/// What a site has instead of routes if its connections do not speak HTTP.
#[derive(Debug, Clone)]
pub struct Connections {
    /// The protocols that are offered to clients (ALPN).
    pub(crate) alpn: Vec<String>,
    /// Where the connections go.
    pub(crate) proxy: TcpProxyTable,
}

impl From<TcpTable> for Site {
    fn from(table: TcpTable) -> Self {
        let TcpTable { server_names: hosts, listen, tls, alpn, access_log, proxy, location } = table;
        let alpn = alpn.iter().flat_map(OneOrMany::as_slice).cloned().collect();
        Self {
            hosts,
            // Not those of the main file, which are for sites.
            listen: Some(listen.unwrap_or(Addresses(Vec::new()))),
            tls,
            http3: Some(false),
            redirect_to_https: Some(false),
            access_log,
            connections: Some(Box::new(Connections { alpn, proxy })),
            location,
            ..Self::default()
        }
    }
}

impl Site {
    /// Returns the key of its table with the hosts.
    pub(crate) fn hosts_key(&self) -> &'static str {
        if self.connections.is_some() { "server_names" } else { "hosts" }
    }
}

impl Config {
    /// Returns the scheme of an address in URLs: that of its sites, or of its connections if it serves no site.
    pub(crate) fn scheme_of(&self, address: &Address) -> &'static str {
        let mut sites = self.sites_at(address).peekable();
        let is_other = sites.peek().is_some() && sites.all(|site| site.connections.is_some());
        match (is_other, address.tls) {
            (true, true) => "tls",
            (true, false) => "tcp",
            (false, true) => "https",
            (false, false) => "http",
        }
    }
}

/// Reports what the tables for connections, and the sites at their addresses, cannot have.
pub(crate) fn problems(config: &Config) -> Vec<Problem> {
    let tables = config.sites.iter().filter_map(|site| Some((site, site.connections.as_deref()?)));
    tables.flat_map(|(site, connections)| of_table(config, site, connections)).collect()
}

fn of_table(config: &Config, site: &Site, connections: &Connections) -> Vec<Problem> {
    let location = |key| site.location.key(key);
    let addresses = site.addresses().unwrap_or_default();
    let mut problems = Vec::new();
    if addresses.is_empty() {
        problems.push(missing(&(), &site.location, "listen").unless_invalid(&location("listen")));
    }
    let plain = addresses.iter().find(|address| !address.tls);
    for (key, is_set) in [(site.hosts_key(), !site.hosts.is_empty()), ("tls", site.tls.is_some())] {
        if let Some(address) = plain.filter(|_| is_set) {
            let title = format!("`{key}` needs TLS, and connections to {address} have none");
            let help = format!("append `,tls` to the address: `listen = \"{address},tls\"`");
            problems.push(Problem::key(&location(key), title).label("needs TLS").help(help));
        }
    }
    if !connections.alpn.is_empty() && site.tls.is_none() {
        let problem = Problem::key(&location("alpn"), "`alpn` has no effect without `tls`");
        problems.push(problem.label("the upstream chooses the protocol when TLS is passed on to it"));
    }
    if let Some(name) = connections.alpn.iter().find(|name| !(1..=255).contains(&name.len())) {
        let title = format!("a name of a protocol has 1 to 255 bytes, and \"{name}\" has {}", name.len());
        problems.push(Problem::value(&location("alpn"), title).label("not a name"));
    }
    if site.tls.as_ref().is_some_and(|tls| tls.early_data) {
        let problem = Problem::key(&location("tls").key("early_data"), "connections have no early data");
        problems.push(problem.label("a repeated message would be executed twice: remove it"));
    }
    problems.extend(addresses.iter().filter_map(|address| shared(config, site, address)));
    problems
}

/// Returns the problem of an address whose connections could be those of several tables, or speak HTTP.
fn shared(config: &Config, site: &Site, address: &Address) -> Option<Problem> {
    let location = site.location.key("listen");
    if address.h2c {
        let problem = Problem::value(&location, format!("`,h2c` of {address} is for sites"));
        return Some(problem.label("remove the option: any protocol is passed on"));
    }
    let other = config.sites_at(address).find(|other| other.location != site.location)?;
    (!address.tls).then(|| {
        let title = format!("without TLS, connections to {address} have no server name to choose by");
        let problem = Problem::value(&location, title).label("another table has the address");
        let problem = problem.also(&other.location, "this one");
        problem.help("use another port, or TLS with `server_names`")
    })
}

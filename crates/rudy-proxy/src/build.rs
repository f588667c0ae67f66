//! Builds proxies from their tables.

use std::path::PathBuf;

use rudy_config::{Int, Location, Problem};
use rudy_files::Folders;
use rudy_files::replacement::Replacements;
use rudy_pipeline::{BuildContext, Handler, HandlerConfig};
use rudy_system::watched_files::folders_of;
use rudy_units::Time;

use super::Proxy;
use super::health::HealthCheckTable;
use super::table::{ProxyTable, UpstreamTable};
use super::tls::UpstreamTls;

impl ProxyTable {
    /// Returns the proxy with this table, for a route with this name.
    ///
    /// # Errors
    ///
    /// All problems of the table.
    pub fn proxy(&self, location: &Location, route: String) -> Result<Proxy, Vec<Problem>> {
        self.proxy_with(location, route, Ok(Replacements::none()))
    }

    /// As [`Self::proxy`], with what the upstreams may name.
    fn proxy_with(
        &self,
        location: &Location,
        route: String,
        replacements: Result<Replacements, Vec<Problem>>,
    ) -> Result<Proxy, Vec<Problem>> {
        let mut problems = self.problems(location);
        let unusable = |why| Problem::value(&location.key("resolver"), why);
        match (UpstreamTls::new(self, location), self.resolver(), replacements) {
            (Ok(tls), Ok(resolver), Ok(replacements)) if problems.is_empty() => {
                return Ok(Proxy::new(self, tls, resolver, replacements, route));
            }
            (tls, resolver, replacements) => {
                problems.extend([tls.err(), replacements.err()].into_iter().flatten().flatten());
                problems.extend(resolver.err().map(unusable));
            }
        }
        Err(problems)
    }
}

/// Returns the first host and path of a route, as in `example.org/api/*`.
pub fn name_of(route: &BuildContext<'_>) -> String {
    let path = route.paths.first().map(ToString::to_string).unwrap_or_default();
    format!("{}{path}", route.host())
}

impl HandlerConfig for ProxyTable {
    fn describe(&self) -> String {
        let upstream = |UpstreamTable { url, weight, backup }: &UpstreamTable| {
            let weight = (*weight != Int(1)).then(|| format!("weight {}", weight.as_u32()));
            let details: Vec<_> = weight.into_iter().chain(backup.then(|| "backup".to_owned())).collect();
            if details.is_empty() { url.to_string() } else { format!("{url} ({})", details.join(", ")) }
        };
        let upstreams = self.upstreams().iter().map(upstream).collect::<Vec<_>>().join(" ");
        let check = |HealthCheckTable { path, interval: Time(interval), .. }: &_| {
            format!("health check {path} every {}", rudy_units::duration(*interval))
        };
        let unverified = self.insecure_skip_verify.then(|| "certificates are NOT verified".to_owned());
        let details = self.health_check.iter().map(check).chain(unverified);
        [upstreams].into_iter().chain(details).collect::<Vec<_>>().join(", ")
    }

    fn build(&self, route: &BuildContext<'_>) -> Result<Box<dyn Handler>, Vec<Problem>> {
        let folders = &*route.resources.of::<Folders>();
        let replacements = Replacements::open(&self.replacements, false, route.location, folders);
        Ok(Box::new(self.proxy_with(route.location, name_of(route), replacements)?))
    }

    fn keeps_state(&self) -> bool {
        self.sticky.is_some()
    }

    fn paths_read(&self) -> Vec<PathBuf> {
        let files = [&self.trusted_certificates, &self.client_certificate, &self.client_key];
        // Their folders, because a renewal replaces the files.
        let folders = files.into_iter().flatten().flat_map(|path| folders_of(&path.0));
        folders.chain(self.replacements.paths_read()).collect()
    }
}

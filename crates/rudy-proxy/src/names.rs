//! What the names of upstreams resolve to, for `rudy check`.

use rudy_client::{Answer, Resolver, UpstreamAddress, list_addresses};

use super::table::ProxyTable;
use super::url::{Destination, UpstreamUrl};

impl ProxyTable {
    /// Returns the URLs of the upstreams with names, and lookups that return what each resolves to, in lines.
    pub fn lookups(
        &self,
    ) -> impl Iterator<Item = (String, impl Future<Output = Result<Vec<String>, String>> + Send + 'static + use<>)>
    {
        let of_url = |url: &UpstreamUrl| {
            let (resolver, destination) = (self.resolver(), url.destination.clone());
            (url.to_string(), async move { resolve(&resolver?, &destination).await })
        };
        let is_name = |url: &&UpstreamUrl| {
            matches!(
                &url.destination,
                Destination::Service(_) | Destination::Address(UpstreamAddress::Name { .. })
            )
        };
        self.urls().filter(is_name).map(of_url)
    }
}

async fn resolve(resolver: &Resolver, destination: &Destination) -> Result<Vec<String>, String> {
    match destination {
        Destination::Address(UpstreamAddress::Name { host, port }) => {
            Ok(vec![addresses(resolver, host, *port).await?])
        }
        // They need no lookup.
        Destination::Address(address) => Ok(vec![address.to_string()]),
        Destination::Service(name) => {
            let Answer { records, .. } = resolver.targets(name).await?;
            let mut lines = Vec::new();
            for target in records {
                let of_target = addresses(resolver, &target.host, target.port).await;
                let addresses = of_target.unwrap_or_else(|why| format!("does not resolve: {why}"));
                let (priority, weight) = (target.priority, target.weight);
                lines.push(format!("{target} (priority {priority}, weight {weight}): {addresses}"));
            }
            Ok(lines)
        }
    }
}

async fn addresses(resolver: &Resolver, host: &str, port: u16) -> Result<String, String> {
    Ok(list_addresses(&resolver.addresses(host, port).await?.records))
}

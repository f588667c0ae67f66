//! Notices of `rudy check` about apps.

use rudy_client::UpstreamAddress;

use super::Config;
use super::HandlerTable;

impl Config {
    /// Missing sockets of PHP sites: a notice, not an error, because php-fpm may start later.
    pub(super) fn absent_sockets(&self) -> impl Iterator<Item = String> {
        let routes = self.sites.iter().flat_map(|site| &site.routes);
        let addresses = routes.flat_map(|route| match &route.handler {
            HandlerTable::Php(php) => {
                let app = &php.0.app;
                if app.command.is_none() { app.addresses() } else { Vec::new() }
            }
            _ => Vec::new(),
        });
        addresses.filter_map(|address| match address {
            UpstreamAddress::Unix(path) if !path.exists() => Some(format!(
                "{} does not exist: PHP requests get 502 until php-fpm listens on it; set `address` if it \
                 listens elsewhere",
                path.display()
            )),
            _ => None,
        })
    }
}

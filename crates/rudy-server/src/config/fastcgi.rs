//! What `rudy check` notices of apps.

use super::{AppTable, Config};
use crate::handlers::{HandlerConfig, HandlerTable};
use crate::upstream::UpstreamAddress;

impl Config {
    /// Sockets of PHP sites that are not there: a notice and no error, because php-fpm may start after us.
    pub(super) fn absent_sockets(&self) -> impl Iterator<Item = String> {
        let routes = self.sites.iter().flat_map(|site| &site.routes);
        let addresses = routes.flat_map(|route| match &route.handler {
            HandlerTable::Php(php) => php.app().map(AppTable::addresses).unwrap_or_default(),
            _ => Vec::new(),
        });
        addresses.filter_map(|address| match address {
            UpstreamAddress::Unix(path) if !path.exists() => Some(format!(
                "{} is not there: requests for PHP get 502 until php-fpm listens on it (`address` says \
                 where, if it is elsewhere)",
                path.display()
            )),
            _ => None,
        })
    }
}

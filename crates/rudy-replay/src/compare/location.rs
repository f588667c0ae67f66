//! Targets of redirects: relative or absolute, they are the same on the same host.

use rudy_request::Url;

use super::{Comparison, Difference, Kind};
use crate::Response;

/// A server, and the host by which requests name it.
#[derive(Debug, Clone)]
pub struct Side {
    /// The URL of the server, with the target of the request.
    pub url: Url,
    /// The Host field.
    pub host: String,
}

impl Comparison {
    pub(super) fn redirect(&self, old: &Response, new: &Response) -> Option<Difference> {
        let (a, b) = (self.old.target(old), self.new.target(new));
        if a == b {
            return None;
        }
        // A status that differs explains that there is no target.
        if old.status != new.status && (a.is_none() || b.is_none()) {
            return None;
        }
        let shown = |target: Option<String>| {
            target.map_or_else(|| "absent".to_owned(), |target| self.values.masked(&target))
        };
        let detail = format!("{} → {}", shown(a), shown(b));
        Some(Difference::new(Kind::Redirect, format!("target of {}", old.status)).with_detail(detail))
    }
}

impl Side {
    /// The target of the response. One on the same host is a path.
    fn target(&self, response: &Response) -> Option<String> {
        let location = response.field("location")?;
        let Ok(target) = self.url.join(&location) else { return Some(location) };
        let fragment = location.split_once('#').map_or(String::new(), |(_, fragment)| format!("#{fragment}"));
        let is_own = target.same_origin(&self.url)
            || (target.is_secure() == self.url.is_secure() && self.is_host(&target));
        Some(if is_own { format!("{}{fragment}", target.target()) } else { format!("{target}{fragment}") })
    }

    /// Whether a URL has the host of the request, with its port or that of the server.
    fn is_host(&self, target: &Url) -> bool {
        let name = self.host.rsplit_once(':').map_or(self.host.as_str(), |(name, _)| name);
        target.authority().eq_ignore_ascii_case(&self.host)
            || (target.host().eq_ignore_ascii_case(name) && target.port() == self.url.port())
    }
}

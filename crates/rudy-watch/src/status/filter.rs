//! Which active requests a report shows.

use rudy_admin::{ActiveRequest, Filter};
use rudy_pipeline::network::Network;

/// Returns whether a filter selects this request.
pub(super) fn selects(filter: &Filter, request: &ActiveRequest) -> bool {
    let of = |value: &Option<String>| value.clone().unwrap_or_default();
    filter.phase.is_none_or(|phase| phase == request.phase)
        && request.age_ms >= filter.min_age_ms
        && filter.client.as_ref().is_none_or(|client| is_of_client(&request.client, client))
        && filter.host.as_ref().is_none_or(|host| of(&request.host).eq_ignore_ascii_case(host))
        && filter.path.as_ref().is_none_or(|path| request.path.starts_with(path))
        && filter.upstream.as_ref().is_none_or(|upstream| of(&request.upstream).contains(upstream))
}

/// Whether a client has an address, or one in a network.
pub(super) fn is_of_client(client: &str, address: &str) -> bool {
    let (Ok(ip), Ok(network)) = (client.parse(), address.parse::<Network>()) else {
        return client == address;
    };
    network.contains(ip)
}

#[cfg(test)]
mod tests {
    use rudy_admin::Phase;

    use super::*;

    fn request() -> ActiveRequest {
        ActiveRequest {
            id: "7.1".to_owned(),
            age_ms: 1000,
            phase: Phase::Waiting,
            client: "192.0.2.7".to_owned(),
            method: "GET".to_owned(),
            host: Some("Example.org".to_owned()),
            path: "/api/slow".to_owned(),
            version: "HTTP/1.1".to_owned(),
            route: None,
            upstream: Some("http://10.0.0.1:3000".to_owned()),
            user: None,
            received_bytes: 0,
            sent_bytes: 0,
        }
    }

    #[test]
    fn all_parts_of_a_filter_must_match() {
        let text = |text: &str| Some(text.to_owned());
        let none = Filter::default();
        for (filter, expected) in [
            (none.clone(), true),
            (Filter { client: text("192.0.2.7"), ..none.clone() }, true),
            (Filter { client: text("192.0.2.0/24"), ..none.clone() }, true),
            (Filter { client: text("192.0.2.8"), ..none.clone() }, false),
            (Filter { client: text("unix:"), ..none.clone() }, false),
            (Filter { host: text("example.ORG"), path: text("/api/"), ..none.clone() }, true),
            (Filter { host: text("example.org"), path: text("/other"), ..none.clone() }, false),
            (Filter { upstream: text("10.0.0.1"), phase: Some(Phase::Waiting), ..none.clone() }, true),
            (Filter { phase: Some(Phase::Sending), ..none.clone() }, false),
            (Filter { min_age_ms: 1001, ..none }, false),
        ] {
            assert_eq!(selects(&filter, &request()), expected, "{filter:?}");
        }
    }
}

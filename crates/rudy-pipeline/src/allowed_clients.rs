//! The clients that can use a restricted handler.

use std::fmt;

use http::StatusCode;
use rudy_config::{Invalid, OneOrMany, Setting, Shape, Value};
use rudy_service::{Request, Response};

use super::handling::Context;
use crate::conditions::AllowedClient;
use crate::conditions::clients::forwarding_field;
use crate::pages;

/// A list of allowed clients.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AllowedClients(OneOrMany<AllowedClient>);

impl Setting for AllowedClients {
    const SHAPE: Shape = <OneOrMany<AllowedClient>>::SHAPE;

    fn read(value: &Value<'_>) -> Result<Self, Invalid> {
        Setting::read(value).map(Self)
    }

    fn written(&self) -> Option<String> {
        self.0.written()
    }
}

impl AllowedClients {
    /// Returns a list that allows all clients.
    #[must_use]
    pub fn anyone() -> Self {
        Self([AllowedClient::Anyone].into_iter().collect())
    }

    /// Returns a list that allows clients on this machine.
    #[must_use]
    pub fn loopback() -> Self {
        Self([AllowedClient::Loopback].into_iter().collect())
    }

    /// Returns whether the client of a request is allowed.
    pub fn allows(&self, request: &Request<'_>, context: Context<'_>) -> bool {
        let listeners = context.routes.router.listeners();
        self.0.as_slice().iter().any(|group| group.is_client(request, context.client, listeners, false))
    }

    /// Returns a 403 response for a client that is not allowed. (404 would suggest a mistake in the routes.)
    pub fn reject(&self, request: &Request<'_>, context: Context<'_>) -> Option<Response> {
        if self.allows(request, context) {
            return None;
        }
        let groups = self.0.as_slice();
        let is_near = groups.contains(&AllowedClient::Loopback) && context.client.peer.is_local();
        let is_forwarded = context.client.address() != context.client.peer;
        let explanation = match forwarding_field(request).filter(|_| is_near) {
            Some(field) => format!(
                "Only clients on the server's own machine are allowed here, and this request came through a proxy: it has \
                 the field {field}."
            ),
            None if is_near && !is_forwarded => "Only requests for localhost, an IP address or a host of the configuration are allowed here. \
                                This protects the server from web pages whose name resolves to this machine (DNS \
                                rebinding). Use http://localhost, or add the host to `hosts` of a site."
                .to_owned(),
            None if groups == [AllowedClient::Loopback] => {
                "Only clients on the server's own machine are allowed here.".to_owned()
            }
            None => "Clients with your address are not allowed here.".to_owned(),
        };
        Some(pages::error(StatusCode::FORBIDDEN, request.headers(), &explanation))
    }
}

impl fmt::Display for AllowedClients {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let groups = self.0.as_slice().iter().map(|group| match group {
            AllowedClient::Loopback => "this machine only".to_owned(),
            other => other.to_string(),
        });
        f.write_str(&groups.collect::<Vec<_>>().join(", "))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use http::{HeaderName, HeaderValue};
    use rudy_service::{Body, Client, Forwarded, Peer};

    use super::*;
    use crate::Routes;
    use crate::request_state::HasRequestState;

    fn allowed(text: &str) -> AllowedClients {
        type Table = std::collections::BTreeMap<String, AllowedClients>;
        rudy_config::from_text::<Table>(&format!("allow = {text}")).unwrap().remove("allow").unwrap()
    }

    fn ip(address: &str) -> Peer {
        Peer::Ip(format!("{address}:5000").parse().unwrap())
    }

    /// The explanation for a client at `peer` whose request has these fields; empty if it is allowed.
    fn page(allow: &str, client: &Client<'_>, fields: &[&str]) -> String {
        let mut request = Request::default();
        let names =
            ["host"].iter().chain(fields).map(|name| (name.parse().unwrap(), HeaderValue::from_static("x")));
        *request.headers_mut() = names.collect();
        page_of(allow, client, &request)
    }

    fn page_of(allow: &str, client: &Client<'_>, request: &Request<'_>) -> String {
        let routes = Arc::new(Routes::none());
        match allowed(allow).reject(request, Context::new(client, &routes)).map(|response| response.body) {
            Some(Body::Bytes(text)) => String::from_utf8(text.to_vec()).unwrap(),
            Some(_) => panic!("a page is in memory"),
            None => String::new(),
        }
    }

    #[test]
    fn loopback_is_this_machine_without_a_proxy() {
        let page = |peer, fields: &[&str]| page("'loopback'", &Client::new(peer, 1, 1), fields);
        for peer in [ip("127.0.0.1"), ip("127.9.9.9"), ip("[::1]"), ip("[::ffff:127.0.0.1]"), Peer::Unix] {
            assert_eq!(page(peer, &["accept", "x-forward", "viaduct"]), "", "{peer}");
            for field in [
                "Forwarded",
                "X-Forwarded-For",
                "X-Forwarded-Proto",
                "X-Forwarded-Prefix",
                "X-Real-IP",
                "Via",
                "CDN-Loop",
                "CF-Connecting-IP",
                "True-Client-IP",
                "X-Client-IP",
            ] {
                let page = page(peer, &[field]);
                assert!(
                    page.contains("came through a proxy") && page.contains(&field.to_lowercase()),
                    "{page}"
                );
            }
        }
        let unnamed = [Peer::Unnamed(None), Peer::Unnamed(Some([127, 0, 0, 1].into()))];
        for peer in [ip("192.0.2.1"), ip("[2001:db8::1]")].into_iter().chain(unnamed) {
            assert_eq!(
                page(peer, &[]),
                "403 Forbidden\nOnly clients on the server's own machine are allowed here.\n"
            );
            assert!(!page(peer, &["via"]).is_empty());
        }
    }

    #[test]
    fn loopback_remembers_what_a_step_has_removed_and_the_host_of_a_web_page() {
        let client = Client::new(ip("127.0.0.1"), 1, 1);
        let mut request = Request::default();
        request.headers_mut().insert(http::header::HOST, HeaderValue::from_static("evil.example"));
        assert!(page_of("'loopback'", &client, &request).contains("DNS rebinding"));
        assert_eq!(page_of("['loopback', '127.0.0.0/8']", &client, &request), "");
        // A rule that denies this machine denies it for every host.
        assert!(AllowedClient::Loopback.includes(&request, &client));
        request.state_mut().came_through_proxy = Some(HeaderName::from_static("x-real-ip"));
        assert!(
            page_of("'loopback'", &client, &request).contains("through a proxy: it has the field x-real-ip")
        );
    }

    #[test]
    fn addresses_are_compared_with_that_of_the_client() {
        const ALLOW: &str = "['10.0.0.0/8', '2001:db8::7']";
        let matches = |client: &Client<'_>| page(ALLOW, client, &["x-forwarded-for"]).is_empty();
        for (peer, expected) in [
            (ip("10.1.2.3"), true),
            (ip("[::ffff:10.1.2.3]"), true),
            (ip("[2001:db8::7]"), true),
            (ip("[2001:db8::8]"), false),
            (ip("127.0.0.1"), false),
            (Peer::Unix, false),
            (Peer::Unnamed(Some([10, 0, 0, 1].into())), false),
        ] {
            assert_eq!(matches(&Client::new(peer, 1, 1)), expected, "{peer}");
        }
        for (address, expected) in [(ip("10.1.2.3"), true), (ip("203.0.113.7"), false)] {
            let forwarded = Some(Arc::new(Forwarded { address, scheme: None, host: None }));
            let client = Client { forwarded, ..Client::new(ip("10.0.0.1"), 1, 1) };
            assert_eq!(matches(&client), expected, "{address}");
        }
    }

    #[test]
    fn groups_add_up() {
        let far = Client::new(ip("203.0.113.7"), 1, 1);
        let near = Client::new(Peer::Unix, 1, 1);
        assert_eq!(page("'anyone'", &far, &["via"]), "");
        assert_eq!(page("['loopback', '203.0.113.0/24']", &far, &[]), "");
        assert_eq!(page("['loopback', '203.0.113.0/24']", &near, &[]), "");
        assert!(page("['loopback', '10.0.0.1']", &far, &[]).contains("with your address"));
        assert!(page("['loopback', '10.0.0.1']", &near, &["via"]).contains("through a proxy"));
        assert_eq!(allowed("['loopback', '10.0.0.1']").to_string(), "this machine only, 10.0.0.1");
    }

    #[test]
    fn allowed_clients_must_be_configured() {
        assert_eq!(
            "local".parse::<AllowedClient>().unwrap_err(),
            "expected an address, or a network such as \"10.0.0.0/8\", \"loopback\" or \"anyone\""
        );
    }
}

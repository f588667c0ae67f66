use std::sync::Arc;

use http::HeaderName;
use http::uri::Scheme;
use rudy_service::{Forwarded, Peer, RequestBody};

use super::*;
use crate::hosts::Hosts;

fn conditions(toml: &str) -> Conditions {
    rudy_config::from_text(toml).unwrap()
}

fn client(address: Peer, scheme: Scheme) -> Client<'static> {
    let forwarded = Forwarded { address, scheme: Some(scheme), host: None };
    Client { forwarded: Some(Arc::new(forwarded)), ..Client::new(Peer::Unix, 1, 1) }
}

fn is_met(toml: &str, request: http::Request<()>, client: &Client<'_>) -> bool {
    let request = Request::from(request.map(|()| RequestBody::empty()));
    let path = RequestPath::parse(request.path()).unwrap();
    let listeners = Listeners::Alike(Hosts::default());
    conditions(toml).are_met(&Examined { request: &request, path: &path, client, listeners: &listeners })
}

#[test]
fn a_request_meets_all_conditions_or_none_of_not() {
    let client = client(Peer::Ip("192.0.2.7:1".parse().unwrap()), Scheme::HTTPS);
    for (toml, target, fields, expected) in [
        ("", "/", &[][..], true),
        ("methods = 'GET'", "/", &[], true),
        ("methods = ['POST', 'PUT']", "/", &[], false),
        ("path = ['/a/*', '*.css']", "/b/x.css", &[], true),
        ("path = '/a/*'", "/b", &[], false),
        ("path = '/a/*'", "/%61/x", &[], true),
        ("headers = { X-A = '1' }", "/", &[("x-a", "1")], true),
        ("headers = { X-A = ['2', '1*'] }", "/", &[("x-a", "0"), ("x-a", "12")], true),
        ("headers = { X-A = '*' }", "/", &[("x-b", "1")], false),
        ("headers = { X-A = '*' }", "/", &[("x-a", "")], true),
        ("headers = { X-A = '1', X-B = '*' }", "/", &[("x-a", "1")], false),
        ("cookies = { a = '1' }", "/", &[("cookie", "aa=1; b=a=1")], false),
        ("cookies = { a = '1' }", "/", &[("cookie", "b=2"), ("cookie", "a=0;a=1")], true),
        ("query = { a = '1' }", "/?b=1&a=1", &[], true),
        ("query = { a = '1' }", "/?%61=%31", &[], true),
        ("query = { 'a b' = 'c d' }", "/?a+b=c%20d", &[], true),
        ("query = { a = '*' }", "/?a", &[], true),
        ("query = { a = '*' }", "/a=1", &[], false),
        ("scheme = 'https'", "/", &[], true),
        ("scheme = 'http'", "/", &[], false),
        ("certificate = '*'", "/", &[], false),
        ("clients = '192.0.2.0/24'", "/", &[], true),
        ("clients = ['10.0.0.0/8', '192.0.2.8']", "/", &[], false),
        ("not = { methods = 'GET' }", "/", &[], false),
        ("not = { methods = 'GET', headers = { X-A = '*' } }", "/", &[], true),
        ("not = [{ methods = 'POST' }, { scheme = 'https' }]", "/", &[], false),
        ("not = { not = { methods = 'GET' } }", "/", &[], true),
        ("methods = 'GET'\nnot = { path = '/a' }", "/b", &[], true),
    ] {
        let request =
            fields.iter().fold(http::Request::get(target), |made, (name, value)| made.header(*name, *value));
        assert_eq!(is_met(toml, request.body(()).unwrap(), &client), expected, "{toml}: {target} {fields:?}");
    }
}

#[test]
fn a_client_without_an_address_meets_no_condition_on_it_whether_or_not_it_is_negated() {
    let client = client(Peer::Unnamed(None), Scheme::HTTP);
    for toml in ["clients = '0.0.0.0/0'", "not = { clients = '10.0.0.0/8' }"] {
        assert!(!is_met(toml, http::Request::new(()), &client), "{toml}");
    }
    assert!(is_met("clients = 'anyone'", http::Request::new(()), &client));
}

#[test]
fn conditions_name_the_fields_on_which_they_depend() {
    let toml = "headers = { X-A = '*' }\nquery = { a = '1' }\nnot = { cookies = { b = '*' }, headers = { X-C = '*' } }";
    let mut fields = Vec::new();
    conditions(toml).fields(&mut |name: HeaderName| fields.push(name.to_string()));
    assert_eq!(fields, ["x-a", "x-c", "cookie"]);
    let text = "field x-a: *, parameter a: 1, not (field x-c: *, cookie b: *)";
    assert_eq!(conditions(toml).to_string(), text);
}

#[test]
fn equal_conditions_of_a_site_have_one_number() {
    let mut site = SiteConditions::default();
    let one = |number: usize| [conditions(&format!("methods = 'M{number}'"))].into_iter().collect();
    let numbers = (0..CONDITIONS_MAX).map(|number| site.add(&one(number)));
    assert!(numbers.eq((0..64).map(Some)));
    assert_eq!((site.add(&one(CONDITIONS_MAX)), site.add(&one(63))), (None, Some(63)));
}
